import Crypto
import Forward
import TLS
import Traffic
import Transport

/// A client's connection, for the API.
struct ConnectedClient: Sendable {
  let address: String
  let kind: TrafficKind
  let seconds: UInt64
  let requests: Int
  let certificate: Certificate?
  let isVerified: Bool

  /// More than these are not listed.
  static let limit = 10_000
}

extension Worker {
  /// The clients that are connected, in no order.
  var connectedClients: [ConnectedClient] {
    sessions.values.prefix(ConnectedClient.limit).map { session in
      ConnectedClient(
        address: "\(session.facts.peer)", kind: session.servers.settings.kind, seconds: session.age / 1000,
        requests: session.requests, certificate: session.facts.clientVerdict?.certificate,
        isVerified: session.facts.isVerified)
    }
  }
}

package import Crypto
package import Transport

extension StatusResponder {
  /// The addresses to which a question to a responder that a certificate names may go, as text; it throws if there are none.
  /// Waits for the system's resolver.
  ///
  /// Whoever asks about the certificate of a client connects to these only: a CA that copies extensions from signing requests
  /// lets its clients name a responder. `remedy`: how the operator names one, which may be anywhere.
  package func addressesForCertificate(
    elseBy remedy: StaticString, lookUp: Resolver.LookUp = { Resolver.addresses(of: $0, port: $1) }
  ) throws(OCSPError) -> [String] {
    let port = portNumber ?? 80
    let found = SocketAddress(literal: host, port: port).map { [$0] } ?? lookUp(host, port)
    guard !found.isEmpty else { throw OCSPError("\(self): the name \(host) has no address") }
    let far = found.filter { !$0.isNear }
    guard !far.isEmpty else {
      throw OCSPError(
        "\(self): \(host) is an address of this machine or its link, which no certificate may make it ask: \(remedy)")
    }
    return far.map(\.host)
  }
}

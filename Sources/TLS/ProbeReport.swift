package import Crypto
import Glibc

/// What one handshake with a server showed, for a person to read: `sallyport probe`.
package struct ProbeReport: Sendable {
  /// One handshake message or alert.
  package struct Step: Sendable {
    package enum Direction: String, Sendable { case sent, received }
    package var direction: Direction
    package var name: String
    /// Since the first one.
    package var microseconds: Int64
  }

  /// Whether we would speak to this server.
  package enum Trust: Sendable, Equatable {
    case trusted
    /// The kind is one of $upstream_ssl_result's.
    case refused(kind: String, reason: String)
    /// The policy verifies nothing (`proxy_ssl_verify off` without a pin): whoever answers would do.
    case unverified
    /// The pin does not match, which the policy only reports (`proxy_ssl_pin_report_only`).
    case reportOnly(String)
    /// There was no certificate to judge, or nobody proved to hold its key.
    case unknown
  }

  /// Whether it takes us in.
  package enum Acceptance: Sendable, Equatable {
    /// It asked for no certificate; the status it answered with, when it did.
    case notAsked(status: Int?)
    /// It asked, and answered our request.
    case accepted(status: Int)
    case refused(String)
    case unknown(String)
  }

  package enum Stapled: Sendable, Equatable {
    case none
    case good(until: Int64)
    case revoked
    case unknown
    /// The response counts for nothing.
    case fault(String)
  }

  package var steps: [Step] = []
  /// `TLSv1.3`; empty where none was negotiated.
  package var protocolName = ""
  package var cipher = ""
  /// The group of the key exchange.
  package var group = ""
  /// With what the server proved its key: `ECDSA with SHA256`.
  package var signature = ""
  package var applicationProtocol = ""
  /// The server asked for a certificate of ours; `authorities`: of which CAs, empty when it named none.
  package var certificateRequest: [String]?
  package var presented: Certificate?
  /// As sent, leaf first.
  package var certificates: [Certificate] = []
  package var stapled = Stapled.none
  /// Why the handshake did not come to its end.
  package var failure: String?
  package var trust = Trust.unknown
  package var acceptance = Acceptance.unknown("the handshake failed")

  package init() {}

  package var trustsServer: Bool {
    switch trust {
    case .trusted, .reportOnly: true
    case .refused, .unverified, .unknown: false
    }
  }

  package var isAccepted: Bool {
    switch acceptance {
    case .notAsked, .accepted: true
    case .refused, .unknown: false
    }
  }
}

/// Names of handshake messages (RFC 8446 §4, RFC 5246 §7.4) and alerts (§6).
enum HandshakeNames {
  /// What a client sends only to a server whose signature it has checked.
  static let afterProof: Set<String> = [message(16), message(20)]

  static func message(_ type: UInt8) -> String {
    switch type {
    case 0: "HelloRequest"
    case 1: "ClientHello"
    case 2: "ServerHello"
    case 4: "NewSessionTicket"
    case 8: "EncryptedExtensions"
    case 11: "Certificate"
    case 12: "ServerKeyExchange"
    case 13: "CertificateRequest"
    case 14: "ServerHelloDone"
    case 15: "CertificateVerify"
    case 16: "ClientKeyExchange"
    case 20: "Finished"
    case 22: "CertificateStatus"
    case 24: "KeyUpdate"
    default: "message \(type)"
    }
  }
}

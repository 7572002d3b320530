package import Crypto
import Glibc
package import Negotiation

/// What one handshake with a server showed, for a person to read: `sallyport probe`.
package struct ProbeReport: Sendable {
  /// One handshake message or alert.
  package struct Step: Sendable {
    package enum Direction: String, Sendable { case sent, received }
    package var direction: Direction
    package var name: String
    /// Microseconds since the start of the probe.
    package var microseconds: Int64
  }

  /// Whether the policy trusts the server.
  package enum Trust: Sendable, Equatable {
    case trusted
    /// `kind` is a value of $upstream_ssl_result.
    case refused(kind: String, reason: String)
    /// The policy verifies nothing (`proxy_ssl_verify off` without a pin) and accepts any server.
    case unverified
    /// The pin does not match, and the policy only reports this (`proxy_ssl_pin_report_only`).
    case reportOnly(String)
    /// The server sent no certificate, or did not prove possession of its key.
    case unknown
  }

  /// Whether the server accepts the client.
  package enum Acceptance: Sendable, Equatable {
    /// The server requested no certificate. `status`: that of its HTTP response, if there was one.
    case notAsked(status: Int?)
    /// The server requested a certificate, and answered the HTTP request. nil: by a reset of the stream, or with a
    /// status that the probe can't read.
    case accepted(status: Int?)
    case refused(String)
    /// The server requested a certificate, and answered with this status of 400 to 499, which may be for the certificate
    /// or for the request.
    case undecided(status: Int)
    case unknown(String)
  }

  package enum Stapled: Sendable, Equatable {
    case none
    case good(until: Int64)
    case revoked
    case unknown
    /// The response is invalid.
    case fault(String)
  }

  package var steps: [Step] = []
  /// In whose words the server agreed to TLS; nil: TLS began at once, or it didn't agree.
  package var negotiated: NegotiatedProtocol?
  /// The server's port where TLS began at once.
  package var port: UInt16?
  /// `TLSv1.3`; empty when no version was negotiated.
  package var protocolName = ""
  package var cipher = ""
  /// The group of the key exchange.
  package var group = ""
  /// The signature algorithm by which the server proved possession of its key: `ECDSA with SHA256`.
  package var signature = ""
  package var applicationProtocol = ""
  /// The CAs that the server named when it requested a certificate; empty when it named no CA. nil: it requested no
  /// certificate.
  package var certificateRequest: [String]?
  package var presented: Certificate?
  /// The certificates in the order in which the server sent them, leaf first.
  package var certificates: [Certificate] = []
  package var stapled = Stapled.none
  /// Why the handshake did not complete.
  package var failure: String?
  /// What stands behind the failure, if it is known.
  package var fault: HandshakeFault?
  package var trust = Trust.unknown
  package var acceptance = Acceptance.unknown("the handshake failed")

  /// The chain leads to no anchor of the policy.
  package enum AnchorFault: Sendable, Equatable {
    /// The policy names no CA: only the system's count.
    case noneNamed
    case notOfTheNamed

    init?(_ refusal: UpstreamRefusal, hasAnchors: Bool) {
      guard case .chain(let text) = refusal else { return nil }
      let words = ["issuer certificate", "self-signed", "self signed", "first certificate"]
      guard words.contains(where: { text.contains($0) }) else { return nil }
      self = hasAnchors ? .notOfTheNamed : .noneNamed
    }
  }

  package var anchorFault: AnchorFault?

  package init() {}

  /// A server that no handshake was made with. `failure`: why.
  package init(without handshake: HandshakeFault?, _ failure: String) {
    self.failure = failure
    fault = handshake
    acceptance = .unknown(failure)
  }

  package var trustsServer: Bool {
    switch trust {
    case .trusted, .reportOnly: true
    case .refused, .unverified, .unknown: false
    }
  }

  package var isAccepted: Bool {
    switch acceptance {
    case .notAsked, .accepted: true
    case .refused, .undecided, .unknown: false
    }
  }
}

/// Names the handshake messages (RFC 8446 §4, RFC 5246 §7.4) and alerts (§6).
enum HandshakeNames {
  /// Messages that a client sends only after it has checked the server's signature.
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

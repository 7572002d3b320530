import COpenSSL
package import Crypto
import Synchronization

/// The OCSP response that goes with one of a server's certificates (`ssl_stapling`; RFC 6066 §8).
///
/// Put in place by who refreshes it, read in handshakes; an answer that has ended is not sent.
package final class Staple: Sendable {
  package let question: StatusQuestion
  /// nil: the one that the certificate names is asked.
  package let responder: StatusResponder?
  /// Nobody is asked for a newer one.
  package let isFromFile: Bool
  private struct Response: Sendable {
    var der: [UInt8]
    var validUntil: Int64
  }
  private let response = Mutex<Response?>(nil)

  package init(_ question: StatusQuestion, responder: StatusResponder?, isFromFile: Bool) {
    self.question = question
    self.isFromFile = isFromFile
    self.responder = responder
  }

  /// Says that the certificate is good. One that it is not is nobody's to spread: the old one stays until it ends.
  package func put(_ der: [UInt8], validUntil: Int64) {
    response.withLock { $0 = Response(der: der, validUntil: validUntil) }
  }

  /// What another one of the same certificate has.
  package func take(over other: Staple) {
    let known = other.response.withLock { $0 }
    response.withLock { $0 = known }
  }

  /// nil when there is none that is valid.
  package func current(at now: Int64) -> [UInt8]? {
    response.withLock { response in response.flatMap { $0.validUntil > now ? $0.der : nil } }
  }

  /// Seconds since 1970; nil without a response.
  package var validUntil: Int64? { response.withLock { $0?.validUntil } }
}

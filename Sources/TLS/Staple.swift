import COpenSSL
package import Crypto
import Observability
import Synchronization

/// The OCSP response that the server sends with one of its certificates (`ssl_stapling`; RFC 6066 §8).
///
/// A refresh outside the handshakes puts the response here, and handshakes read it. An expired response is never sent.
package final class Staple: Sendable {
  package let question: OCSPRequest
  /// nil: ask the responder that the certificate names.
  package let responder: StatusResponder?
  /// The response comes from a file, so no responder is asked for a newer one.
  package let isFromFile: Bool
  private struct Response: Sendable {
    var der: [UInt8]
    var validUntil: Int64
    /// Seconds of the monotonic clock, when it came.
    var takenAt: Int64
  }
  private let response = Mutex<Response?>(nil)
  /// Why there is no newer response; nil: nothing went wrong.
  private let fault = Mutex<String?>(nil)

  /// Who is asked, one after the other until one has an answer.
  package var responders: [StatusResponder] { responder.map { [$0] } ?? question.responders }

  package init(_ question: OCSPRequest, responder: StatusResponder?, isFromFile: Bool) {
    self.question = question
    self.isFromFile = isFromFile
    self.responder = responder
  }

  /// Stores a response that says the certificate is good. The caller does not store any other response: the old one
  /// stays until it expires.
  package func put(_ der: [UInt8], validUntil: Int64, at tick: Int64 = MonotonicClock.seconds) {
    response.withLock { $0 = Response(der: der, validUntil: validUntil, takenAt: tick) }
    fault.withLock { $0 = nil }
  }

  /// Copies the response of another staple for the same certificate.
  package func take(over other: Staple) {
    let (known, reason) = (other.response.withLock { $0 }, other.fault.withLock { $0 })
    response.withLock { $0 = known }
    fault.withLock { $0 = reason }
  }

  /// Notes why there is no newer response. The one that there is stays until it expires.
  package func fail(_ reason: String) { fault.withLock { $0 = reason } }

  /// Why handshakes go without a response; nil if they have one, or nobody has answered or failed yet.
  package func absence(at now: Int64) -> String? {
    guard current(at: now) == nil else { return nil }
    if let reason = fault.withLock({ $0 }) { return reason }
    return validUntil.map { _ in isFromFile ? "the response of the file has ended" : "the response has ended" }
  }

  /// Returns the response unless there is none or it has expired.
  package func current(at now: Int64) -> [UInt8]? {
    response.withLock { response in response.flatMap { $0.validUntil > now ? $0.der : nil } }
  }

  /// Seconds since the response came; nil without one. A reload doesn't change it.
  package var age: Int64? { response.withLock { $0.map { MonotonicClock.seconds - $0.takenAt } } }

  /// Seconds since 1970; nil without a response.
  package var validUntil: Int64? { response.withLock { $0?.validUntil } }
}

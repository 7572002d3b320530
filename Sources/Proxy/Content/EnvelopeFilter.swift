import Bytes
import Envelope
import HTTP
import Observability
import Transport
import Upstream

/// `message_envelope`: between the client's envelopes and the plain bodies of the upstream.
///
///     body ─► whole ─► opened ─► attempt ─► head ─► body ─► whole ─► sealed ─► end
///                        │ 400                                │ 502
///
/// What can't be opened goes nowhere, and what can't be sealed does not leave.
final class EnvelopeFilter {
  private let envelope: MessageEnvelope
  private let settings: EnvelopeSettings
  // Uncounted: the handler owns its filter.
  private unowned(unsafe) let handler: ProxyHandler
  /// The upstream's response, until it is whole.
  private var buffered: BufferedResponse?

  init(_ envelope: MessageEnvelope, _ settings: EnvelopeSettings, _ handler: ProxyHandler) {
    self.envelope = envelope
    self.settings = settings
    self.handler = handler
  }

  private var bodies: BodyGauge { handler.worker.bodies }

  // MARK: The request

  /// In place of the handler's own: the body is an envelope, or there is none.
  func takeBody(_ exchange: Exchange) {
    guard let stream = exchange.stream else { return }
    let keepsBody = exchange.redirection.keepsBody
    // Of an error page's request this is not asked: it is a GET of ours.
    if keepsBody, exchange.head.first(.upgrade) != nil { return refuse("an upgrade is asked for", exchange) }
    if exchange.body.opened != nil { return handler.tryNext() }
    guard exchange.head.framing != .none, keepsBody, !stream.isBodyRead else {
      exchange.setBody(.none)
      return handler.tryNext()
    }
    if case .length(let length) = exchange.head.framing, length > UInt64(envelope.maxSize) {
      return refuseSize(length, exchange)
    }
    exchange.collectBody(in: RequestBody(envelopeIn: bodies))
  }

  /// Whether more of an envelope may be kept; else the client has been told.
  func admits(_ count: Int, in kept: RequestBody, _ exchange: Exchange) -> Bool {
    let total = kept.count &+ UInt64(count)
    guard total <= UInt64(envelope.maxSize) else {
      refuseSize(total, exchange)
      return false
    }
    // It is whole in memory or nowhere: where another body would go to a file, it can't be taken.
    if bodies.admits(total, having: kept.memory.count) { return true }
    exchange.log(.error, "message envelopes and kept bodies take all the memory that a worker has for them")
    exchange.failDuringBody(Failure(503))
    return false
  }

  private func refuseSize(_ size: UInt64, _ exchange: Exchange) {
    exchange.log(.error, "client intended to send too large a message envelope: \(size) bytes")
    exchange.failDuringBody(Failure(413))
  }

  /// The envelope is whole.
  func openBody(_ kept: RequestBody, _ exchange: Exchange) {
    // Chunks of no bytes: a request without a body.
    guard kept.count > 0 else {
      exchange.setBody(.none)
      return handler.tryNext()
    }
    do throws(EnvelopeFault) {
      let plain = try envelope.open(kept.memory.readable, now: handler.now)
      exchange.setBody(.collected(RequestBody(opened: plain, by: settings, gauge: bodies)))
      handler.tryNext()
    } catch {
      if error == .windowFull {
        exchange.log(.alert, "message envelope refused: \(error)")
        return exchange.fail(Failure(503))
      }
      refuse(error.description, exchange)
    }
  }

  /// One answer for every fault: the same bytes.
  private func refuse(_ reason: String, _ exchange: Exchange) {
    exchange.log(.error, "message envelope refused: \(reason)")
    exchange.fail(Failure(400))
  }

  // MARK: The response

  /// The response under way is held back.
  var isHolding: Bool { buffered != nil }

  /// Another try begins.
  func forgetResponse() { if buffered != nil { buffered = nil } }

  /// The head waits for the body. False: the attempt is over.
  func hold(_ response: ResponseHead, _ exchange: Exchange) -> Bool {
    if let length = response.announcedLength, length > UInt64(envelope.maxSize) {
      refuseToSeal("it has \(length) bytes", exchange)
      return false
    }
    buffered = BufferedResponse(gauge: bodies)
    return true
  }

  func hold(_ bytes: UnsafeRawBufferPointer, _ exchange: Exchange) {
    guard let buffered else { return }
    guard buffered.body.count + bytes.count <= envelope.maxSize else {
      return refuseToSeal("it has more than \(envelope.maxSize) bytes", exchange)
    }
    buffered.append(bytes)
  }

  /// The response is whole.
  func seal(_ exchange: Exchange) {
    guard let buffered, let pass = handler.pass, let response = handler.upstreamHead else {
      return refuseToSeal("nobody knows what it was", exchange)
    }
    self.buffered = nil
    guard !buffered.body.isEmpty else {
      handler.sendHead(of: response, exchange, pass, sealed: 0)
      return handler.finish(exchange)
    }
    do throws(SealingFault) {
      let sealed = try envelope.seal(buffered.body.readable, now: handler.now)
      handler.sendHead(of: response, exchange, pass, sealed: sealed.count)
      handler.sendBody(sealed.readable, exchange)
      handler.finish(exchange)
    } catch {
      if error == .windowFull { exchange.log(.alert, "an answer is not sealed: \(error)") }
      refuseToSeal(error.description, exchange)
    }
  }

  private func refuseToSeal(_ reason: String, _ exchange: Exchange) {
    exchange.log(.error, "upstream's answer can't be sealed: \(reason)")
    buffered = nil
    exchange.fail(Failure(502))
  }

  // MARK: Fields

  /// Of the request that would make the answer another than the one that is sealed, or that speak of the envelope.
  static let unsentFields = [
    "Accept-Encoding", "Range", "If-Range", "Content-Type", "Content-Encoding", "Content-MD5", "Digest",
    "Content-Digest", "Repr-Digest",
  ]

  /// Of the answer that speak of its plain body.
  static let unsealedFields = [
    "ETag", "Content-Encoding", "Content-MD5", "Digest", "Content-Digest", "Repr-Digest", "Accept-Ranges",
    "Content-Range",
  ]
}

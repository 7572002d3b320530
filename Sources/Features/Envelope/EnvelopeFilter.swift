import Bytes
import Envelope
package import Forward
import HTTP
import Observability
package import Traffic
import Transport
import Upstream

extension EnvelopeSettings {
  package var fileUses: [FileUse] { FileUse.material(keyFiles, reloads: reloads) }

  package func policy(_ loaded: GenerationParts) -> [PassPolicyLine] {
    [PassPolicyLine("envelope", loaded[EnvelopeMaterial.self].envelopes[self] == nil ? nil : inWords)]
  }

  package func compile(_ parts: inout PassParts, _ makers: LiveMakers) {
    guard let envelope = makers.generation[EnvelopeMaterial.self].envelopes[self] else { return parts.isBroken = true }
    for name in EnvelopeFilter.unsentFields { parts.replace(name) }
    for name in EnvelopeFilter.unsealedFields { parts.hide(name) }
    parts.ownBodies = OwnResponseBodies(type: "application/json")
    parts.requestHooks.append(EnvelopeHook(envelope, self))
  }
}

/// `message_envelope` of a pass in one worker.
private final class EnvelopeHook: RequestHook {
  let envelope: MessageEnvelope
  let settings: EnvelopeSettings

  init(_ envelope: MessageEnvelope, _ settings: EnvelopeSettings) {
    self.envelope = envelope
    self.settings = settings
  }

  override func begin(_ exchange: Exchange, _ handler: ProxyHandler) throws(ErrorResponse) -> ExchangeHook? {
    EnvelopeFilter(self, handler)
  }

  override func addFields(to outgoing: OutgoingRequestHead, of exchange: Exchange) {
    if exchange.body.opened != nil { outgoing.add(Self.openedType) }
  }

  private static let openedType = FieldBlock("Content-Type", "application/json")

  override func storage(for exchange: Exchange) -> RequestBody? { RequestBody(envelopeIn: exchange.worker.bodies) }

  override func admits(_ count: Int, in kept: RequestBody, _ exchange: Exchange) -> Bool {
    EnvelopeFilter.admits(count, in: kept, of: envelope, exchange)
  }

  override var opensBodies: Bool { true }

  /// A body may only go to a location with the same keys.
  override func takes(opened body: RequestBody) -> Bool {
    (body.opener as? EnvelopeHook).map { settings.hasKeys(of: $0.settings) } ?? false
  }
}

/// `message_envelope`: opens the client's envelopes, and seals the upstream's responses.
///
///     body ─► whole ─► opened ─► attempt ─► head ─► body ─► whole ─► sealed ─► end
///                        │ 400                                │ 502
///
/// A body that can't be opened reaches no upstream, and a response that can't be sealed doesn't reach the client.
private final class EnvelopeFilter: ExchangeHook {
  private let hook: EnvelopeHook
  private var envelope: MessageEnvelope { hook.envelope }
  private var settings: EnvelopeSettings { hook.settings }
  // Not retained: the handler owns its filter.
  private unowned(unsafe) let handler: ProxyHandler
  /// The upstream's response, until it is whole.
  private var buffered: BufferedResponse?

  init(_ hook: EnvelopeHook, _ handler: ProxyHandler) {
    self.hook = hook
    self.handler = handler
  }

  private var bodies: BodyMemoryBudget { handler.worker.bodies }

  // MARK: The request

  override func takeBody(_ exchange: Exchange) -> Bool {
    collect(exchange)
    return true
  }

  /// Collects the body, which is an envelope, or begins the attempt if there is no body.
  private func collect(_ exchange: Exchange) {
    guard let stream = exchange.stream else { return }
    let keepsBody = exchange.redirection.keepsBody
    // The request for an error page is sallyport's own GET, which has no Upgrade.
    if keepsBody, exchange.head.first(.upgrade) != nil { return refuse("an upgrade is asked for", exchange) }
    if exchange.body.opened != nil { return handler.tryNext() }
    // `message_signature verify` has collected it.
    if keepsBody, case .collected(let kept) = exchange.body.state { return open(kept, exchange) }
    guard exchange.head.framing != .none, keepsBody, !stream.isBodyRead else {
      exchange.setBody(.none)
      return handler.tryNext()
    }
    if case .length(let length) = exchange.head.framing, length > UInt64(envelope.maxSize) {
      return Self.refuseSize(length, exchange)
    }
    exchange.collectBody(in: RequestBody(envelopeIn: bodies))
  }

  /// Returns whether the body may keep `count` more bytes of an envelope; if not, the client has got an error.
  override func admits(_ count: Int, in kept: RequestBody, _ exchange: Exchange) -> Bool {
    Self.admits(count, in: kept, of: envelope, exchange)
  }

  override func take(collected kept: RequestBody, _ exchange: Exchange) -> Bool {
    open(kept, exchange)
    return true
  }

  static func admits(
    _ count: Int, in kept: RequestBody, of envelope: MessageEnvelope, _ exchange: Exchange
  ) -> Bool {
    let total = kept.count &+ UInt64(count)
    guard total <= UInt64(envelope.maxSize) else {
      refuseSize(total, exchange)
      return false
    }
    // An envelope must stay in memory. At a size at which another body goes to a file, the filter refuses the envelope.
    if exchange.worker.bodies.admits(total, having: kept.memory.count) { return true }
    exchange.log(.error, "message envelopes and kept bodies take all the memory that a worker has for them")
    exchange.failDuringBody(ErrorResponse(503))
    return false
  }

  private static func refuseSize(_ size: UInt64, _ exchange: Exchange) {
    exchange.log(.error, "client intended to send too large a message envelope: \(size) bytes")
    exchange.failDuringBody(ErrorResponse(413))
  }

  /// Opens a complete envelope.
  private func open(_ kept: RequestBody, _ exchange: Exchange) {
    // A chunked body of 0 bytes is a request without a body.
    guard kept.count > 0 else {
      exchange.setBody(.none)
      return handler.tryNext()
    }
    do throws(EnvelopeError) {
      var name: [UInt8] = []
      let plain = try envelope.open(kept.memory.readable, now: handler.worker.loop.now, name: &name)
      let body = RequestBody(opened: plain, by: hook, gauge: bodies)
      guard let (store, use) = store(exchange) else { return pass(body, exchange) }
      // Until the store knows it as new, it counts as one that was not opened.
      exchange.setBody(.collecting(kept))
      remember(name, in: store, exchange) { [self] exchange, novelty in
        switch novelty {
        case .seen: refuse(EnvelopeError.replayed.description, exchange)
        case .unanswered where use.failing == .closed:
          exchange.log(.error, "message envelope refused: no answer of the shared store, which remembers IVs")
          exchange.fail(ErrorResponse(503))
        case .new, .unanswered: pass(body, exchange)
        }
      }
    } catch {
      // The body counts as incomplete, so that an error page never gets an envelope that was not opened.
      exchange.setBody(.collecting(kept))
      if error == .windowFull {
        exchange.log(.alert, "message envelope refused: \(error)")
        return exchange.fail(ErrorResponse(503))
      }
      refuse(error.description, exchange)
    }
  }

  private func pass(_ body: RequestBody, _ exchange: Exchange) {
    exchange.setBody(.collected(body))
    handler.tryNext()
  }

  // MARK: The store

  private func store(_ exchange: Exchange) -> (StoreClient, StoreUse)? {
    guard let use = settings.replayStore, envelope.replaySpan != nil else { return nil }
    return exchange.session.live[LiveStores.self]?[use].map { ($0, use) }
  }

  private func remember(
    _ name: [UInt8], in store: StoreClient, _ exchange: Exchange,
    _ next: @escaping (Exchange, StoreWait.Novelty) -> Void
  ) {
    StoreWait.remember(
      store, StoreKey.of("envelope", "iv", name), milliseconds: envelope.replaySpan ?? 0, exchange, next)
  }

  /// Responds with the same bytes for every fault.
  private func refuse(_ reason: String, _ exchange: Exchange) {
    exchange.log(.error, "message envelope refused: \(reason)")
    exchange.fail(ErrorResponse(400))
  }

  // MARK: The response

  override var holdsResponses: Bool { true }
  override var isHolding: Bool { buffered != nil }

  /// Drops a held response, because another attempt begins.
  override func attemptDidBegin() { if buffered != nil { buffered = nil } }

  /// Holds the head until the body is complete. Returns false if the attempt is over.
  override func hold(_ response: ResponseHead, _ exchange: Exchange) -> Bool {
    if let length = response.announcedLength, length > UInt64(envelope.maxSize) {
      refuseToSeal("it has \(length) bytes", exchange)
      return false
    }
    buffered = BufferedResponse(gauge: bodies)
    return true
  }

  override func hold(_ bytes: UnsafeRawBufferPointer, _ exchange: Exchange) {
    guard let buffered else { return }
    guard buffered.body.count + bytes.count <= envelope.maxSize else {
      return refuseToSeal("it has more than \(envelope.maxSize) bytes", exchange)
    }
    buffered.append(bytes)
  }

  /// Seals a complete response and sends it.
  override func release(_ exchange: Exchange) {
    guard let buffered, let pass = handler.pass, let response = handler.upstreamHead else {
      return refuseToSeal("nobody knows what it was", exchange)
    }
    self.buffered = nil
    guard !buffered.body.isEmpty else {
      handler.sendHead(of: response, exchange, pass, own: 0)
      return handler.finish(exchange)
    }
    do throws(SealingError) {
      var name: [UInt8]?
      let sealed = try envelope.seal(buffered.body.readable, now: handler.worker.loop.now, name: &name)
      guard let name, let (store, use) = store(exchange) else {
        return send(sealed.readable, response, pass, exchange)
      }
      let bytes = Array(sealed.readable)
      // It would open as a request at another machine, which must know it before the client has it.
      remember(name, in: store, exchange) { [self] exchange, novelty in
        switch novelty {
        case .seen: refuseToSeal(SealingError.random.description, exchange)
        case .unanswered where use.failing == .closed:
          refuseToSeal("no answer of the shared store, which remembers IVs", exchange)
        case .new, .unanswered: bytes.withUnsafeBytes { send($0, response, pass, exchange) }
        }
      }
    } catch {
      if error == .windowFull { exchange.log(.alert, "an answer is not sealed: \(error)") }
      refuseToSeal(error.description, exchange)
    }
  }

  private func send(
    _ sealed: UnsafeRawBufferPointer, _ response: ResponseHead, _ pass: CompiledPass, _ exchange: Exchange
  ) {
    handler.sendHead(of: response, exchange, pass, own: sealed.count)
    handler.sendBody(sealed, exchange)
    handler.finish(exchange)
  }

  private func refuseToSeal(_ reason: String, _ exchange: Exchange) {
    exchange.log(.error, "upstream's answer can't be sealed: \(reason)")
    buffered = nil
    exchange.fail(ErrorResponse(502))
  }

  // MARK: Fields

  /// Request fields that would change the response to be sealed, or that describe the envelope.
  static let unsentFields = [
    "Accept-Encoding", "Range", "If-Range", "Content-Type", "Content-Encoding", "Content-MD5", "Digest",
    "Content-Digest", "Repr-Digest",
  ]

  /// Response fields that describe the plain body.
  static let unsealedFields = [
    "ETag", "Content-Encoding", "Content-MD5", "Digest", "Content-Digest", "Repr-Digest", "Accept-Ranges",
    "Content-Range",
  ]
}

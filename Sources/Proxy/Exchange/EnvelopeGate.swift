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
extension Exchange {
  // MARK: The request

  /// In place of `takeBody`: the body is an envelope, or there is none.
  func takeSealedBody(_ envelope: MessageEnvelope, _ pass: LiveProxyPass, _ group: UpstreamGroup) {
    guard let connection else { return }
    // Of an error page's request this is not asked: it is a GET of ours.
    if redirection.keepsBody, head.first(.upgrade) != nil { return refuseEnvelope("an upgrade is asked for") }
    if isBodyOpened { return attempt(pass, group) }
    guard head.framing != .none, redirection.keepsBody, !connection.isBodyRead else {
      body = .none
      return attempt(pass, group)
    }
    if case .length(let length) = head.framing, length > UInt64(envelope.maxSize) { return refuseSize(length) }
    body = .collecting(RequestBody(envelopeIn: worker.bodies))
    continueClient()
    connection.pump()
  }

  /// Whether more of an envelope may be kept; else the client has been told.
  func hasRoom(for count: Int, in kept: RequestBody, _ envelope: MessageEnvelope) -> Bool {
    let total = kept.count &+ UInt64(count)
    guard total <= UInt64(envelope.maxSize) else {
      refuseSize(total)
      return false
    }
    // It is whole in memory or nowhere: where another body would go to a file, it can't be taken.
    if worker.bodies.admits(total, having: kept.memory.count) { return true }
    log(.error, "message envelopes and kept bodies take all the memory that a worker has for them")
    failDuringBody(Failure(503))
    return false
  }

  private func refuseSize(_ size: UInt64) {
    log(.error, "client intended to send too large a message envelope: \(size) bytes")
    failDuringBody(Failure(413))
  }

  /// The envelope is whole.
  func openBody(_ kept: RequestBody, _ envelope: MessageEnvelope) {
    // Chunks of no bytes: a request without a body.
    guard kept.count > 0 else {
      body = .none
      return retry()
    }
    do throws(EnvelopeFault) {
      let plain = try envelope.open(kept.memory.readable, now: worker.loop.now)
      body = .collected(RequestBody(opened: plain, gauge: worker.bodies))
      retry()
    } catch {
      if error == .windowFull {
        log(.alert, "message envelope refused: \(error)")
        return fail(Failure(503))
      }
      refuseEnvelope(error.description)
    }
  }

  /// One answer for every fault: the same bytes.
  private func refuseEnvelope(_ reason: String) {
    log(.error, "message envelope refused: \(reason)")
    fail(Failure(400))
  }

  /// What goes upstream was an envelope.
  var isBodyOpened: Bool { if case .collected(let kept) = body { kept.isOpened } else { false } }

  /// Whether a kept body may go to a named location in place of this one: what an envelope held goes where the same keys
  /// open, and what did not come in one, where none is opened.
  func mayPass(_ kept: RequestBody, to name: String) -> Bool {
    guard case .proxy(let target)? = server.locations.named(name)?.action else { return true }
    guard kept.isOpened, let opened = pass?.settings.envelope else { return target.settings.envelope == nil }
    return target.settings.envelope?.hasKeys(of: opened) ?? false
  }

  // MARK: The answer

  /// In place of `ResponseRewrite`: the head waits for the body. False: the attempt is over.
  func holdAnswer(_ response: ResponseHead, _ pass: LiveProxyPass, _ envelope: MessageEnvelope) -> Bool {
    guard ResponseRewrite.mayHaveBody(self, response) else {
      sendHead(of: response, pass)
      return upstream != nil
    }
    if let length = response.announcedLength, length > UInt64(envelope.maxSize) {
      refuseToSeal("it has \(length) bytes")
      return false
    }
    heldAnswer = HeldAnswer(gauge: worker.bodies)
    return true
  }

  func hold(_ bytes: UnsafeRawBufferPointer, in held: HeldAnswer) {
    guard held.body.count + bytes.count <= pass?.envelope?.maxSize ?? 0 else {
      return refuseToSeal("it has more than \(pass?.envelope?.maxSize ?? 0) bytes")
    }
    held.append(bytes)
  }

  /// The answer is whole.
  func sealAnswer(_ held: HeldAnswer) {
    heldAnswer = nil
    guard let pass, let envelope = pass.envelope, let response = upstream?.finalHead, let connection else {
      return refuseToSeal("nobody knows what it was")
    }
    guard !held.body.isEmpty else {
      sendHead(of: response, pass, sealed: 0)
      return finish()
    }
    do throws(SealingFault) {
      let sealed = try envelope.seal(held.body.readable, now: worker.loop.now)
      sendHead(of: response, pass, sealed: sealed.count)
      writeBody(sealed.readable, to: connection)
      finish()
    } catch {
      if error == .windowFull { log(.alert, "an answer is not sealed: \(error)") }
      refuseToSeal(error.description)
    }
  }

  private func refuseToSeal(_ reason: String) {
    log(.error, "upstream's answer can't be sealed: \(reason)")
    heldAnswer = nil
    fail(Failure(502))
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

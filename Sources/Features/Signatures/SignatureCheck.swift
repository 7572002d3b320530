import Envelope
import Forward
import HTTP
import Identity
import Language
import Observability
import Signature
import TLS
import Traffic
import Transport

/// `message_signature verify`: a step before the content. It runs after the access phase, so no `satisfy any` bypasses it.
///
///     head ─► signature ─► nonce seen? ─► body, where its digest is covered ─► nonce is remembered ─► content
///
/// A nonce counts as used when all else is right: so nobody can use up the nonce of a request with another body.
final class SignatureCheck: PhaseStep {
  private let verifier: SignatureVerifier?
  private let window: ReplayWindow
  /// Milliseconds.
  private let span: UInt64
  private let accept: FieldBlock?
  /// nil: nonces are remembered in this process alone.
  private let store: (client: StoreClient, failing: StoreUse.Failing)?

  private static let clientCert = Array("client-cert".utf8)
  private static let signatureInput = Array("signature-input".utf8)

  /// `verifier`: nil if the keys are not loaded.
  init(
    _ verifier: SignatureVerifier?, _ window: ReplayWindow, span: UInt64,
    store: (client: StoreClient, failing: StoreUse.Failing)? = nil
  ) {
    self.store = store
    self.verifier = verifier
    self.window = window
    self.span = span
    accept = verifier.map { FieldBlock([(Array("Accept-Signature".utf8), $0.acceptSignature)]) }
  }

  override var words: String { "\(Signatures.row.name) verify" }

  override func run(_ exchange: Exchange) -> StepOutcome {
    guard let verifier else {
      exchange.log(.error, "message signature: the keys of this location are not loaded")
      return .fail(ErrorResponse(500))
    }
    // Its main request is judged itself, before its content and its mirrors.
    if exchange.stream?.isSubrequest == true { return .next }
    // An internal redirect to a location with the same settings: the request is the same, and its nonce is used.
    if let record = Signatures.record(of: exchange), record.verifier === verifier, record.isValid { return .next }
    let isBodyPossible = exchange.head.framing != .none && exchange.head.framing != .length(0)
    exchange.worker.clock.update()
    let verified: SignatureVerifier.Verified
    do throws(SignatureFault) {
      let message = try Self.message(of: exchange)
      verified = try verifier.verify(message, hasBody: isBodyPossible, now: exchange.worker.clock.seconds)
      if let nonce = verified.nonce, Signatures.record(of: exchange)?.nonce != nonce {
        switch look(nonce, of: verified, exchange, remembers: false) {
        case .seen: throw .replayed
        case .forgotten: throw .forgotten
        case .new, .unknown: break
        }
      }
    } catch {
      return refuse(error, exchange)
    }
    guard let digest = verified.digest, Signatures.record(of: exchange)?.digest != digest else {
      return admit(verified, exchange)
    }
    guard isBodyPossible else {
      return judge(verified, digest.matches(UnsafeRawBufferPointer(start: nil, count: 0)), exchange)
    }
    return judgeBody(verified, digest, exchange)
  }

  /// The request as it was judged. `Client-Cert` is the certificate of the connection, if that verified, and no field of the
  /// client's.
  private static func message(of exchange: Exchange) throws(SignatureFault) -> SignedMessage {
    var message = SignedMessage(exchange.head, isTLS: exchange.facts.isTLS)
    let isCovered = message.values(of: signatureInput).contains { $0.firstRange(of: clientCert) != nil }
    let sent = message.values(of: clientCert)
    guard isCovered else {
      if !sent.isEmpty { message.replace(clientCert, by: nil) }
      return message
    }
    var derived: [UInt8]?
    if let chain = exchange.facts.verifiedChain {
      derived = IdentityFields.fields(.rfc9440, chain, server: []).first.map { Array($0.value.utf8) }
    }
    for value in sent where value != derived { throw .certificate }
    message.replace(clientCert, by: derived)
    return message
  }

  // MARK: The body

  private func judgeBody(
    _ verified: SignatureVerifier.Verified, _ digest: ContentDigest, _ exchange: Exchange
  ) -> StepOutcome {
    if case .collected(let kept) = exchange.body.state, !kept.isOpened {
      return judge(verified, kept.matches(digest), exchange)
    }
    // After an error page, an earlier handler may have dropped the body.
    guard exchange.redirection == .none, let stream = exchange.stream else {
      return refuse(.digest("can't be checked: the body is gone"), exchange)
    }
    if stream.isBodyRead {
      return judge(verified, digest.matches(UnsafeRawBufferPointer(start: nil, count: 0)), exchange)
    }
    let content = exchange.location.content
    let kept = content.storage(for: exchange) ?? RequestBodySender.storage(for: exchange)
    kept.beginDigests(ContentDigest.Algorithm.allCases)
    kept.await(SignedBody(self, verified, digest, content))
    exchange.collectBody(in: kept)
    return .wait
  }

  fileprivate func judge(
    _ verified: SignatureVerifier.Verified, _ matches: Bool, _ exchange: Exchange
  ) -> StepOutcome {
    matches ? admit(verified, exchange) : refuse(.digest("does not match the body"), exchange)
  }

  // MARK: The verdict

  private func admit(_ verified: SignatureVerifier.Verified, _ exchange: Exchange) -> StepOutcome {
    if let nonce = verified.nonce, Signatures.record(of: exchange)?.nonce != nonce {
      switch look(nonce, of: verified, exchange, remembers: true) {
      case .new:
        if let store { return remember(nonce, of: verified, in: store.client, store.failing, exchange) }
      case .seen: return refuse(.replayed, exchange)
      case .forgotten: return refuse(.forgotten, exchange)
      case .unknown:
        exchange.log(.alert, "message signature refused: the replay window is full")
        return .fail(ErrorResponse(503))
      }
    }
    exchange.use(SignatureState.self).record = SignatureRecord(verifier, verified)
    return .next
  }

  /// Asks the store, which remembers what every machine has accepted. The nonce is used up, whatever the answer is.
  private func remember(
    _ nonce: [UInt8], of verified: SignatureVerifier.Verified, in store: StoreClient, _ failing: StoreUse.Failing,
    _ exchange: Exchange
  ) -> StepOutcome {
    StoreWait.remember(store, StoreKey.of("nonce", "signature", nonce), milliseconds: span, exchange) {
      [self] exchange, novelty in
      switch novelty {
      case .seen: exchange.resume(refuse(.replayed, exchange))
      case .unanswered where failing == .closed:
        exchange.log(.error, "message signature refused: no answer of the shared store, which remembers nonces")
        exchange.resume(.fail(ErrorResponse(503)))
      case .new, .unanswered:
        exchange.use(SignatureState.self).record = SignatureRecord(verifier, verified)
        exchange.resume(.next)
      }
    }
    return .wait
  }

  private func look(
    _ nonce: [UInt8], of verified: SignatureVerifier.Verified, _ exchange: Exchange, remembers: Bool
  ) -> ReplayWindow.Novelty {
    let now = exchange.worker.loop.now
    let made = Int64(clamping: now).subtractingReportingOverflow(verified.age &* 1000).partialValue
    return window.look(nonce, now: now, span: span, made: UInt64(clamping: made), remembers: remembers)
  }

  /// Responds with the same bytes for every fault.
  private func refuse(_ fault: SignatureFault, _ exchange: Exchange) -> StepOutcome {
    exchange.log(.info, "message signature refused: \(fault)")
    exchange.use(SignatureState.self).record = SignatureRecord(refused: fault)
    if let accept { exchange.setOwnFields(accept) }
    return .fail(ErrorResponse(401))
  }
}

/// What an exchange knows of its request's signature. A subrequest knows nothing of it.
final class SignatureState: FeatureState {
  /// nil: no signature was looked for.
  var record: SignatureRecord?

  override func reset() { record = nil }
}

/// What was found out about a signature.
final class SignatureRecord {
  let verifier: SignatureVerifier?
  let fault: SignatureFault?
  /// That of a valid signature.
  let keyID: [UInt8]
  /// The nonce that this exchange has used up.
  let nonce: [UInt8]?
  /// The digest that the body has.
  let digest: ContentDigest?

  init(_ verifier: SignatureVerifier?, _ verified: SignatureVerifier.Verified) {
    self.verifier = verifier
    fault = nil
    keyID = verified.keyID
    nonce = verified.nonce
    digest = verified.digest
  }

  init(refused fault: SignatureFault) {
    verifier = nil
    self.fault = fault
    keyID = []
    nonce = nil
    digest = nil
  }

  var isValid: Bool { fault == nil }

  /// `$message_signature_verdict`
  var verdict: String { fault.map { "FAILED:\($0)" } ?? "SUCCESS" }
}

/// A body that is collected before the content handler starts, until its digest is known.
private final class SignedBody: BodyWaiter {
  private let check: SignatureCheck
  private let verified: SignatureVerifier.Verified
  private let digest: ContentDigest
  private let content: LiveContent

  init(
    _ check: SignatureCheck, _ verified: SignatureVerifier.Verified, _ digest: ContentDigest, _ content: LiveContent
  ) {
    self.check = check
    self.verified = verified
    self.digest = digest
    self.content = content
  }

  override func admits(_ count: Int, in kept: RequestBody, _ exchange: Exchange) -> Bool {
    content.admits(count, in: kept, exchange)
  }

  override func bodyDidEnd(_ kept: RequestBody, _ exchange: Exchange) {
    exchange.resume(check.judge(verified, kept.matches(digest), exchange))
  }
}

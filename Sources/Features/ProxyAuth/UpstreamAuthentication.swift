import Bytes
import Crypto
import Forward
import Glibc
import HTTP
import Observability
import Traffic
import Transport
import Upstream
import UpstreamAuth

/// `proxy_auth` for one exchange: the user, and the state of the response to the upstream's challenge. The client
/// doesn't get a 401 that is handled here.
final class UpstreamAuthentication: ExchangeHook {
  let live: LiveUpstreamAuth
  let user: UpstreamUser
  // Not retained: the handler owns its authentication.
  private unowned(unsafe) let handler: ProxyHandler
  /// The store of challenges. If the location has no store, the exchange has its own: it may respond to one challenge
  /// twice, when a server closes the connection in between.
  private let store: ChallengeStore
  private var responder = ChallengeResponder()
  /// The form of the request in progress.
  private var sending = ChallengeResponder.Sending.plain(isProbe: false)
  private var body = ChallengeResponder.Body.none
  /// The nonce of the last challenge that got a response.
  private var nonce: [UInt8]?
  /// Whether the next request goes over the same session.
  private var isSameConnection = false
  /// Whether the next request must go over the same session.
  private var needsSameConnection = false
  /// Whether the response in progress is a challenge that another request answers.
  override var isDiscarding: Bool { discards }
  private var discards = false
  private var discarded = 0
  /// How often `prepare` was called: what was begun for an earlier call sends nothing.
  private var choices = 0

  /// The most bytes of a 401's body that are read to keep its session.
  private static let discardLimit = 64 * 1024

  init(_ live: LiveUpstreamAuth, _ user: UpstreamUser, _ handler: ProxyHandler) {
    self.live = live
    self.user = user
    self.handler = handler
    store = live.store ?? ChallengeStore()
  }

  /// Finds the client's user for this upstream; throws if no line of the user file matches the client.
  static func user(for exchange: Exchange, _ live: LiveUpstreamAuth) throws(ErrorResponse) -> UpstreamUser {
    guard let users = live.users else { throw ErrorResponse(500) }
    switch exchange.facts.choose(from: users, scratch: exchange.worker.patternScratch) {
    case .user(let user): return user
    case .nobody: exchange.log(.error, "no line of \"\(live.settings.users)\" is for this client")
    case .undecided(let reason):
      exchange.log(.error, "which line of \"\(live.settings.users)\" is for this client can't be said: \(reason)")
    }
    throw ErrorResponse(403)
  }

  /// The user to whom the connection is bound, for a scheme that authenticates connections (NTLM); nil otherwise.
  override var connectionUser: (any AnyObject & Sendable)? { live.bindsConnections ? user : nil }

  override var mayAskTwice: Bool { true }
  override var sendsCredentials: Bool { true }
  override var isBodiless: Bool { sending.isBodiless }

  override var isProbe: Bool {
    switch sending {
    case .plain(let isProbe), .ahead(_, let isProbe): isProbe
    case .answer, .negotiate, .authenticate: false
    }
  }

  // MARK: The request

  override func prepare(_ exchange: Exchange, _ stream: UpstreamStream) -> Bool {
    choices &+= 1
    switch exchange.body.state {
    case .none: body = .none
    case .collected(let kept): body = kept.isInFile ? .large : .small
    case .collecting, .held, .streaming, .streamed: body = .once
    }
    let session = stream.session, key = key(session)
    sending = responder.begin(
      to: session.server, body: body, isAuthenticated: session.isAuthenticated, isSame: isSameConnection
    ) {
      guard let key else { return nil }
      return store.ahead(key) { admits($0, session) }
    }
    isSameConnection = false
    discards = false
    return !awaitsHash(exchange, stream)
  }

  private func place(_ session: UpstreamSession) -> LiveUpstreamAuth.Place? {
    guard let group = handler.group, let scheme = handler.scheme else { return nil }
    return live.place(session.server, of: group, scheme)
  }

  /// Whether this server may get credentials for the offer.
  private func admits(_ offer: Offer, _ session: UpstreamSession) -> Bool {
    guard let place = place(session) else { return false }
    return live.settings.admits(offer, from: place.origin)
  }

  private func key(_ session: UpstreamSession) -> ChallengeKey? {
    place(session).map { ChallengeKey(user: user.name, server: $0.key) }
  }

  /// Whether the credentials need the hash of a body in a file, which a thread of the pool makes: that takes seconds for a
  /// gigabyte.
  private func awaitsHash(_ exchange: Exchange, _ stream: UpstreamStream) -> Bool {
    let challenge: DigestChallenge
    switch sending {
    case .ahead(.digest(let answer), _): challenge = answer.challenge
    case .answer(.digest(let offered)): challenge = offered
    case .plain, .ahead, .answer, .negotiate, .authenticate: return false
    }
    let algorithm = challenge.algorithm.hash
    guard challenge.hashesBody, case .collected(let kept) = exchange.body.state, kept.lacksHash(algorithm)
    else { return false }
    goOn(BodyFileHash(algorithm), of: kept, exchange, stream)
    return true
  }

  private func goOn(_ hash: BodyFileHash, of kept: RequestBody, _ exchange: Exchange, _ stream: UpstreamStream) {
    guard let file = kept.file else { return }
    let choices = choices
    PendingWork.run(.bodies, for: exchange) {
      hash.goOn(file)
    } _: { [self] exchange, progress in
      // The session may have ended meanwhile. The next attempt makes a hash of its own.
      guard choices == self.choices, handler.attempt.stream === stream else { return }
      switch progress {
      case .more: goOn(hash, of: kept, exchange, stream)
      case .ended(let value):
        kept.note(value, hash.algorithm)
        handler.sendRequest(stream)
      }
    }
  }

  /// Adds the credentials to the head that was built.
  override func authorize(_ exchange: Exchange, _ stream: UpstreamStream) -> Sending {
    nonce = nil
    let outgoing = handler.attempt.outgoing
    if let failure = addCredentials(to: outgoing, exchange, stream.session) {
      refuse(failure, exchange)
      return .nothing
    }
    // The head alone requests no upgrade; the request itself follows later.
    guard sending.isBodiless, body != .none else { return .request }
    outgoing.upgrade = []
    return .headAlone
  }

  /// Adds the credentials, if any, and returns nil. It checks the protection space again immediately before.
  private func addCredentials(
    to outgoing: OutgoingRequestHead, _ exchange: Exchange, _ session: UpstreamSession
  ) -> AuthFailure? {
    let shown: Offer
    switch sending {
    case .plain where !session.isAuthenticated: return nil
    case .ahead(let answer, _): shown = answer.offer
    case .answer(let offer): shown = offer
    // The connection is authenticated by NTLM, or its NTLM handshake is in progress.
    case .plain, .negotiate, .authenticate: shown = .ntlm(message: nil)
    }
    guard admits(shown, session) else { return .outsideSpace }
    if case .plain = sending { return nil }
    var value = ByteBuffer()
    defer { value.wipe() }
    let isMade = makeCredentials(exchange, session, to: &value) && outgoing.add("Authorization", value.readable)
    return isMade ? nil : .hashNotAvailable
  }

  /// Writes the value of Authorization; returns false when no value can be made.
  private func makeCredentials(
    _ exchange: Exchange, _ session: UpstreamSession, to value: inout ByteBuffer
  ) -> Bool {
    switch sending {
    case .plain: return false
    case .ahead(let answer, _): return write(answer, exchange, to: &value)
    case .answer(let offer):
      return key(session).map { write(store.answer($0, offer), exchange, to: &value) } ?? false
    case .negotiate:
      Self.writeNTLM(NTLMAnswer.negotiate, to: &value)
      return true
    case .authenticate(let challenge):
      session.isAuthenticated = false
      guard let message = NTLMAnswer.authenticate(user, challenge, circumstances(exchange, session)) else {
        return false
      }
      Self.writeNTLM(message, to: &value)
      return true
    }
  }

  private func write(_ answer: PreparedAnswer, _ exchange: Exchange, to value: inout ByteBuffer) -> Bool {
    switch answer {
    case .basic:
      BasicAnswer.append(user, to: &value)
      return true
    case .digest(let digest):
      nonce = digest.challenge.nonce
      return digest.append(user, authorizedRequest(exchange), to: &value)
    // `ChallengeResponder` starts NTLM with `negotiate`.
    case .ntlm: return false
    }
  }

  private static func writeNTLM(_ message: [UInt8], to value: inout ByteBuffer) {
    value.append("NTLM ")
    message.withUnsafeBytes { Base64.encode($0, into: &value) }
  }

  /// The method, target and body that a Digest response covers.
  private func authorizedRequest(_ exchange: Exchange) -> AuthorizedRequest {
    let outgoing = handler.attempt.outgoing, body = exchange.body.state
    return AuthorizedRequest(method: Array(outgoing.method), target: Array(outgoing.target)) { algorithm in
      switch body {
      case .none: return algorithm.of([])
      case .collected(let kept): return kept.hash(algorithm)
      case .collecting, .held, .streaming, .streamed: return nil
      }
    }
  }

  private func circumstances(_ exchange: Exchange, _ session: UpstreamSession) -> NTLMAnswer.Circumstances {
    var now = timespec()
    clock_gettime(CLOCK_REALTIME, &now)
    // Units of 100 ns since 1601.
    let time = UInt64(clamping: now.tv_sec) &* 10_000_000 &+ 116_444_736_000_000_000
    func bytes(_ number: UInt64) -> [UInt8] { (0..<8).map { UInt8(truncatingIfNeeded: number >> ($0 * 8)) } }
    return NTLMAnswer.Circumstances(
      clientChallenge: bytes(.random(in: .min ... .max)), time: bytes(time),
      target: "HTTP/" + (handler.pass?.nameForTLS(exchange) ?? ""), endPoint: session.peer.endPoint)
  }

  // MARK: The response

  /// Takes the head of a final response.
  override func take(_ response: ResponseHead, _ exchange: Exchange, _ stream: UpstreamStream) -> Share {
    guard response.status != 101 else { return .isForClient }
    let session = stream.session
    takeNextNonce(response, session)
    let verdict = responder.head(
      status: response.status, body: body, offers: { Self.offers(response) },
      isAccepted: { live.settings.schemes.contains($0.scheme) },
      isInSpace: { admits($0, session) })
    switch verdict {
    case .passOn:
      if case .authenticate = sending {
        session.isAuthenticated = true
        if let key = key(session) { _ = store.answer(key, .ntlm(message: nil)) }
      }
      return .isForClient
    case .sendAgain(let onSameConnection):
      session.isAuthenticated = false
      return readForAnother(response, stream, onSameConnection)
    case .fail(let failure):
      if failure == .credentialsRefused, let key = key(session) { store.forget(key) }
      refuse(failure, exchange)
      return .answered
    }
  }

  private static func offers(_ response: ResponseHead) -> [Offer] {
    let bytes = response.bytes.readable
    return Offer.all(in: response.fields.filter { $0.id == .wwwAuthenticate }.map { Array(bytes[$0.value]) })
  }

  /// Takes the next nonce from the response (RFC 7616 §3.5).
  private func takeNextNonce(_ response: ResponseHead, _ session: UpstreamSession) {
    guard let nonce, let field = response.first(.authenticationInfo),
      let next = AuthenticationInfo.nextNonce(Array(response.bytes.readable[field.value])), let key = key(session)
    else { return }
    store.advance(key, from: nonce, to: next)
  }

  /// Reads a small body to keep the session for the next request; otherwise leaves the session.
  private func readForAnother(_ response: ResponseHead, _ stream: UpstreamStream, _ needsConnection: Bool) -> Share {
    needsSameConnection = needsConnection
    let isWorthIt =
      switch response.framing {
      case .none, .chunked: live.keepsConnections
      case .length(let length): live.keepsConnections && length <= UInt64(Self.discardLimit)
      case .untilClose: false
      }
    guard isWorthIt else {
      handler.leaveForAnother()
      return .answered
    }
    discards = true
    discarded = 0
    stream.askAgain()
    return .discard
  }

  /// Counts discarded bytes of a challenge's body; returns false if they exceed the limit.
  override func discard(_ count: Int) -> Bool {
    discarded += count
    return discarded <= Self.discardLimit
  }

  /// Whether another session may carry the next request, after the challenge's session has closed.
  override func mayUseAnotherConnection(_ exchange: Exchange) -> Bool {
    discards = false
    if needsSameConnection { refuse(.connectionNotKept, exchange) }
    return !needsSameConnection
  }

  override func willUseSameConnection() { isSameConnection = true }

  private func refuse(_ failure: AuthFailure, _ exchange: Exchange) {
    exchange.log(.error, "\(failure.rawValue): \(failure.explanation), \(user)")
    exchange.fail(ErrorResponse(502))
  }
}

extension AuthFailure {
  fileprivate var explanation: String {
    switch self {
    case .credentialsRefused: "the upstream did not take the answer to its challenge"
    case .noAcceptableScheme: "the upstream asks for credentials, by no scheme that \"proxy_auth\" names"
    case .bodyNotReplayable: "the upstream asks for credentials, and the request's body has gone out already"
    case .outsideSpace: "the upstream asks for credentials outside of \"proxy_auth_space\"; none were sent"
    case .malformedChallenge: "the upstream's NTLM message is none"
    case .connectionNotKept: "the upstream closed the connection in the middle of NTLM"
    case .hashNotAvailable: "no answer can be made: this OpenSSL lacks the hash, or the body is not at hand"
    }
  }
}

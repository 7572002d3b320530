import Bytes
import Crypto
import Glibc
import HTTP
import Observability
import TLS
import Upstream
import UpstreamAuth

/// What an exchange in a location with `proxy_auth` knows besides: as whom it asks, and how far that has come.
final class ExchangeAuthentication {
  let live: LiveUpstreamAuth
  let user: UpstreamUser
  /// Where nothing is remembered, the exchange counts for itself: it may answer one challenge twice, to a server that
  /// broke off.
  let store: ChallengeStore
  var responder = ChallengeResponder()
  /// The request that is under way.
  var sending = ChallengeResponder.Sending.plain(isProbe: false)
  var body = ChallengeResponder.Body.none
  /// The nonce that was answered last.
  var nonce: [UInt8]?
  /// The connection may be asked again: it carries the next request.
  var isSameConnection = false
  /// The next request must go over the same connection.
  var needsSameConnection = false
  /// The response under way is not the client's.
  var isDiscarding = false
  var discarded = 0

  init(_ live: LiveUpstreamAuth, _ user: UpstreamUser) {
    self.live = live
    self.user = user
    store = live.store ?? ChallengeStore()
  }

  /// HEAD goes out, whatever the request is.
  var isProbe: Bool {
    switch sending {
    case .plain(let isProbe), .ahead(_, let isProbe): isProbe
    case .answer, .negotiate, .authenticate: false
    }
  }
}

/// `proxy_auth`: an upstream's 401 is answered here, and the client sees nothing of it.
extension Exchange {
  /// What of a 401's body is read, for the sake of its connection.
  private static let discardLimit = 64 * 1024

  /// Who the client is to this upstream; false when it is nobody, and has been answered.
  func takeUser(_ live: LiveUpstreamAuth) -> Bool {
    guard let users = live.users else {
      fail(Failure(500))
      return false
    }
    switch facts.standing.choose(from: users, facts.tls, scratch: patternScratch) {
    case .user(let user):
      authentication = ExchangeAuthentication(live, user)
      return true
    case .nobody: log(.error, "no line of \"\(live.settings.users)\" is for this client")
    case .undecided(let reason):
      log(.error, "which line of \"\(live.settings.users)\" is for this client can't be said: \(reason)")
    }
    fail(Failure(403))
    return false
  }

  /// As whom a connection is used, where that is of a connection.
  var boundUser: (any AnyObject & Sendable)? {
    guard let authentication, authentication.live.bindsConnections else { return nil }
    return authentication.user
  }

  /// A body that fits `client_body_buffer_size` is kept, so that it can be sent with the answer.
  var keepsForAnswer: Bool {
    guard authentication != nil, case .length(let length) = head.framing else { return false }
    return length <= UInt64(max(0, location.limits.bodyBufferSize ?? Self.adaptiveAllowance))
  }

  // MARK: The request

  /// Decides what goes out over a connection that is open.
  func chooseSending(_ authentication: ExchangeAuthentication, _ upstream: UpstreamConnection) {
    switch body {
    case .none: authentication.body = .none
    case .collected(let kept): authentication.body = kept.isInFile ? .large : .small
    case .collecting, .held, .streaming, .streamed: authentication.body = .once
    }
    let store = authentication.store, key = key(authentication, upstream)
    authentication.sending = authentication.responder.begin(
      to: upstream.server, body: authentication.body, isAuthenticated: upstream.isAuthenticated,
      isSame: authentication.isSameConnection
    ) {
      guard let key else { return nil }
      return store.ahead(key) { admits($0, authentication, upstream) }
    }
    authentication.isSameConnection = false
    authentication.isDiscarding = false
  }

  private func place(
    _ authentication: ExchangeAuthentication, _ upstream: UpstreamConnection
  ) -> LiveUpstreamAuth.Place? {
    group.flatMap { authentication.live.place(upstream.server, of: $0) }
  }

  /// Whether this server may be shown an answer to the offer.
  private func admits(
    _ offer: Offer, _ authentication: ExchangeAuthentication, _ upstream: UpstreamConnection
  ) -> Bool {
    guard let place = place(authentication, upstream) else { return false }
    return authentication.live.settings.admits(offer, from: place.origin)
  }

  private func key(_ authentication: ExchangeAuthentication, _ upstream: UpstreamConnection) -> ChallengeKey? {
    place(authentication, upstream).map { ChallengeKey(user: authentication.user.name, server: $0.key) }
  }

  /// Puts the credentials into the head that was built. False when that was all there is to send for now, or when none
  /// can be made, which has been answered.
  func authorize(_ authentication: ExchangeAuthentication, _ pass: LiveProxyPass, _ upstream: UpstreamConnection)
    -> Bool
  {
    authentication.nonce = nil
    if let failure = addCredentials(authentication, upstream) {
      refuse(failure)
      return false
    }
    // Without the request itself nothing has begun.
    guard authentication.sending.isBodiless, authentication.body != .none else { return true }
    outgoing.asksForUpgrade = false
    sendRequestHead(pass, upstream)
    upstream.requestDidEnd()
    return false
  }

  /// nil: added, where there are any to add. The place is judged once more, here, where it is shown.
  private func addCredentials(
    _ authentication: ExchangeAuthentication, _ upstream: UpstreamConnection
  ) -> AuthFailure? {
    let shown: Offer
    switch authentication.sending {
    case .plain where !upstream.isAuthenticated: return nil
    case .ahead(let answer, _): shown = answer.offer
    case .answer(let offer): shown = offer
    // Of the connection, or on its way to be.
    case .plain, .negotiate, .authenticate: shown = .ntlm(message: nil)
    }
    guard admits(shown, authentication, upstream) else { return .outsideSpace }
    if case .plain = authentication.sending { return nil }
    scratch.removeAll()
    defer { scratch.wipe() }
    let isMade = makeCredentials(authentication, upstream) && outgoing.add("Authorization", scratch.readable)
    return isMade ? nil : .hashNotAvailable
  }

  /// Writes the value of Authorization to `scratch`; false when none can be made.
  private func makeCredentials(_ authentication: ExchangeAuthentication, _ upstream: UpstreamConnection) -> Bool {
    switch authentication.sending {
    case .plain: return false
    case .ahead(let answer, _): return write(answer, authentication)
    case .answer(let offer):
      return key(authentication, upstream).map { write(authentication.store.answer($0, offer), authentication) }
        ?? false
    case .negotiate: return writeNTLM(NTLMAnswer.negotiate)
    case .authenticate(let challenge):
      upstream.isAuthenticated = false
      return NTLMAnswer.authenticate(authentication.user, challenge, circumstances(upstream)).map(writeNTLM) ?? false
    }
  }

  private func write(_ answer: PreparedAnswer, _ authentication: ExchangeAuthentication) -> Bool {
    switch answer {
    case .basic:
      BasicAnswer.append(authentication.user, to: &scratch)
      return true
    case .digest(let digest):
      authentication.nonce = digest.challenge.nonce
      return digest.append(authentication.user, authorizedRequest(), to: &scratch)
    // The responder begins it by `negotiate`.
    case .ntlm: return false
    }
  }

  private func writeNTLM(_ message: [UInt8]) -> Bool {
    scratch.append("NTLM ")
    message.withUnsafeBytes { Base64.encode($0, into: &scratch) }
    return true
  }

  /// What a Digest answer is about.
  private func authorizedRequest() -> AuthorizedRequest {
    let body = body
    return AuthorizedRequest(method: Array(outgoing.method), target: Array(outgoing.target)) { algorithm in
      let digest = RunningDigest(algorithm)
      switch body {
      case .none: break
      case .collected(let kept): guard kept.digest(into: digest) else { return nil }
      case .collecting, .held, .streaming, .streamed: return nil
      }
      return digest.finish()
    }
  }

  private func circumstances(_ upstream: UpstreamConnection) -> NTLMAnswer.Circumstances {
    var now = timespec()
    clock_gettime(CLOCK_REALTIME, &now)
    // 100 ns since 1601.
    let time = UInt64(clamping: now.tv_sec) &* 10_000_000 &+ 116_444_736_000_000_000
    func bytes(_ number: UInt64) -> [UInt8] { (0..<8).map { UInt8(truncatingIfNeeded: number >> ($0 * 8)) } }
    return NTLMAnswer.Circumstances(
      clientChallenge: bytes(.random(in: .min ... .max)), time: bytes(time),
      target: "HTTP/" + (pass?.nameForTLS(self) ?? ""), endPoint: (upstream.stream as? TLSStream)?.upstreamEndPoint)
  }

  // MARK: The answer

  /// nil: the response is as any other. Else whether more of it is read, to be thrown away.
  func authenticationHead(_ authentication: ExchangeAuthentication, _ response: ResponseHead) -> Bool? {
    guard let upstream, response.status != 101 else { return nil }
    takeNextNonce(authentication, response, upstream)
    let settings = authentication.live.settings
    let verdict = authentication.responder.head(
      status: response.status, body: authentication.body, offers: { Self.offers(response) },
      isAccepted: { settings.schemes.contains($0.scheme) },
      isInSpace: { admits($0, authentication, upstream) })
    switch verdict {
    case .passOn:
      if case .authenticate = authentication.sending {
        upstream.isAuthenticated = true
        if let key = key(authentication, upstream) { _ = authentication.store.answer(key, .ntlm(message: nil)) }
      }
      return nil
    case .sendAgain(let onSameConnection):
      upstream.isAuthenticated = false
      return readForAnother(authentication, response, upstream, onSameConnection)
    case .fail(let failure):
      if failure == .credentialsRefused, let key = key(authentication, upstream) {
        authentication.store.forget(key)
      }
      refuse(failure)
      return false
    }
  }

  private static func offers(_ response: ResponseHead) -> [Offer] {
    let bytes = response.bytes.readable
    return Offer.all(in: response.fields.filter { $0.id == .wwwAuthenticate }.map { Array(bytes[$0.value]) })
  }

  /// RFC 7616 §3.5.
  private func takeNextNonce(
    _ authentication: ExchangeAuthentication, _ response: ResponseHead, _ upstream: UpstreamConnection
  ) {
    guard let nonce = authentication.nonce, let field = response.first(.authenticationInfo),
      let next = AuthenticationInfo.nextNonce(Array(response.bytes.readable[field.value])),
      let key = key(authentication, upstream)
    else { return }
    authentication.store.advance(key, from: nonce, to: next)
  }

  /// A connection that carries another request is worth a small body; else it is left.
  private func readForAnother(
    _ authentication: ExchangeAuthentication, _ response: ResponseHead, _ upstream: UpstreamConnection,
    _ needsConnection: Bool
  ) -> Bool {
    authentication.needsSameConnection = needsConnection
    let isWorthIt =
      switch response.framing {
      case .none, .chunked: authentication.live.keepsConnections
      case .length(let length): authentication.live.keepsConnections && length <= UInt64(Self.discardLimit)
      case .untilClose: false
      }
    guard isWorthIt else {
      leave(authentication)
      return false
    }
    authentication.isDiscarding = true
    authentication.discarded = 0
    upstream.askAgain()
    return true
  }

  func discard(_ authentication: ExchangeAuthentication, _ count: Int) {
    authentication.discarded += count
    if authentication.discarded > Self.discardLimit { leave(authentication) }
  }

  private func leave(_ authentication: ExchangeAuthentication) {
    endRecord()
    dropUpstream()
    upstreamMayAskAgain(nil)
  }

  /// The response that was no answer is over.
  func upstreamMayAskAgain(_ connection: UpstreamConnection?) {
    guard let authentication, self.connection != nil else { return }
    authentication.isDiscarding = false
    if let connection {
      authentication.isSameConnection = true
      return upstreamDidOpen(connection)
    }
    upstream = nil
    if authentication.needsSameConnection { return refuse(.connectionNotKept) }
    retry(again: attempts.last?.server)
  }

  private func refuse(_ failure: AuthFailure) {
    let file = authentication.map { ", \($0.user)" } ?? ""
    log(.error, "\(failure.rawValue): \(failure.explanation)\(file)")
    dropUpstream()
    fail(Failure(502))
  }

  /// The client's own credentials are of a scheme that is of a connection: NTLM, or Negotiate, which may be the same.
  var authorizesConnection: Bool {
    guard let field = head.first(.authorization) else { return false }
    let scheme = UnsafeRawBufferPointer(rebasing: head.bytes.readable[field.value].prefix { $0 != 0x20 })
    return scheme.equalsIgnoringCase("ntlm") || scheme.equalsIgnoringCase("negotiate")
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

extension RequestBody {
  /// False when it can't be read.
  func digest(into digest: RunningDigest) -> Bool {
    guard isInFile else {
      digest.update(memory.readable)
      return true
    }
    let piece = ByteBuffer(capacity: 65536)
    var offset: UInt64 = 0
    while let count = read(at: offset, into: piece.writable) {
      if count == 0 { return true }
      digest.update(UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(piece.writable)[..<count]))
      offset &+= UInt64(count)
    }
    return false
  }
}

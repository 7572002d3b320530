import Bytes
import Testing

@testable import UpstreamAuth

/// One exchange with its store, as a runner would drive it.
private struct Exchange {
  var responder = ChallengeResponder()
  let store: ChallengeStore?
  let key = ChallengeKey(user: bytes("al"), server: "http://up/1")
  var schemes: AuthSchemes = [.basic, .digest, .ntlm]
  var isInSpace = true
  var body = ChallengeResponder.Body.none

  mutating func begin(
    to server: Int = 0, isAuthenticated: Bool = false, isSame: Bool = false
  ) -> ChallengeResponder.Sending {
    responder.begin(to: server, body: body, isAuthenticated: isAuthenticated, isSame: isSame) {
      store?.ahead(key) { schemes.contains($0.scheme) && isInSpace }
    }
  }

  mutating func head(_ status: UInt16, _ lines: String...) -> ChallengeResponder.NextStep {
    responder.head(
      status: status, body: body, offers: { Offer.all(in: lines.map(bytes)) },
      isAccepted: { schemes.contains($0.scheme) }, isInSpace: { _ in isInSpace })
  }
}

private let type2: String = {
  var message = NTLM.signature
  message.append(uint32: 2)
  message += [UInt8](repeating: 0, count: 8)
  message.append(uint32: 0x201)
  message += [UInt8](repeating: 1, count: 16)
  return Base64.encode(message)
}()

@Suite struct `One exchange with an upstream that asks` {
  private let digestLine = "Digest realm=r, nonce=n1, qop=auth"

  @Test func `nothing is asked, nothing is said`() {
    var exchange = Exchange(store: ChallengeStore())
    #expect(exchange.begin() == .plain(isProbe: false))
    #expect(exchange.head(200) == .passOn)
  }

  @Test func `a challenge is answered once, and the second 401 is a refusal`() throws {
    var exchange = Exchange(store: ChallengeStore())
    _ = exchange.begin()
    #expect(exchange.head(401, digestLine) == .sendAgain(onSameConnection: false))
    #expect(try exchange.begin() == .answer(.digest(digest(digestLine))))
    #expect(exchange.head(401, "Digest realm=r, nonce=n2, qop=auth, stale=true") == .fail(.credentialsRefused))
  }

  @Test func `another server is asked anew, and may ask for itself`() throws {
    var exchange = Exchange(store: nil)
    _ = exchange.begin(to: 0)
    #expect(exchange.head(401, digestLine) == .sendAgain(onSameConnection: false))
    #expect(try exchange.begin(to: 0) == .answer(.digest(digest(digestLine))))
    #expect(exchange.begin(to: 1) == .plain(isProbe: false))
    let other = "Digest realm=r, nonce=other, qop=auth"
    #expect(exchange.head(401, other) == .sendAgain(onSameConnection: false))
    #expect(try exchange.begin(to: 1) == .answer(.digest(digest(other))))
    #expect(exchange.head(401, other) == .fail(.credentialsRefused))
  }

  @Test func `the strongest of those that may be answered is`() throws {
    var exchange = Exchange(store: nil)
    exchange.schemes = [.basic, .ntlm]
    _ = exchange.begin()
    #expect(exchange.head(401, "Basic realm=r", digestLine, "NTLM") == .sendAgain(onSameConnection: false))
    #expect(exchange.begin() == .negotiate)
  }

  @Test func `what may not be answered, and what is elsewhere, gets nothing`() {
    var exchange = Exchange(store: nil)
    exchange.schemes = .digest
    _ = exchange.begin()
    #expect(exchange.head(401, "Basic realm=r", "NTLM") == .fail(.noAcceptableScheme))
    exchange = Exchange(store: nil)
    exchange.isInSpace = false
    _ = exchange.begin()
    #expect(exchange.head(401, "Basic realm=r") == .fail(.outsideSpace))
    exchange = Exchange(store: nil)
    _ = exchange.begin()
    #expect(exchange.head(401) == .fail(.noAcceptableScheme))
  }

  @Test func `an answer sent ahead is not the one answer`() throws {
    let store = ChallengeStore()
    let offer = try Offer.digest(digest(digestLine))
    let key = Exchange(store: nil).key
    _ = store.answer(key, offer)
    for fresh in ["Digest realm=r, nonce=n1, qop=auth, stale=TRUE", "Digest realm=r, nonce=n2, qop=auth"] {
      var exchange = Exchange(store: store)
      guard case .ahead(.digest(let answer), isProbe: false) = exchange.begin() else { return #expect(Bool(false)) }
      #expect(answer.count > 1)
      #expect(exchange.head(401, fresh) == .sendAgain(onSameConnection: false))
      _ = exchange.begin()
      #expect(exchange.head(401, fresh) == .fail(.credentialsRefused))
    }
    var exchange = Exchange(store: store)
    _ = exchange.begin()
    #expect(
      exchange.head(401, digestLine) == .fail(.credentialsRefused), "the same nonce, not stale: it is the password")
  }

  @Test func `Basic sent ahead and refused is no fresh challenge, another realm is`() {
    let store = ChallengeStore()
    var exchange = Exchange(store: store)
    _ = store.answer(exchange.key, .basic(realm: bytes("r")))
    #expect(exchange.begin() == .ahead(.basic(realm: bytes("r")), isProbe: false))
    #expect(exchange.head(401, "Basic realm=r") == .fail(.credentialsRefused))
    exchange = Exchange(store: store)
    _ = exchange.begin()
    #expect(exchange.head(401, "Basic realm=other") == .sendAgain(onSameConnection: false))
  }

  @Test func `what is remembered is not shown where it may not be`() {
    let store = ChallengeStore()
    var exchange = Exchange(store: store)
    _ = store.answer(exchange.key, .basic(realm: bytes("r")))
    exchange.isInSpace = false
    #expect(exchange.begin() == .plain(isProbe: false))
    exchange.isInSpace = true
    exchange.schemes = .digest
    #expect(exchange.begin() == .plain(isProbe: false))
  }

  @Test func `a large body waits for the challenge`() throws {
    for body in [ChallengeResponder.Body.large, .once] {
      var exchange = Exchange(store: ChallengeStore(), body: body)
      #expect(exchange.begin() == .plain(isProbe: true))
      #expect(exchange.head(401, digestLine) == .sendAgain(onSameConnection: false))
      let sending = try Offer.digest(digest(digestLine))
      #expect(exchange.begin() == .answer(sending))
      #expect(exchange.head(200) == .passOn)
    }
  }

  @Test func `a probe that nobody challenges is followed by the request`() {
    var exchange = Exchange(store: nil, body: .once)
    _ = exchange.begin()
    for status: UInt16 in [200, 405] { #expect(exchange.head(status) == .sendAgain(onSameConnection: false)) }
    #expect(exchange.begin() == .plain(isProbe: false))
    #expect(exchange.head(200) == .passOn)
  }

  @Test func `a body that is gone is not sent again`() {
    var exchange = Exchange(store: nil, body: .once)
    _ = exchange.begin()
    _ = exchange.head(200)
    _ = exchange.begin()
    #expect(exchange.head(401, "Basic realm=r") == .fail(.bodyNotReplayable))
    exchange = Exchange(store: nil, body: .once)
    _ = exchange.begin()
    #expect(exchange.head(401, "Digest realm=r, nonce=n, qop=auth-int") == .fail(.bodyNotReplayable))
  }

  @Test func `NTLM goes three ways over one connection`() throws {
    var exchange = Exchange(store: nil, body: .small)
    #expect(exchange.begin() == .plain(isProbe: false))
    #expect(exchange.head(401, "NTLM") == .sendAgain(onSameConnection: false))
    #expect(exchange.begin(isSame: true) == .negotiate)
    #expect(exchange.head(401, "NTLM \(type2)") == .sendAgain(onSameConnection: true))
    guard case .authenticate = exchange.begin(isSame: true) else { return #expect(Bool(false)) }
    #expect(exchange.head(401, "NTLM") == .fail(.credentialsRefused))
  }

  @Test func `NTLM's connection that is lost begins anew, and one that is bound is used as it is`() {
    var exchange = Exchange(store: nil)
    _ = exchange.begin()
    _ = exchange.head(401, "NTLM")
    _ = exchange.begin(isSame: true)
    _ = exchange.head(401, "NTLM \(type2)")
    #expect(exchange.begin(isSame: false) == .negotiate)
    exchange = Exchange(store: nil, body: .once)
    #expect(exchange.begin(isAuthenticated: true) == .plain(isProbe: false))
    exchange = Exchange(store: nil)
    _ = exchange.begin(isAuthenticated: true)
    #expect(exchange.head(401, "NTLM") == .sendAgain(onSameConnection: false))
    #expect(exchange.begin(isSame: true) == .negotiate)
  }

  @Test func `NTLM is begun ahead where it is remembered, and given up where it is asked for no more`() {
    let store = ChallengeStore()
    var exchange = Exchange(store: store, body: .small)
    _ = store.answer(exchange.key, .ntlm(message: nil))
    #expect(exchange.begin() == .negotiate)
    #expect(exchange.head(401, "Basic realm=r") == .sendAgain(onSameConnection: false))
    #expect(exchange.begin() == .answer(.basic(realm: bytes("r"))))
    exchange = Exchange(store: store, body: .small)
    _ = exchange.begin()
    #expect(exchange.head(200) == .sendAgain(onSameConnection: false), "the body has not gone out")
    #expect(exchange.begin() == .plain(isProbe: false))
    exchange = Exchange(store: store, body: .none)
    _ = exchange.begin()
    #expect(exchange.head(200) == .passOn)
  }

  @Test func `a message that is none is an error, and a server that asks for ever is not obeyed`() {
    var exchange = Exchange(store: nil)
    _ = exchange.begin()
    _ = exchange.head(401, "NTLM")
    _ = exchange.begin(isSame: true)
    #expect(exchange.head(401, "NTLM TlRMTVNTUAA=") == .fail(.malformedChallenge))
    exchange = Exchange(store: nil)
    var asked = 0
    _ = exchange.begin()
    _ = exchange.head(401, "NTLM")
    while asked < 100, exchange.begin(isSame: false) == .negotiate,
      exchange.head(401, "NTLM \(type2)") == .sendAgain(onSameConnection: true)
    { asked += 1 }
    #expect(asked < 10)
  }
}

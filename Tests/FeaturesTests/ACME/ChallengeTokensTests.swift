@testable import Traffic
@testable import Forward
@testable import Features
import Crypto
import Testing

@testable import ACME

@Suite struct `Answers to http-01 challenges` {
  private let key: JSONWebKey

  init() throws { key = try JSONWebKey(.generate()) }

  private func answer(_ name: String, _ token: String) throws -> ChallengeAnswer {
    try #require(ACMEIdentifier(name).flatMap { ChallengeAnswer(.http01, $0, token: token, key: key) })
  }

  private func ask(_ tokens: ChallengeTokens, _ path: String, host: String) -> ChallengeTokens.Answer? {
    Array(path.utf8).withUnsafeBytes { path in
      Array(host.utf8).withUnsafeBytes { tokens.answer(path: path, host: $0) }
    }
  }

  @Test func `a token is answered for its own name alone`() throws {
    let shared = SharedState(features: Features.all), tokens = shared[ChallengeTokens.self]
    #expect(!shared.entry.isActive)
    let answer = try answer("a.test", "tok-1"), other = try self.answer("192.0.2.1", "tok-2")
    tokens.add([answer, other, try self.answer("2001:db8::1", "tok-3")], owner: 1)
    #expect(shared.entry.isActive)
    let place = "/.well-known/acme-challenge/"
    #expect(ask(tokens, place + "tok-1", host: "A.test.") == .text(Array(answer.keyAuthorization.utf8)))
    #expect(ask(tokens, place + "tok-2", host: "192.0.2.1") == .text(Array(other.keyAuthorization.utf8)))
    guard case .text? = ask(tokens, place + "tok-3", host: "[2001:db8::1]") else {
      Issue.record("an IPv6 address")
      return
    }
    // Another name's token, and none.
    for (path, host) in [
      ("tok-1", "b.test"), ("tok-2", "a.test"), ("x", "a.test"), ("", "a.test"), ("tok-1/", "a.test"),
    ] {
      #expect(ask(tokens, place + path, host: host) == .unknown, "\(path) \(host)")
    }
    for path in ["../tok-1", "tok-1/../tok-1", "%74ok-1", "tok-1?x"] {
      #expect(ask(tokens, place + path, host: "a.test") == .unknown, "\(path)")
    }
    // A name without an order, and other paths: the server's own rules.
    for (path, host) in [
      (place + "x", "c.test"), (place + "x", ""), ("/", "a.test"), ("/.well-known/acme-challenge", "a.test"),
    ] {
      #expect(ask(tokens, path, host: host) == nil, "\(path) \(host)")
    }
  }

  @Test func `an order takes its own answers away`() throws {
    let shared = SharedState(features: Features.all), tokens = shared[ChallengeTokens.self]
    tokens.add([try answer("a.test", "one")], owner: 1)
    tokens.add([try answer("b.test", "two")], owner: 2)
    tokens.remove(owner: 1)
    #expect(shared.entry.isActive && ask(tokens, "/.well-known/acme-challenge/one", host: "a.test") == nil)
    tokens.remove(owner: 2)
    #expect(!shared.entry.isActive)
  }
}

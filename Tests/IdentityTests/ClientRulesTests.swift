import Bytes
import Crypto
import Patterns
import TLS
import Testing

@testable import Identity

@Suite struct `Rules on clients` {
  let cast: Certificates
  init() throws { cast = try Certificates.shared.get() }

  @Test func `all of a line must hold, and one line is enough`() throws {
    let both = try rules(allow: [rule(.allow, "cn=alice", "ou=ops"), rule(.allow, "cn=bob", at: 4)])
    #expect(both.verdict(on: cast.alice) == "admitted")
    #expect(try both.verdict(on: cast.leaf("bob")) == "admitted")
    #expect(try both.verdict(on: cast.leaf("alice")) == "denied by line 3")
    #expect(try both.verdict(on: cast.leaf("eve")) == "denied by line 3")
    // The same key twice: two values of it.
    #expect(try rules(allow: [rule(.allow, "ou=dev", "ou=ops")]).verdict(on: cast.alice) == "admitted")
    #expect(try rules(allow: [rule(.allow, "ou=dev", "ou=it")]).verdict(on: cast.alice) == "denied by line 3")
  }

  @Test func `deny is judged first, by the line that fits`() throws {
    let rules = try rules(
      allow: [rule(.allow, "cn=**", at: 1)],
      deny: [rule(.deny, "cn=bob", "dns=b.test", at: 2), rule(.deny, "ou=ops", at: 3)])
    #expect(rules.verdict(on: cast.alice) == "denied by line 3")
    #expect(try rules.verdict(on: cast.leaf("bob")) == "admitted")
    #expect(try rules.verdict(on: cast.leaf("bob", [.dns("b.test")])) == "denied by line 2")
  }

  @Test(arguments: [["alice", "bob"], ["bob", "alice"], ["alice", "alice"]])
  func `of two common names none is the client's: no rule that reads them lets it in`(names: [String]) throws {
    let twice = try cast.leaf(names)
    for word in ["cn=alice", "cn=bob", "cn=**", "cn=~.*"] {
      let allow = try rules(allow: [rule(.allow, word)])
      #expect(
        allow.judge(.known(PeerIdentity(leaf: twice)), scratch: .init())
          == .denied(at: place, reason: "the certificate's cn is ambiguous: the certificate has several"))
      // Another rule lets nobody past the one that can't be judged.
      #expect(
        try rules(allow: [rule(.allow, "o=Example", at: 1), rule(.allow, word)]).verdict(on: twice)
          == "denied by line 3")
    }
    #expect(try rules(deny: [rule(.deny, "cn=eve")]).verdict(on: twice) == "denied by line 3")
    #expect(try rules(allow: [rule(.allow, "o=Example")]).verdict(on: twice) == "admitted")
    let selector = try #require(ClientSelector(parsing: "cn=alice"))
    guard case .undecided = selector.match(.known(PeerIdentity(leaf: twice)), scratch: .init()) else {
      Issue.record("a selector took an ambiguous name")
      return
    }
  }

  @Test func `deny alone lets all others in, with or without a certificate`() throws {
    let rules = try rules(deny: [rule(.deny, "cn=bob")])
    #expect(rules.verdict(on: cast.alice) == "admitted")
    #expect(rules.verdict(on: .anonymous) == "admitted")
    #expect(try rules.verdict(on: cast.leaf("bob")) == "denied by line 3")
  }

  @Test func `an allow rule demands a certificate`() throws {
    let rules = try rules(allow: [rule(.allow, "cn=**")], deny: [rule(.deny, "cn=bob", at: 9)])
    #expect(rules.verdict(on: .anonymous) == "denied by line 3")
    #expect(rules.judge(.anonymous, scratch: .init()) == .denied(at: place, reason: "no verified certificate"))
  }

  @Test func `a certificate that did not verify is denied, by deny rules alone too`() throws {
    #expect(try rules(deny: [rule(.deny, "cn=bob")]).verdict(on: .refused) == "denied by line 3")
    #expect(try rules(allow: [rule(.allow, "cn=**")]).verdict(on: .refused) == "denied by line 3")
  }

  @Test func `only a verified chain has an identity`() {
    guard case .anonymous = ClientRules.Client(.unverified(cast.alice, reason: "")) else {
      Issue.record("a leaf that nobody verified")
      return
    }
    guard case .refused = ClientRules.Client(.refused(cast.alice, code: 10, reason: "")) else {
      Issue.record("a leaf that was refused")
      return
    }
  }

  @Test func `a pin alone vouches for the two hashes, and a rule that reads a name denies`() throws {
    let pinned = ClientRules.Client(.pinned(cast.alice))
    for name in IdentityKey.allCases where !name.isHash {
      // Each key has a value in the certificate, or none: both are the client's own word.
      #expect(try rules(allow: [rule(.allow, "\(name.rawValue)=**")]).verdict(on: pinned) == "denied by line 3")
      #expect(try rules(deny: [rule(.deny, "\(name.rawValue)=**")]).verdict(on: pinned) == "denied by line 3")
      let selector = try #require(ClientSelector(parsing: "\(name.rawValue)=**"))
      guard case .known(let identity) = pinned, case .undecided = selector.match(.known(identity), scratch: .init())
      else {
        Issue.record("\(name) selects a user")
        return
      }
    }
    let spki = Hex.encode(cast.alice.spkiSHA256), fingerprint = Hex.encode(cast.alice.sha256)
    #expect(try rules(allow: [rule(.allow, "spki=\(spki)")]).verdict(on: pinned) == "admitted")
    #expect(try rules(allow: [rule(.allow, "fingerprint=\(fingerprint)")]).verdict(on: pinned) == "admitted")
    #expect(try rules(deny: [rule(.deny, "spki=\(spki)")]).verdict(on: pinned) == "denied by line 3")
    #expect(try rules(allow: [rule(.allow, "spki=\(fingerprint)")]).verdict(on: pinned) == "denied by line 3")
    #expect(
      try rules(allow: [rule(.allow, "spki=\(spki)"), rule(.allow, "cn=alice", at: 4)]).verdict(on: pinned)
        == "denied by line 4", "what one rule reads counts for all")
    guard case .denied(_, let reason) = try rules(allow: [rule(.allow, "cn=alice")]).judge(pinned, scratch: .init())
    else { return }
    #expect(reason == "the certificate's cn is the client's own word: a pin alone vouches for it")
    guard case .known(let identity) = pinned else { return }
    #expect(
      identity.subject == "sha256//\(Base64.encode(cast.alice.spkiSHA256))", "and no log tells its names as its own")
  }

  static let evil = Array("evil.test\0.good.test".utf8)

  @Test(arguments: [
    (SubjectAlternativeName.Kind.dns, "dns"), (.uri, "uri"), (.email, "email"),
  ])
  func `CVE-2025-66220: a name with a NUL matches no rule, and whoever reads it denies`(
    kind: SubjectAlternativeName.Kind, key: String
  ) throws {
    let good = CertificateBuilder.AlternativeName.raw(kind, Array("good.test".utf8))
    let certificate = try cast.leaf("mallory", [good, .raw(kind, Self.evil)])
    for pattern in ["**", "evil.test", "*.test", "good.test", "~.*", "~(?s).*good\\.test"] {
      #expect(try rules(allow: [rule(.allow, "\(key)=\(pattern)")]).verdict(on: certificate) == "denied by line 3")
      #expect(try rules(deny: [rule(.deny, "\(key)=nobody.test")]).verdict(on: certificate) == "denied by line 3")
    }
    // Also beside a line that would let him in; but who does not read the name is not concerned.
    let beside = try rules(allow: [rule(.allow, "cn=mallory", at: 1), rule(.allow, "\(key)=x", at: 2)])
    #expect(beside.verdict(on: certificate) == "denied by line 2")
    #expect(try rules(allow: [rule(.allow, "cn=mallory")]).verdict(on: certificate) == "admitted")
  }

  /// HAProxy 3.5: what stood before a NUL of a name counted as the name.
  @Test(arguments: ["alice\0.evil", "evil\0alice", "alice\0", "\0"]) func `a DN with a NUL is no other name`(
    name: String
  ) throws {
    let certificate = try cast.leaf(name)
    for pattern in ["alice", "alice*", "**", "~alice", "~^alice", "evil"] {
      #expect(
        try rules(allow: [rule(.allow, "cn=\(pattern)")]).verdict(on: certificate) == "denied by line 3", "\(pattern)")
      #expect(try rules(deny: [rule(.deny, "cn=nobody")]).verdict(on: certificate) == "denied by line 3")
    }
    #expect(!certificate.subject.rfc2253.contains("\0") && certificate.subject.rfc2253.contains("\\00"))
    #expect(certificate.subject.rfc2253 != "CN=alice")
  }

  @Test func `control characters in a CN, and addresses of odd length, are no values`() throws {
    let certificate = try cast.leaf("ali\nce", [.raw(.ip, [1, 2, 3])])
    #expect(try rules(allow: [rule(.allow, "cn=**")]).verdict(on: certificate) == "denied by line 3")
    #expect(try rules(allow: [rule(.allow, "ip=**")]).verdict(on: certificate) == "denied by line 3")
    #expect(try rules(allow: [rule(.allow, "dns=**")], deny: []).verdict(on: certificate) == "denied by line 3")
    #expect(try rules(allow: [rule(.allow, "issuer=CN=Root")]).verdict(on: certificate) == "admitted")
  }

  @Test func `of several rules that read a value that can't be judged, the first one denies`() throws {
    let certificate = try cast.leaf("ali\nce")
    let rules = try rules(
      allow: [rule(.allow, "cn=a", at: 1), rule(.allow, "o=b", "cn=b", at: 2)],
      deny: [rule(.deny, "ou=x", at: 5), rule(.deny, "ou=y", "cn=c", at: 6), rule(.deny, "cn=d", at: 7)])
    #expect(rules.verdict(on: certificate) == "denied by line 6")
  }

  @Test func `each key has its own place`() {
    #expect(IdentityKey.allCases.map(\.place) == Array(IdentityKey.allCases.indices))
  }

  @Test func `a regular expression that gives up denies`() throws {
    let value = String(repeating: "a", count: 64)
    let certificate = try cast.leaf(value)
    let slow = "cn=~(a+)+(a+)+(a+)+(a+)+[bc]"
    #expect(try rules(deny: [rule(.deny, slow)]).verdict(on: certificate) == "denied by line 3")
    #expect(try rules(allow: [rule(.allow, slow)]).verdict(on: certificate) == "denied by line 3")
    // Another line that holds lets him in: whatever the first would have said.
    let other = try rules(allow: [rule(.allow, slow), rule(.allow, "cn=a*", at: 4)])
    #expect(other.verdict(on: certificate) == "admitted")
    // A condition beside it that does not hold decides too.
    #expect(try rules(deny: [rule(.deny, slow, "ou=x")]).verdict(on: certificate) == "admitted")
  }

  @Test func `the same rules have the same fingerprint in any order, others another`() throws {
    let (a, b) = try (rule(.allow, "cn=a"), rule(.allow, "cn=b", at: 9))
    #expect(try rules(allow: [a, b]).fingerprint == rules(allow: [b, a]).fingerprint)
    #expect(try rules(allow: [a]).fingerprint != rules(allow: [b]).fingerprint)
    #expect(try rules(allow: [a]).fingerprint != rules(deny: [rule(.deny, "cn=a")]).fingerprint)
    #expect(ClientRules(allow: [], deny: []) == nil)
  }
}

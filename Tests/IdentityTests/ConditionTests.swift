import Bytes
import Crypto
import Observability
import Testing

@testable import Identity

@Suite struct `What a rule reads of a certificate` {
  let cast: Certificates
  init() throws { cast = try Certificates.shared.get() }

  @Test(arguments: [
    ("cn=alice", true), ("cn=Alice B", false), ("cn=ALICE", false), ("cn=ali*", true), ("cn=bob", false),
    ("cn=**", true), ("cn=~al.ce", true), ("cn=~lic", false), ("cn=~(?i)ALICE", true), ("cn=~ali|alice", true),
    ("o=Example, Inc.", true), ("o=Example", false), ("o=Example,*", false), ("o=Example,**", true),
    ("ou=dev", true), ("ou=ops", true), ("ou=Ops", false), ("ou=sales", false),
    ("dns=www.example.com", true), ("dns=WWW.EXAMPLE.COM", true), ("dns=*.example.com", true), ("dns=*.com", false),
    ("dns=**.com", true), ("dns=~www\\.EXAMPLE\\..*", true), ("dns=www.example.com.", false), ("dns=alice", false),
    ("email=Alice.B@example.org", true), ("email=Alice.B@EXAMPLE.org", true), ("email=alice.b@example.org", false),
    ("email=**@example.org", true), ("email=*@example.org", false), ("email=~Alice\\..@example\\.org", true),
    ("email=~\\S+@\\S+", true),
    ("uri=spiffe://Prod/ns/*/sa/api", true), ("uri=spiffe://prod/ns/*/sa/api", false), ("uri=spiffe://Prod/**", true),
    ("uri=spiffe://Prod/*", false),
    ("ip=192.0.2.7", true), ("ip=192.0.2.*", true), ("ip=192.*", false), ("ip=192.0.2.70", false),
    ("ip=2001:db8::7", true), ("ip=2001:0DB8:0:0::7", true), ("ip=2001:db8::*", true), ("ip=2001:db8::8", false),
    ("issuer=CN=Intermediate", true), ("issuer=CN=intermediate", false), ("issuer=CN=Root", false),
    ("serial=**", true), ("serial=00", false),
  ])
  func `a value is compared as its kind is`(word: String, matches: Bool) throws {
    let rules = try rules(allow: [rule(.allow, word)])
    #expect(rules.verdict(on: cast.alice) == (matches ? "admitted" : "denied by line 3"))
  }

  @Test func `serial, fingerprint and spki are those of the certificate, in every spelling`() throws {
    let alice = cast.alice, other = try cast.leaf("other")
    let hex = Hex.encode(alice.sha256), spki = Hex.encode(alice.spkiSHA256)
    let colons = alice.sha256.map { Hex.encode([$0], .upper) }.joined(separator: ":")
    for word in [
      "serial=\(alice.serial)", "fingerprint=\(hex)", "fingerprint=\(hex.uppercased())", "fingerprint=\(colons)",
      "issuer=\(alice.issuer.rfc2253)",
    ] {
      let rules = try rules(allow: [rule(.allow, word)])
      #expect(rules.verdict(on: alice) == "admitted", "\(word)")
      #expect(rules.verdict(on: other) == "denied by line 3", "\(word)")
    }
    // The key is the same, the certificate is not.
    for word in ["spki=\(spki)", "spki=\(spki.uppercased())", "spki=\(Base64.encode(alice.spkiSHA256))"] {
      let rules = try rules(allow: [rule(.allow, word)])
      #expect(rules.verdict(on: alice) == "admitted" && rules.verdict(on: other) == "admitted", "\(word)")
      #expect(rules.verdict(on: cast.root.certificate) == "denied by line 3", "\(word)")
    }
  }

  static let digits40 = String(repeating: "ab", count: 20)
  static let digits64 = String(repeating: "ab", count: 32)

  @Test(arguments: [
    ("alice", "\"alice\" is no rule"), ("CN=alice", "unknown key \"CN\""), ("san=x", "unknown key \"san\""),
    ("=x", "unknown key \"\""), ("cn=", "\"cn=\" has no value"), ("cn=a\u{7}", "a control character in \"cn\""),
    ("cn=***", "\"***\" in \"cn=***\""), ("cn=~", "an empty regular expression for \"cn\""),
    ("cn=~(", "invalid regular expression \"(\": missing closing parenthesis at offset 1"),
    ("cn=$remote_addr", "a variable in \"cn=$remote_addr\""), ("dns=${host}", "a variable in \"dns=${host}\""),
    ("fingerprint=\(digits40)", "\"\(digits40)\" has 40 digits: a SHA-1, which is too weak"),
    ("spki=\(digits40)", "\"\(digits40)\" has 40 digits: a SHA-1, which is too weak"),
    ("fingerprint=abcd", "\"abcd\" is no SHA-256"), ("fingerprint=*", "a pattern for \"fingerprint\""),
    ("spki=~.*", "a pattern for \"spki\""), ("spki=AAAA", "\"AAAA\" is no SHA-256"),
    ("fingerprint=\(Base64.encode([UInt8](repeating: 1, count: 32)))", "is no SHA-256"),
    ("serial=0a", "\"0a\" is no serial number"), ("serial=0A:1B", "\"0A:1B\" is no serial number"),
    ("ip=10.0.0.0/8", "\"10.0.0.0/8\" is no IP address"), ("ip=10.0.0.256", "\"10.0.0.256\" is no IP address"),
    ("ip=localhost", "\"localhost\" is no IP address"),
    ("email=~.*@Example\\.com", "a capital letter after \"@\" in \".*@Example\\.com\""),
  ])
  func `what could never match is a fault with a hint`(word: String, message: String) {
    let (rule, faults) = ClientRule.parse(.deny, [(word, place)], at: place)
    #expect(rule == nil && faults.count == 1)
    #expect(faults.first?.message.contains(message) == true, "\(faults)")
    #expect(faults.first?.message.hasSuffix(" in \"ssl_client_deny\"") == true)
    #expect(faults.first?.location == place && faults.first?.hint?.isEmpty == false)
  }

  @Test func `every word at fault is told`() {
    let (rule, faults) = ClientRule.parse(.allow, [("cn=", place), ("ou=dev", place), ("x", place)], at: place)
    #expect(rule == nil && faults.count == 2)
  }

  @Test(arguments: ["cn=pc$", "cn=a$.b", "cn=~a\\$b", "serial=*", "serial=-0A", "serial=~0[aA].*", "spki=\(digits64)"])
  func `what can match is taken`(word: String) {
    #expect(ClientRule.parse(.allow, [(word, place)], at: place).rule != nil)
  }
}

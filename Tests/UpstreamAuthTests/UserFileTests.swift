import Bytes
import Crypto
import Identity
import Observability
import Patterns
import TestSupport
import Testing

@testable import UpstreamAuth

@Suite struct `User files` {
  private func load(_ text: String) throws -> UserFile {
    try bytes(text).withUnsafeBytes { raw in
      try UserFile(parsing: raw, MaterialReference(path: "/etc/users"))
    }
  }

  private func chosen(_ file: UserFile, _ client: ClientRules.Client) -> String? {
    guard case .user(let user) = file.choose(client, scratch: RegularExpression.Scratch()) else { return nil }
    return String(decoding: user.name, as: UTF8.self) + "|"
      + user.password.withUnsafeBytes { String(decoding: $0, as: UTF8.self) }
  }

  @Test func `the first space ends the selector, the first colon the user, the line's end the password`() throws {
    let file = try load("# all\r\n\n* DOM\\al: a b:c #d \r\n")
    #expect(chosen(file, .anonymous) == "DOM\\al| a b:c #d ")
    #expect(file.count == 1)
  }

  @Test func `the lines of the page about upstreams are ones`() throws {
    let block = try #require(PageBlock.with("cn=alice", on: "docs/operating/upstreams.md"))
    let file = try load(block.text)
    #expect(file.count == 3 && chosen(file, .anonymous) == nil)
  }

  @Test func `a selector with blanks stands in quotes`() throws {
    #expect(try load("cn=\"Alice Smith\" al:x\n\"o=A B\" b:y\n").count == 2)
  }

  @Test func `who showed nothing is everybody, and who showed what does not verify is nobody`() throws {
    let file = try load("cn=alice al:x\n* all:y\n")
    #expect(chosen(file, .anonymous) == "all|y")
    #expect(chosen(file, .refused) == nil)
    #expect(try chosen(load("cn=alice al:x\n"), .anonymous) == nil)
  }

  @Test(arguments: [
    ("", "names no user"), ("# only\n", "names no user"), ("*\n", "no USER:PASSWORD"), ("* \n", "no USER:PASSWORD"),
    ("al:se cret\n", "no \"USER:\""), ("al:secret u:p\n", "SELECTOR"), ("* secret\n", "no \"USER:\""),
    ("* :secret\n", "no \"USER:\""), ("\"cn=secret u:p\n", "not closed"), ("* u:sec\tret\n", "control"),
    ("fingerprint=secret u:p\n", "SELECTOR"), ("cn=alice u:p\nsecret=x u:p\n", "line 2"),
  ])
  func `what a line lacks is told, and nothing of what it holds`(text: String, message: String) {
    #expect {
      _ = try load(text)
    } throws: { error in
      let description = "\(error)"
      return description.contains(message) && !description.contains("secret") && !description.contains("cret")
    }
  }

  @Test func `what is not UTF-8 is refused`() {
    #expect(throws: MaterialError.self) {
      try ([UInt8](bytes("* u:")) + [0xFF]).withUnsafeBytes {
        try UserFile(parsing: $0, MaterialReference(path: "/etc/users"))
      }
    }
  }

  @Test func `a user shows itself without its password`() throws {
    let someone = user("al", "secret")
    var dumped = ""
    dump(someone, to: &dumped)
    for text in ["\(someone)", String(reflecting: someone), dumped, "\(Offer.ntlm(message: nil))"] {
      #expect(!text.contains("secret"))
    }
  }
}

@Suite struct `Protection spaces` {
  private let place = AuthOrigin(scheme: "http", group: "legacy", host: "10.0.0.1", port: 8080)
  private func space(_ scheme: String, _ host: String, _ port: UInt16?, realm: String? = nil) -> ProtectionSpace {
    ProtectionSpace(
      scheme: scheme, host: host, port: port, realm: realm.map(bytes), location: .init(file: "x", line: 1, column: 1))
  }

  @Test func `scheme, host and port must all be the server's`() {
    #expect(space("http", "10.0.0.1", 8080).holds(place))
    for other in [
      space("https", "10.0.0.1", 8080), space("http", "10.0.0.2", 8080), space("http", "10.0.0.1", 8081),
      space("http", "10.0.0.1", nil), space("http", "other", nil), space("http", "legacy", 80),
    ] { #expect(!other.holds(place), "\(other)") }
    #expect(space("http", "legacy", nil).holds(place) && space("http", "legacy", 8080).holds(place))
    let standard = AuthOrigin(scheme: "https", group: "", host: "a.test", port: 443)
    #expect(space("https", "a.test", nil).holds(standard))
  }

  @Test func `a realm that is named is the challenge's, and one without a realm is in none that names one`() {
    let named = space("http", "legacy", nil, realm: "r")
    #expect(named.contains(place, realm: bytes("r")))
    #expect(!named.contains(place, realm: bytes("R")) && !named.contains(place, realm: nil))
    #expect(space("http", "legacy", nil).contains(place, realm: nil))
  }
}

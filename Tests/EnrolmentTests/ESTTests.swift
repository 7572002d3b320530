import Bytes
import Crypto
import Glibc
import TestSupport
import Testing

@testable import Enrolment

@Suite struct `EST` {
  /// An authority, two users, and what devices ask of it.
  private struct Desk {
    let authority: Authority
    let settings: EnrolmentSettings
    let state = EnrolmentState(tokens: TokenRefusals())
    let start = Int64(time(nil))

    init(lifetime: Int64? = 86_400) throws {
      authority = try Authority()
      let users = try authority.scene.write("users", text: "alice:{PLAIN}wonderland\nbob:{PLAIN}builder\n")
      settings = EnrolmentSettings(
        authority: MaterialReference(path: authority.path), passwords: nil, users: MaterialReference(path: users),
        renewBefore: 86_400 / 3, strength: .modern, maxDevices: 2, failures: 10, failureTime: 60, form: .est,
        lifetime: lifetime)
    }

    /// The Base64 of a request by openssl.
    func request(_ subject: String, _ names: String? = nil, _ more: [String] = []) async throws -> [UInt8] {
      let words = names.map { ["-addext", "subjectAltName=\($0)"] } ?? []
      let made = try await authority.scene.run(
        "openssl",
        ["req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "key.pem"]
          + ["-subj", subject, "-outform", "DER"] + words + more)
      try #require(made.status == 0, "\(made.everything)")
      return Array(Base64.encode(made.output).utf8)
    }

    func enroll(
      _ body: [UInt8], _ user: String = "alice", _ password: String = "wonderland", at later: Int64 = 0
    ) -> EnrolmentOutcome {
      let credentials = ShownCredentials.basic(user: Array(user.utf8), password: SecretBytes(Array(password.utf8)))
      return body.withUnsafeBytes {
        EnrolmentService(settings, state).enroll(
          credentials, from: "192.0.2.1", body: $0, at: start + later, 1_000_000 + later)
      }
    }

    func reenroll(_ shown: Certificate, _ body: [UInt8], at later: Int64 = 0) -> EnrolmentOutcome {
      body.withUnsafeBytes { EnrolmentService(settings, state).reenroll(shown, body: $0, at: start + later) }
    }

    /// The only certificate of an answer, as openssl reads it.
    func certificate(_ outcome: EnrolmentOutcome) async throws -> Certificate {
      guard case .enrolled(let bag, _) = outcome else { throw ToolFailed(description: "\(outcome)") }
      let scene = authority.scene
      let text = String(decoding: bag.withUnsafeBytes { Array($0) }, as: UTF8.self)
      #expect(text.split(separator: "\n").allSatisfy { $0.utf8.count <= 64 } && text.hasSuffix("\n"))
      let read = try await scene.run(
        "openssl", ["pkcs7", "-inform", "DER", "-print_certs"], input: Base64.decode(text.filter { $0 != "\n" }))
      let found = try Certificate.all(inPEM: read.text)
      return try #require(found.count == 1 ? found.first : nil)
    }
  }

  private func refusal(_ outcome: EnrolmentOutcome) -> String? {
    if case .refused(let words) = outcome { words } else { nil }
  }
  private func fault(_ outcome: EnrolmentOutcome) -> String? {
    if case .malformed(let words) = outcome { words } else { nil }
  }
  private func wait(_ outcome: EnrolmentOutcome) -> Int64? {
    if case .early(let wait, _) = outcome { wait } else { nil }
  }

  @Test func `a request gets a certificate for its own key, with the names of the user and the device`() async throws {
    let desk = try Desk()
    let body = try await desk.request("/CN=alice", "URI:urn:device:phone")
    let issued = try await desk.certificate(desk.enroll(body))
    #expect(issued.subject.rfc2253 == "CN=alice")
    #expect(issued.subjectAltNames.all.map(\.description) == ["urn:device:phone"])
    let der = try Base64.decode(String(decoding: body, as: UTF8.self))
    #expect(try issued.publicKey == der.withUnsafeBytes { try SigningRequest(der: $0) }.publicKey)
    #expect(issued.notAfter.seconds == desk.start + 86_400 - 1)
    // A request without names is for the user, and with other attributes and extensions it gets none of them.
    let plain = try await desk.request("/O=Acme", nil, ["-addext", "basicConstraints=critical,CA:TRUE"])
    let other = try await desk.certificate(desk.enroll(plain))
    #expect(other.subject.rfc2253 == "CN=alice" && !other.mayIssue)
    #expect(other.subjectAltNames.all.map(\.description) == ["urn:device:est"])
  }

  @Test(
    arguments: [
      ("/CN=bob", nil), ("/CN=alice/CN=bob", nil), ("/CN=Alice", nil), ("/CN=alice", "DNS:alice.test"),
      ("/CN=alice", "URI:urn:device:a,URI:urn:device:b"), ("/CN=alice", "URI:spiffe://a/b"),
      ("/CN=alice", "email:urn:device:phone"), ("/CN=alice", "URI:urn:device:a/b"), ("/CN=alice", "URI:urn:device:"),
      ("/CN=alice", "RID:1.2.3"),
    ] as [(String, String?)]) func `other names are refused`(subject: String, names: String?) async throws
  {
    let desk = try Desk()
    let outcome = try await desk.enroll(desk.request(subject, names))
    #expect(refusal(outcome) != nil, "\(outcome)")
    #expect(try desk.authority.index().entries.isEmpty)
  }

  @Test func `what is no request, or is not signed by its key, is malformed`() async throws {
    let desk = try Desk()
    let good = try await desk.request("/CN=alice")
    var der = try Base64.decode(String(decoding: good, as: UTF8.self))
    der[der.count - 3] ^= 1
    let bodies: [[UInt8]] = [
      [], Array("hello".utf8), Array("-----BEGIN CERTIFICATE REQUEST-----".utf8), Array(good.dropLast(4)),
      Array(Base64.encode([0x30, 0x00]).utf8), Array(Base64.encode(der).utf8),
      [UInt8](repeating: 0x41, count: ESTRequest.sizeLimit + 4),
    ]
    for body in bodies { #expect(fault(desk.enroll(body)) != nil) }
    #expect(try desk.authority.index().entries.isEmpty)
    // Lines of any length are read.
    let lines = good.enumerated().flatMap { (index, byte) -> [UInt8] in index % 7 == 0 ? [0x0D, 0x0A, byte] : [byte] }
    _ = try await desk.certificate(desk.enroll(lines))
  }

  @Test func `a password is good once for a device, and a renewal after two thirds of the time`() async throws {
    let desk = try Desk()
    let body = try await desk.request("/CN=alice", "URI:urn:device:phone")
    let first = try await desk.certificate(desk.enroll(body))
    #expect(wait(desk.enroll(body)) == Int64(57_599))
    #expect(wait(desk.reenroll(first, body, at: 57_000)) == Int64(599))
    let second = try await desk.certificate(desk.reenroll(first, body, at: 57_700))
    #expect(second.notAfter.seconds == desk.start + 57_700 + 86_400 - 1 && second.serial != first.serial)
    #expect(second.subjectAltNames == first.subjectAltNames)
    // The names of the certificate, without being asked for.
    let plain = try await desk.request("/")
    let third = try await desk.certificate(desk.reenroll(second, plain, at: 57_700 + 57_700))
    #expect(third.subjectAltNames == first.subjectAltNames && third.subject.rfc2253 == first.subject.rfc2253)
    #expect(refusal(desk.reenroll(first, body, at: 86_400)) != nil)
  }

  @Test func `a renewal is for the certificate's own names, while it counts`() async throws {
    let desk = try Desk()
    let body = try await desk.request("/CN=alice", "URI:urn:device:phone")
    let phone = try await desk.certificate(desk.enroll(body))
    let late: Int64 = 57_700
    for (subject, names) in [("/CN=bob", nil), ("/CN=alice", "URI:urn:device:tablet"), ("/CN=alice", "DNS:a.test")] {
      #expect(refusal(desk.reenroll(phone, try await desk.request(subject, names), at: late)) != nil)
    }
    let stranger = try TestAuthority().client().certificate
    #expect(refusal(desk.reenroll(stranger, body, at: late))?.contains("no valid one of this authority") == true)
    let users = desk.authority.scene.path("users")
    try desk.authority.scene.write("users", text: "bob:{PLAIN}builder\n")
    #expect(refusal(desk.reenroll(phone, body, at: late))?.contains("is not in the file of users") == true, "\(users)")
    try desk.authority.scene.write("users", text: "alice:{PLAIN}other\n")
    let store = try AuthorityStore(desk.authority.path, desk.state)
    let authority = try LocalAuthority(store)
    try store.revoke(signer: authority.signer) { _ in [phone.serial] }
    #expect(refusal(desk.reenroll(phone, body, at: late))?.contains("no valid one") == true)
  }

  @Test func `wrong passwords are counted, and the devices of a user too`() async throws {
    let desk = try Desk()
    let body = try await desk.request("/CN=alice")
    guard case .unauthorized = desk.enroll(body, "alice", "x") else {
      Issue.record("a wrong password")
      return
    }
    for device in ["a", "b"] {
      _ = try await desk.certificate(desk.enroll(desk.request("/CN=alice", "URI:urn:device:\(device)")))
    }
    guard case .tooManyDevices = desk.enroll(body) else {
      Issue.record("a third device")
      return
    }
    for _ in 0..<10 { _ = desk.enroll(body, "alice", "x") }
    guard case .tooMany = desk.enroll(body) else {
      Issue.record("ten wrong passwords")
      return
    }
  }
}

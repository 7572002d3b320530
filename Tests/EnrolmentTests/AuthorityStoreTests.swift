import Bytes
import Crypto
import Foundation
import Glibc
import TestSupport
import Testing

@testable import Enrolment

/// An authority in a folder that goes with the test.
final class Authority: Sendable {
  let scene: Scene
  let path: String

  init() throws {
    scene = try Scene()
    path = scene.path("ca")
    _ = try AuthorityStore.create(in: path, name: CommonName("Test CA"), key: .p256, password: nil)
  }

  deinit { scene.end() }

  func opened(interruption: Interruption? = nil) throws -> LocalAuthority {
    try LocalAuthority(AuthorityStore(path, interruption: interruption))
  }

  @discardableResult
  func issue(_ name: String) throws -> String {
    let authority = try opened()
    let issued = try authority.sign(CertificateProfile(.client, CommonName(name)))
    try authority.register(issued)
    return issued.certificate.serial
  }

  func revoke(_ which: String) throws {
    let authority = try opened()
    try authority.store.revoke(signer: authority.signer) { (index) throws(AuthorityError) in
      try authority.store.chosen(which, in: index)
    }
  }

  /// What the files say without any mending.
  func index() throws -> AuthorityIndex {
    try scene.bytes("ca/index.txt").withUnsafeBytes { try AuthorityIndex(parsing: $0) }
  }

  func list() throws -> RevocationList {
    try #require(RevocationList.loadAll(MaterialReference(path: "\(path)/crl.pem")).first)
  }

  func openssl(_ arguments: String...) async throws -> ToolResult {
    try await scene.run("openssl", arguments, input: [])
  }
}

@Suite struct `An authority's folder` {
  @Test func `is made in the layout of openssl ca, with a key for its owner alone`() throws {
    let authority = try Authority()
    let names = try Set(FileManager.default.contentsOfDirectory(atPath: authority.path))
    #expect(
      names.isSuperset(of: [
        "ca.crt", "private", "index.txt", "index.txt.attr", "serial", "crlnumber", "crl.pem", "certs", "openssl.cnf",
      ]))
    func mode(_ name: String) throws -> Int? {
      try FileManager.default.attributesOfItem(atPath: "\(authority.path)/\(name)")[.posixPermissions] as? Int
    }
    #expect(try mode("private") == 0o700)
    #expect(try mode("private/ca.key") == 0o600)
    #expect(throws: AuthorityError.self) {
      try AuthorityStore.create(in: authority.path, name: CommonName("x"), key: .p256, password: nil)
    }
  }

  @Test func `a key with a pass phrase opens with that alone`() async throws {
    let authority = try Authority()
    let path = authority.scene.path("sealed")
    let phrase = SecretBytes(Array("secret phrase".utf8))
    let store = try AuthorityStore.create(in: path, name: CommonName("x"), key: .p256, password: phrase)
    #expect(throws: AuthorityError.self) { try LocalAuthority(store) }
    #expect(throws: AuthorityError.self) { try LocalAuthority(store, passwords: [SecretBytes([1])]) }
    _ = try LocalAuthority(store, passwords: [phrase])
    #expect(authority.scene.text("sealed/private/ca.key").contains("ENCRYPTED"))
    let read = try await authority.openssl("pkey", "-in", "\(path)/private/ca.key", "-passin", "pass:secret phrase")
    #expect(read.status == 0)
  }

  @Test func `issued certificates stand in the index, and revoked ones in the list`() async throws {
    let authority = try Authority()
    let alice = try authority.issue("alice")
    let bob = try authority.issue("bob")
    #expect(alice.utf8.count == 32 && alice != bob)
    #expect(try authority.index().entries.map(\.serial) == [alice, bob])
    #expect(try authority.list().count == 0)
    let number = try #require(try authority.list().number?.value)
    try authority.revoke("alice")
    #expect(try authority.list().entries.map(\.serial) == [alice])
    #expect(try authority.list().number?.value == number + 1)
    let status = try await authority.openssl("ca", "-config", "\(authority.path)/openssl.cnf", "-status", alice)
    #expect(status.everything.contains("\(alice)=Revoked"))
    #expect(throws: AuthorityError.self) { try authority.revoke("alice") }
    #expect(throws: AuthorityError.self) { try authority.revoke("nobody") }
    try authority.revoke(bob.lowercased())
    #expect(try authority.index().revoked.map(\.serial) == [alice, bob])
  }

  @Test func `a name means every valid certificate of it, and of it alone`() throws {
    let authority = try Authority()
    let first = try authority.issue("Jörg")
    let second = try authority.issue("Jörg")
    try authority.issue("Jörg 2")
    try authority.revoke("Jörg")
    #expect(try authority.index().revoked.map(\.serial) == [first, second])
  }

  /// Of our CA, so that its signature is good: made by hand, or by another program on the same folder.
  private func put(
    _ authority: Authority, _ change: (inout RevocationListBuilder) -> Void
  ) throws {
    var builder = RevocationListBuilder(revoking: [], number: 1)
    change(&builder)
    try authority.scene.write("ca/crl.pem", text: builder.pem(signedBy: authority.opened().signer))
  }

  @Test func `a list whose end can't be read is an error that names the file, and ends nothing`() throws {
    let authority = try Authority()
    try put(authority) { $0.rawNextUpdate = Array("notatimeXXXXZ".utf8) }
    let error = #expect(throws: AuthorityError.self) { try authority.issue("alice") }
    #expect("\(String(describing: error))".contains("whose nextUpdate can't be read"))
    #expect("\(String(describing: error))".contains("crl.pem"))
  }

  @Test(arguments: [Int.max, 1 << 62]) func `a list with the last of all numbers is an error, and ends nothing`(
    number: Int
  ) throws {
    let authority = try Authority()
    try put(authority) { $0.number = number }
    let error = #expect(throws: AuthorityError.self) { try authority.revoke(authority.issue("alice")) }
    #expect("\(String(describing: error))".contains("crl.pem"))
  }

  @Test func `a certificate that has come into the folder with an end that can't be read is passed over`() throws {
    let authority = try Authority()
    var builder = CertificateBuilder(commonName: "alice", .leaf([.clientAuth]))
    builder.rawNotAfter = Array("notatimeXXXXZ".utf8)
    let broken = try builder.signed(by: authority.opened().signer, key: .generate()).certificate
    try authority.scene.write("ca/certs/\(broken.serial).pem", text: broken.pem)
    let good = try authority.issue("bob")
    #expect(try authority.index().entries.map(\.serial) == [good])
  }

  @Test func `a certificate of two names is revoked by either of them`() throws {
    for name in ["alice", "bob"] {
      let authority = try Authority()
      var builder = CertificateBuilder(commonName: "", .leaf([.clientAuth]))
      builder.subject = [(.commonName, "alice"), (.commonName, "bob")]
      let opened = try authority.opened()
      try opened.register(builder.signed(by: opened.signer, key: .generate()))
      try authority.revoke(name)
      #expect(try authority.index().revoked.count == 1)
      #expect(throws: AuthorityError.self) { try authority.revoke("eve") }
    }
  }

  @Test func `a list is never older than the one it follows`() async throws {
    let authority = try Authority()
    let serial = try authority.issue("alice")
    let made = try await authority.openssl(
      "ca", "-config", "\(authority.path)/openssl.cnf", "-gencrl", "-out", "\(authority.path)/crl.pem")
    #expect(made.status == 0, "\(made.everything)")
    let before = try authority.list()
    try authority.revoke(serial)
    let after = try authority.list()
    #expect(after.thisUpdate >= before.thisUpdate)
    #expect(try #require(after.number) > #require(before.number))
  }

  @Test func `what a crash after any write leaves is mended by the next change`() async throws {
    var steps = 0
    while true {
      steps += 1
      let authority = try Authority()
      let old = try authority.issue("old")
      let interruption = Interruption(after: steps)
      let broken = try authority.opened(interruption: interruption)
      let issued = try broken.sign(CertificateProfile(.client, CommonName("new")))
      _ = try? broken.register(issued)
      _ = try? broken.store.revoke(signer: broken.signer) { _ in [old] }
      let isRevoked = try authority.index()[serial: old]?.state != .valid

      try authority.issue("next")
      let index = try authority.index()
      let names = try FileManager.default.contentsOfDirectory(atPath: "\(authority.path)/certs")
      let serials = Set(names.filter { $0.hasSuffix(".pem") }.map { String($0.dropLast(4)) })
      #expect(Set(index.entries.map(\.serial)) == serials, "after \(steps) steps")
      #expect(try authority.list().entries.map(\.serial) == (isRevoked ? [old] : []), "after \(steps) steps")
      let status = try await authority.openssl("ca", "-config", "\(authority.path)/openssl.cnf", "-status", old)
      #expect(status.everything.contains("\(old)=\(isRevoked ? "Revoked" : "Valid")"), "after \(steps) steps")
      // Its certificate counts from its rename on.
      #expect((index[serial: issued.certificate.serial] != nil) == (steps >= 2), "after \(steps) steps")
      if interruption.isUnused { break }
    }
    // Two for each file, a certificate, and the index, the number and the list; one for the line that is added to the
    // index. One more is no crash.
    #expect(steps == 10)
  }

  @Test func `a line that a crash cut anywhere is mended by the next change`() async throws {
    let authority = try Authority()
    let old = try authority.issue("old")
    let before = authority.scene.bytes("ca/index.txt")
    let cut = try authority.issue("cut")
    let whole = authority.scene.bytes("ca/index.txt")
    for count in before.count..<whole.count {
      try authority.scene.write("ca/index.txt", Array(whole[..<count]))
      // Who only reads sees it too.
      #expect(try authority.opened().store.index()[serial: cut]?.subject == "/CN=cut", "\(count) bytes")
      let next = try authority.issue("next")
      let index = try authority.index()
      #expect(Set([old, cut, next]).isSubset(of: Set(index.entries.map(\.serial))), "\(count) bytes")
      #expect(index[serial: cut]?.subject == "/CN=cut", "\(count) bytes")
      #expect(authority.scene.bytes("ca/index.txt").last == UInt8(ascii: "\n"))
    }
    let status = try await authority.openssl("ca", "-config", "\(authority.path)/openssl.cnf", "-status", cut)
    #expect(status.everything.contains("\(cut)=Valid"))
  }

  @Test func `a last line without an end that is none, and no certificate's, stops every change`() throws {
    let authority = try Authority()
    try authority.issue("alice")
    let index = authority.scene.bytes("ca/index.txt")
    try authority.scene.write("ca/index.txt", index + Array("V\t2711".utf8))
    #expect { try authority.issue("bob") } throws: { "\($0)".contains("index.txt\" line 2: 2 fields") }
    // A whole one, as an editor leaves it, counts.
    try authority.scene.write("ca/index.txt", Array(index.dropLast()))
    let bob = try authority.issue("bob")
    #expect(try authority.index().entries.last?.serial == bob)
  }

  @Test func `a register that others have changed is read again`() throws {
    let authority = try Authority()
    let alice = try authority.issue("alice")
    let store = try authority.opened().store
    let name = try CommonName("alice")
    func held() throws -> [String] { try store.register.held(by: name, at: 0).map(\.serial) }
    #expect(try held() == [alice])
    // In its place, by another process: the same size, and another file.
    let text = authority.scene.text("ca/index.txt")
    let path = "\(authority.path)/index.txt"
    try authority.scene.write("ca/index.new", text: text.replacing("V\t", with: "E\t"))
    try #require(rename("\(authority.path)/index.new", path) == 0)
    #expect(try held().isEmpty)
    // In the file itself.
    try authority.scene.write("ca/index.txt", text: text + text.replacing(alice, with: "0A0B"))
    #expect(try held() == [alice, "0A0B"])
    // A revocation that only the list knows.
    try authority.revoke(alice)
    try authority.scene.write("ca/index.txt", text: text)
    #expect(try held().isEmpty)
  }

  @Test func `what openssl ca has overwritten is found again`() throws {
    let authority = try Authority()
    let lost = try authority.issue("lost")
    let revoked = try authority.issue("revoked")
    let before = authority.scene.bytes("ca/index.txt")
    try authority.revoke("revoked")
    // What a process writes that had read the index before.
    let stale = String(decoding: before, as: UTF8.self).split(separator: "\n").filter { !$0.contains(lost) }
    try authority.scene.write("ca/index.txt", text: stale.joined(separator: "\n") + "\n")

    let index = try authority.opened().store.index()
    #expect(index[serial: lost]?.state == .valid)
    #expect(index.revoked.map(\.serial) == [revoked])
    try authority.issue("next")
    #expect(try Set(authority.index().entries.map(\.serial)).isSuperset(of: [lost, revoked]))
    #expect(try authority.index().revoked.map(\.serial) == [revoked])
    #expect(try authority.list().entries.map(\.serial) == [revoked])
  }

  @Test func `a revocation whose line is gone stays in the list`() throws {
    let authority = try Authority()
    let revoked = try authority.issue("revoked")
    try authority.revoke("revoked")
    try authority.scene.write("ca/index.txt", text: "")
    try FileManager.default.removeItem(atPath: "\(authority.path)/certs/\(revoked).pem")
    try authority.issue("next")
    let broken = try authority.opened()
    try broken.store.renewList(signer: broken.signer)
    #expect(try authority.list().entries.map(\.serial) == [revoked])
  }

  @Test func `a damaged index or list stops every change, and names the file`() throws {
    let authority = try Authority()
    try authority.issue("alice")
    let index = authority.scene.bytes("ca/index.txt")
    try authority.scene.write("ca/index.txt", index + Array("rubbish\n".utf8))
    #expect { try authority.issue("bob") } throws: { "\($0)".contains("index.txt\" line 2: 1 fields") }
    try authority.scene.write("ca/index.txt", index)
    try authority.scene.write("ca/crl.pem", text: "rubbish")
    #expect { try authority.issue("bob") } throws: { "\($0)".contains("crl.pem") }
    #expect(authority.scene.bytes("ca/index.txt") == index)
  }

  @Test func `nothing that failed is left in the register`() throws {
    let authority = try Authority()
    try authority.scene.write("ca/crlnumber", text: "not a number\n")
    try FileManager.default.removeItem(atPath: "\(authority.path)/crl.pem")
    #expect(throws: AuthorityError.self) { try authority.issue("alice") }
    let names = try FileManager.default.contentsOfDirectory(atPath: "\(authority.path)/certs")
    #expect(names.isEmpty)
  }
}

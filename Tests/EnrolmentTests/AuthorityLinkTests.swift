import Crypto
import Enrolment
import Foundation
import Glibc
import TestSupport
import Testing

/// Root works in a folder that another user may write: what that one puts there leads root nowhere else.
@Suite struct `Links in an authority's folder` {
  private func status(_ path: String) throws -> stat {
    var found = stat()
    try #require(lstat(path, &found) == 0)
    return found
  }

  @Test(arguments: ["hard", "soft"])
  func `a lock that is another file is given to nobody, and a link is not followed`(kind: String) throws {
    let authority = try Authority()
    let victim = try authority.scene.write("victim", text: "root's own\n")
    try FileManager.default.removeItem(atPath: "\(authority.path)/lock")
    if kind == "hard" {
      try #require(link(victim, "\(authority.path)/lock") == 0)
    } else {
      try #require(symlink(victim, "\(authority.path)/lock") == 0)
    }
    if geteuid() == 0 { try #require(chown(authority.path, 65534, 65534) == 0) }
    let before = try status(victim)
    if kind == "hard" {
      // A copy of the folder by hard links looks the same, so it serves.
      try authority.issue("alice")
    } else {
      #expect { try authority.issue("alice") } throws: { "\($0)".contains("/lock\"") }
    }
    let after = try status(victim)
    #expect(after.st_uid == before.st_uid && after.st_gid == before.st_gid && after.st_mode == before.st_mode)
    #expect(authority.scene.text("victim") == "root's own\n")
    try FileManager.default.removeItem(atPath: "\(authority.path)/lock")
    try authority.issue("alice")
    // One that it has made itself belongs to the folder's owner.
    #expect(try status("\(authority.path)/lock").st_uid == status(authority.path).st_uid)
  }

  @Test(arguments: ["certs", "tokens"])
  func `a link in place of a folder is not followed`(name: String) throws {
    let authority = try Authority()
    try authority.issue("alice")
    try authority.scene.makeFolder("elsewhere")
    try authority.scene.write("elsewhere/x.draft", text: "kept")
    try authority.scene.write("elsewhere/over", text: "0F\n")
    let folder = "\(authority.path)/\(name)"
    try? FileManager.default.moveItem(atPath: folder, toPath: "\(folder).old")
    try #require(symlink(authority.scene.path("elsewhere"), folder) == 0)
    let settings = EnrolmentSettings(
      authority: MaterialReference(path: authority.path), passwords: nil, users: MaterialReference(path: "none"),
      renewBefore: 0, strength: .modern, maxDevices: 10, failures: 1, failureTime: 1)
    #expect { try EnrolmentService(settings, EnrolmentState(tokens: TokenRefusals())).keepUp() } throws: {
      "\($0)".contains("/\(name)\"")
    }
    if name == "certs" {
      #expect { try authority.issue("bob") } throws: { "\($0)".contains("/certs\"") }
    }
    let left = try FileManager.default.contentsOfDirectory(atPath: authority.scene.path("elsewhere"))
    #expect(left.sorted() == ["over", "x.draft"])
  }

  @Test func `a register that is another file too is replaced, and nothing is added to that one`() throws {
    let authority = try Authority()
    let alice = try authority.issue("alice")
    // A copy of the folder by hard links, or somebody else's file.
    let index = "\(authority.path)/index.txt"
    let other = authority.scene.path("other")
    try #require(link(index, other) == 0)
    let before = authority.scene.bytes("other")
    let bob = try authority.issue("bob")
    #expect(authority.scene.bytes("other") == before)
    #expect(try authority.index().entries.map(\.serial) == [alice, bob])
  }

  @Test func `a link in place of the register or of a certificate is no register and no certificate`() throws {
    let authority = try Authority()
    let serial = try authority.issue("alice")
    let moved = authority.scene.path("moved.pem")
    let pem = "\(authority.path)/certs/\(serial).pem"
    try FileManager.default.moveItem(atPath: pem, toPath: moved)
    try #require(symlink(moved, pem) == 0)
    #expect(try authority.opened().store.certificate(serial) == nil)
    let index = "\(authority.path)/index.txt"
    try FileManager.default.moveItem(atPath: index, toPath: authority.scene.path("index"))
    try #require(symlink(authority.scene.path("index"), index) == 0)
    #expect { try authority.issue("bob") } throws: { "\($0)".contains("index.txt\"") }
  }
}

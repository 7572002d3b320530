import Foundation
import Glibc
import TestSupport
import Testing

/// The days pass for the command alone.
@Suite(
  .staged,
  .disabled(if: Sanitizer.isUsed, "a sanitizer does not run beside a preloaded library"))
struct `sallyport ca upkeep` {
  private func upkeep(
    _ scene: Scene, days: Int, _ arguments: String..., environment: [String: String] = [:]
  ) async throws -> ToolResult {
    try await scene.run(
      Sallyport.binary(), ["ca", "upkeep", scene.path("ca")] + arguments,
      environment: ClockJump.environment(scene, "+\(days)d").merging(environment) { $1 })
  }

  private func end(_ cast: AuthorityCast) async throws -> String {
    try await cast.openssl("crl", "-in", "ca/crl.pem", "-noout", "-nextupdate")
  }

  @Test func `renews the list in the last third of its life, and not before`() async throws {
    let scene = try Scene.ofTest(), cast = try await AuthorityCast(scene)
    let first = try await end(cast)
    let early = try await upkeep(scene, days: 15)
    #expect(early.status == 0 && early.text.hasSuffix("crl.pem: need not be renewed yet\n"), "\(early.everything)")
    #expect(try await end(cast) == first)
    let due = try await upkeep(scene, days: 22)
    #expect(due.status == 0 && due.text.contains("/crl.pem: renewed, valid until "), "\(due.everything)")
    #expect(try await end(cast) != first)
    try await cast.openssl("crl", "-in", "ca/crl.pem", "-CAfile", "ca/ca.crt", "-noout", "-verify")
  }

  @Test func `renews servers with their keys, and warns of the certificates of others`() async throws {
    let scene = try Scene.ofTest(), cast = try await AuthorityCast(scene)
    try scene.makeFolder("tls")
    for name in ["a.test", "b.test"] {
      _ = try await cast.ca("issue", "--server", name, "--days", "90", "--out", scene.path("tls"))
    }
    _ = try await cast.ca("issue", "--client", "alice", "--days", "90", "--out", scene.folder)
    // Whoever owns the folder could lead root to another file by a link.
    try scene.write("victim.crt", text: scene.text("tls/b.test.crt"))
    try FileManager.default.removeItem(atPath: scene.path("tls/b.test.crt"))
    symlink(scene.path("victim.crt"), scene.path("tls/b.test.crt"))
    // A client's certificate in the folder, and one of another authority, are not the servers'.
    try scene.write("tls/alice.crt", text: scene.text("alice.crt"))
    let old = scene.text("tls/a.test.crt"), victim = scene.text("victim.crt")
    let early = try await upkeep(scene, days: 50, "--out", scene.path("tls"))
    #expect(early.status == 0 && early.errors == "" && scene.text("tls/a.test.crt") == old, "\(early.everything)")

    let due = try await upkeep(scene, days: 70, "--out", scene.path("tls"))
    #expect(due.status == 0, "\(due.everything)")
    #expect(due.text.contains("tls/a.test.crt: renewed, serial "), "\(due.everything)")
    #expect(scene.text("tls/a.test.crt") != old)
    #expect(scene.text("victim.crt") == victim && scene.text("tls/alice.crt") == scene.text("alice.crt"))
    #expect(
      try await cast.openssl("x509", "-in", "tls/a.test.crt", "-noout", "-pubkey")
        == cast.openssl("pkey", "-in", "tls/a.test.key", "-pubout"))
    #expect(due.errors.contains("warning: CN=alice ends on ") && due.errors.contains("warning: CN=b.test ends on "))
    #expect(!due.errors.contains("a.test") && !due.errors.contains("<4>"), "\(due.errors)")
    #expect(try await cast.ca("list").text.split(separator: "\n").count == 4)

    // Nothing is due any more, and the journal would get the warnings as such.
    let quiet = try await scene.run(
      "sh",
      [
        "-c", "exec 2>errors; JOURNAL_STREAM=$(stat -Lc '%d:%i' errors) exec \"$0\" \"$@\"", Sallyport.binary(), "ca",
        "upkeep", scene.path("ca"), "--out", scene.path("tls"),
      ], environment: ClockJump.environment(scene, "+70d"))
    #expect(quiet.status == 0 && !quiet.text.contains("renewed, "), "\(quiet.everything)")
    #expect(scene.text("errors").hasPrefix("<4>warning: CN="), "\(scene.text("errors"))")
  }

  @Test func `has nothing to do in a folder that is missing`() async throws {
    let scene = try Scene.ofTest()
    _ = try await AuthorityCast(scene)
    let quiet = try await upkeep(scene, days: 0, "--out", scene.path("none"))
    #expect(quiet.status == 0 && quiet.errors == "", "\(quiet.everything)")
    #expect(quiet.text.contains("/none: there is no such folder"), "\(quiet.everything)")
    try scene.write("file", text: "")
    #expect(try await upkeep(scene, days: 0, "--out", scene.path("file")).status == 1)
  }

  @Test func `warns of the authority itself half a year before its end`() async throws {
    let scene = try Scene.ofTest()
    _ = try await AuthorityCast(scene)
    #expect(try await upkeep(scene, days: 3400).errors == "")
    #expect(try await upkeep(scene, days: 3500).errors.contains("/ca.crt: CN="))
  }

  @Test func `says by its status that a list could not be renewed`() async throws {
    let scene = try Scene.ofTest()
    _ = try await AuthorityCast(scene)
    try FileManager.default.removeItem(atPath: scene.path("ca/private/ca.key"))
    let failed = try await upkeep(scene, days: 29)
    #expect(failed.status == 1 && failed.errors.contains("ca.key"), "\(failed.everything)")
  }

  @Test func `copies the list for a server that does not see the key, and only when it has changed`() async throws {
    let scene = try Scene.ofTest(), cast = try await AuthorityCast(scene)
    try scene.makeFolder("tls")
    let first = try await upkeep(scene, days: 0, "--crl", scene.path("tls/crl.pem"))
    #expect(first.status == 0 && first.text.contains("tls/crl.pem: the list is written"), "\(first.everything)")
    #expect(scene.text("tls/crl.pem") == scene.text("ca/crl.pem") && scene.text("tls/crl.pem").contains("X509 CRL"))
    let second = try await upkeep(scene, days: 0, "--crl", scene.path("tls/crl.pem"))
    #expect(second.status == 0 && !second.text.contains("is written"), "\(second.everything)")
    _ = try await cast.ca("issue", "--client", "alice", "--out", scene.folder)
    _ = try await cast.ca("revoke", "alice")
    let third = try await upkeep(scene, days: 0, "--crl", scene.path("tls/crl.pem"))
    #expect(third.text.contains("is written") && scene.text("tls/crl.pem") == scene.text("ca/crl.pem"))
    let lost = try await upkeep(scene, days: 0, "--crl", scene.path("none/crl.pem"))
    #expect(lost.status == 1 && lost.errors.contains("there is no folder"), "\(lost.everything)")
  }

  @Test func `stays with --every, says only what changes, and ends by TERM`() async throws {
    let scene = try Scene.ofTest()
    _ = try await AuthorityCast(scene)
    let words = try await scene.run(
      "sh",
      [
        "-c",
        """
        "$0" ca upkeep ca --every 1s --crl copy.pem >out 2>&1 & process=$!
        turn() { while ! [ -e copy.pem ]; do sleep 0.1; done; cmp copy.pem ca/crl.pem; rm copy.pem; }
        turn && turn; kill -TERM $process; wait $process; echo "status $?"
        """, Sallyport.binary(),
      ], environment: [:])
    #expect(words.text.hasSuffix("status 0\n"), "\(words.everything)")
    let lines = Set(scene.text("out").split(separator: "\n"))
    #expect(lines == ["copy.pem: the list is written"], "\(lines)")
    for wrong in ["0s", "11d", "x", "-1s"] {
      let refused = try await scene.run(Sallyport.binary(), ["ca", "upkeep", scene.path("ca"), "--every=\(wrong)"])
      #expect(refused.status == 64, "\(refused.everything)")
      #expect(refused.errors.contains("expected a time from 1s to 10d"), "\(refused.everything)")
    }
  }
}

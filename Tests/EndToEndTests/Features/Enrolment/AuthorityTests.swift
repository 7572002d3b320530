import Bytes
import Crypto
import Foundation
import Glibc
import TestSupport
import Testing

/// Runs a command of `ca` on the folder `ca` of the scene; fails the test when it does not succeed.
@discardableResult
private func ca(_ scene: Scene, _ command: String, _ arguments: String...) async throws -> String {
  try await scene.succeed(
    Sallyport.binary(), arguments: ["ca", command, scene.path("ca")] + arguments)
}

extension Scene {
  fileprivate func succeed(_ command: String, arguments: [String]) async throws -> String {
    let result = try await run(command, arguments)
    guard result.status == 0 else { throw ToolFailed(description: "\(arguments): \(result.everything)") }
    return result.text
  }
}

private struct Listed: Decodable {
  let serial: String
  let subject: String
  let san: [String]
  let not_before: String?
  let not_after: String
  let status: String
  let revoked_at: String?
}

private func list(_ scene: Scene) async throws -> [Listed] {
  try await JSONDecoder().decode([Listed].self, from: Data(ca(scene, "list", "--json").utf8))
}

@Suite(.staged) struct `sallyport ca` {
  @Test func `goes from nothing to certificates that openssl takes, and to one that it refuses`() async throws {
    let scene = try Scene.ofTest()
    try await ca(scene, "init", "--name", "Our CA")
    let out = scene.folder
    try await ca(scene, "issue", "--server", "localhost", "--san", "DNS:localhost,IP:127.0.0.1", "--out", out)
    try await ca(scene, "issue", "--client", "alice", "--out", out)
    try await scene.succeed(
      "openssl", "verify", "-purpose", "sslserver", "-verify_hostname", "localhost", "-verify_ip", "127.0.0.1",
      "-CAfile",
      "ca/ca.crt", "localhost.crt")
    try await scene.succeed(
      "openssl", "verify", "-purpose", "sslclient", "-crl_check", "-CRLfile", "ca/crl.pem", "-CAfile", "ca/ca.crt",
      "alice.crt")
    let wrong = try await scene.run(
      "openssl", ["verify", "-purpose", "sslserver", "-CAfile", "ca/ca.crt", "alice.crt"])
    #expect(wrong.status != 0)
    func mode(_ name: String) throws -> Int? {
      try FileManager.default.attributesOfItem(atPath: scene.path(name))[.posixPermissions] as? Int
    }
    #expect(try mode("alice.key") == 0o600 && mode("localhost.key") == 0o600 && mode("ca/private/ca.key") == 0o600)

    let listed = try await list(scene)
    #expect(listed.map(\.subject) == ["CN=localhost", "CN=alice"])
    #expect(listed.map(\.san) == [["DNS:localhost", "IP:127.0.0.1"], []])
    #expect(listed.allSatisfy { $0.status == "valid" && $0.revoked_at == nil && $0.not_before?.hasSuffix("Z") == true })

    try await ca(scene, "revoke", listed[1].serial)
    let refused = try await scene.run(
      "openssl", ["verify", "-crl_check", "-CRLfile", "ca/crl.pem", "-CAfile", "ca/ca.crt", "alice.crt"])
    #expect(refused.everything.contains("certificate revoked"))
    let after = try await list(scene)
    #expect(after.map(\.status) == ["valid", "revoked"] && after[1].revoked_at != nil)
    #expect(try await scene.succeed("openssl", "crl", "-in", "ca/crl.pem", "-CAfile", "ca/ca.crt", "-noout") == "")
    #expect(try await scene.sallyport("ca", "revoke", scene.path("ca"), "alice").status == 1)
  }

  @Test func `openssl ca works on the folder, and what it does is known`() async throws {
    let scene = try Scene.ofTest()
    try await ca(scene, "init")
    try await ca(scene, "issue", "--client", "ours", "--out", scene.folder)
    try await scene.succeed(
      "openssl", "req", "-new", "-newkey", "rsa:2048", "-nodes", "-keyout", "theirs.key", "-out", "theirs.csr", "-subj",
      "/CN=theirs")
    let openssl = ["ca/lock", "openssl", "ca", "-batch", "-config", "ca/openssl.cnf"]
    _ = try await scene.succeed(
      "flock", arguments: openssl + ["-in", "theirs.csr", "-notext", "-out", "theirs.crt"])
    #expect(try await list(scene).map(\.subject) == ["CN=ours", "CN=theirs"])
    try await scene.succeed("openssl", "verify", "-purpose", "sslclient", "-CAfile", "ca/ca.crt", "theirs.crt")

    let serial = try #require(try await list(scene).first).serial
    _ = try await scene.succeed(
      "flock", arguments: openssl + ["-revoke", "ca/certs/\(serial).pem", "-crl_reason", "keyCompromise"])
    #expect(try await list(scene).map(\.status) == ["revoked", "valid"])
    // The list that openssl has not renewed is renewed by the next change.
    try await ca(scene, "issue", "--client", "next", "--out", scene.folder)
    let text = try await scene.succeed("openssl", "crl", "-in", "ca/crl.pem", "-noout", "-text")
    #expect(text.contains(serial) && text.contains("Key Compromise"))
    _ = try await scene.succeed("flock", arguments: openssl + ["-gencrl", "-out", "ca/crl.pem"])
    try await ca(scene, "revoke", "theirs")
    let both = try await scene.succeed("openssl", "crl", "-in", "ca/crl.pem", "-noout", "-text")
    #expect(both.components(separatedBy: "Serial Number:").count == 3)
  }

  @Test func `openssl ocsp answers from the index`() async throws {
    let scene = try Scene.ofTest()
    try await ca(scene, "init")
    for name in ["good", "bad"] { try await ca(scene, "issue", "--client", name, "--out", scene.folder) }
    try await ca(scene, "revoke", "bad")
    let responder = [
      "ocsp", "-index", "ca/index.txt", "-CA", "ca/ca.crt", "-rsigner", "ca/ca.crt", "-rkey", "ca/private/ca.key",
    ]
    for (name, status) in [("good", "good"), ("bad", "revoked")] {
      let request = ["ocsp", "-issuer", "ca/ca.crt", "-cert", "\(name).crt", "-no_nonce"]
      _ = try await scene.succeed("openssl", arguments: request + ["-reqout", "\(name).req"])
      _ = try await scene.succeed(
        "openssl", arguments: responder + ["-reqin", "\(name).req", "-respout", "\(name).resp"])
      let answer = try await scene.run("openssl", request + ["-respin", "\(name).resp", "-CAfile", "ca/ca.crt"])
      #expect(answer.everything.contains("\(name).crt: \(status)"), "\(answer.everything)")
    }
  }

  @Test func `a PKCS#12 is AES and SHA-256, or old when asked, and NSS imports it`() async throws {
    let scene = try Scene.ofTest()
    try await ca(scene, "init")
    try scene.write("pass", text: "pass phrase\n")
    func issue(_ name: String, _ more: String...) async throws -> String {
      let files = ["--p12", scene.path("\(name).p12"), "--password-file", scene.path("pass"), "--out", scene.folder]
      _ = try await scene.succeed(
        Sallyport.binary(), arguments: ["ca", "issue", scene.path("ca"), "--client", name] + files + more)
      return try await scene.run(
        "openssl", ["pkcs12", "-in", "\(name).p12", "-passin", "file:pass", "-info", "-nodes", "-legacy"]
      ).everything
    }
    let modern = try await issue("modern")
    #expect(modern.contains("MAC: sha256") && modern.contains("PBES2, PBKDF2, AES-256-CBC") && !modern.contains("RC2"))
    #expect(modern.components(separatedBy: "BEGIN CERTIFICATE").count == 3 && modern.contains("BEGIN PRIVATE KEY"))
    let legacy = try await issue("legacy", "--legacy", "--key", "rsa2048")
    #expect(legacy.contains("MAC: sha1") && legacy.contains("40BitRC2-CBC") && legacy.contains("3-KeyTripleDES-CBC"))
    let taken = try await scene.sallyport("ca", "issue", scene.path("ca"), "--client", "x", "--p12", "x.p12")
    #expect(taken.status != 0 && taken.errors.contains("--password-file"))

    guard access("/usr/bin/pk12util", X_OK) == 0 else { return }
    try scene.makeFolder("nss")
    try await scene.succeed("certutil", "-N", "-d", "sql:nss", "--empty-password")
    let imported = try await scene.run(
      "pk12util", ["-i", "modern.p12", "-d", "sql:nss", "-W", "pass phrase", "-K", ""])
    #expect(imported.status == 0, "\(imported.everything)")
    #expect(try await scene.succeed("certutil", "-L", "-d", "sql:nss").contains("modern"))
  }

  @Test func `two that issue at once have one index and different serials`() async throws {
    let scene = try Scene.ofTest()
    try await ca(scene, "init")
    let binary = try Sallyport.binary()
    let rounds = 50
    let script = "for i in $(seq \(rounds)); do '\(binary)' ca issue ca --client $1$i --out $1 || exit 1; done"
    for name in ["a", "b"] { try scene.makeFolder(name) }
    async let first = scene.run("sh", ["-c", script, "sh", "a"], within: .seconds(300))
    async let second = scene.run("sh", ["-c", script, "sh", "b"], within: .seconds(300))
    for result in try await [first, second] { #expect(result.status == 0, "\(result.everything)") }
    let listed = try await list(scene)
    #expect(listed.count == 2 * rounds)
    #expect(Set(listed.map(\.serial)).count == 2 * rounds)
    #expect(Set(listed.map(\.subject)).count == 2 * rounds)
    #expect(scene.text("ca/index.txt").split(separator: "\n").count == 2 * rounds)
    let last = try await scene.run("openssl", ["ca", "-config", "ca/openssl.cnf", "-status", listed[0].serial])
    #expect(last.everything.contains("=Valid"))
  }

  @Test func `a full disk changes nothing`() async throws {
    let scene = try Scene.ofTest()
    try scene.makeFolder("ca")
    // Without the right to mount there is no small disk to fill.
    guard try await scene.run("mount", ["-t", "tmpfs", "-o", "size=96k", "tmpfs", scene.path("ca")]).status == 0 else {
      return
    }
    let folder = scene.path("ca")
    scene.atEnd { umount2(folder, Int32(MNT_DETACH)) }
    try await ca(scene, "init")
    try await ca(scene, "issue", "--client", "first", "--out", scene.folder)
    _ = try await scene.run("dd", ["if=/dev/zero", "of=ca/filler", "bs=4k"])
    let before = ["index.txt", "crlnumber", "crl.pem"].map { scene.bytes("ca/\($0)") }
    let names = try FileManager.default.contentsOfDirectory(atPath: "\(folder)/certs")
    let issued = try await scene.sallyport("ca", "issue", folder, "--client", "second", "--out", scene.folder)
    #expect(issued.status == 1 && issued.errors.contains("No space left"), "\(issued.everything)")
    let revoked = try await scene.sallyport("ca", "revoke", folder, "first")
    #expect(revoked.status == 1 && revoked.errors.contains("No space left"), "\(revoked.everything)")
    #expect(["index.txt", "crlnumber", "crl.pem"].map { scene.bytes("ca/\($0)") } == before)
    #expect(try FileManager.default.contentsOfDirectory(atPath: "\(folder)/certs") == names)
    #expect(access(scene.path("second.crt"), F_OK) != 0)
    try FileManager.default.removeItem(atPath: "\(folder)/filler")
    try await ca(scene, "revoke", "first")
    #expect(try await list(scene).map(\.status) == ["revoked"])
  }

  @Test func `nothing is written over a file`() async throws {
    let scene = try Scene.ofTest()
    try await ca(scene, "init")
    try scene.write("alice.key", text: "mine")
    let refused = try await scene.sallyport("ca", "issue", scene.path("ca"), "--client", "alice", "--out", scene.folder)
    #expect(refused.status == 1 && refused.errors.contains("alice.key\" is there already"))
    #expect(scene.text("alice.key") == "mine" && access(scene.path("alice.crt"), F_OK) != 0)
    #expect(try await list(scene).isEmpty)
    let again = try await scene.sallyport("ca", "init", scene.path("ca"))
    #expect(again.status == 1 && again.errors.contains("holds an authority already"))
  }

  @Test func `a CA's key with a pass phrase is asked for it`() async throws {
    let scene = try Scene.ofTest()
    try scene.write("ca-pass", text: "long phrase\n")
    try await ca(scene, "init", "--ca-password-file", scene.path("ca-pass"))
    let refused = try await scene.sallyport("ca", "issue", scene.path("ca"), "--client", "a", "--out", scene.folder)
    #expect(refused.status == 1 && refused.errors.contains("--ca-password-file"))
    try await ca(scene, "issue", "--client", "a", "--out", scene.folder, "--ca-password-file", scene.path("ca-pass"))
    try await ca(scene, "revoke", "a", "--ca-password-file", scene.path("ca-pass"))
  }
}

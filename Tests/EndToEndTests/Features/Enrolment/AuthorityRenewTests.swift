import Foundation
import TestSupport
import Testing

@Suite(.staged) struct `sallyport ca renew` {
  @Test func `keeps key and names, and replaces the old file only`() async throws {
    let scene = try Scene.ofTest(), cast = try await AuthorityCast(scene)
    _ = try await cast.ca(
      "issue", "--server", "localhost", "--san", "DNS:localhost,IP:127.0.0.1", "--days", "5", "--out", scene.folder)
    let old = scene.text("localhost.crt"), key = scene.text("localhost.key")
    let soon = try await cast.ca("list", "--expiring", "30")
    #expect(soon.status == 1 && soon.text.contains("CN=localhost"), "\(soon.everything)")
    let renewed = try await cast.ca("renew", "localhost", "--out", scene.folder)
    #expect(renewed.status == 0 && renewed.text.contains("stays valid until"), "\(renewed.everything)")
    #expect(scene.text("localhost.crt") != old && scene.text("localhost.key") == key)
    try await cast.openssl(
      "verify", "-purpose", "sslserver", "-verify_hostname", "localhost", "-verify_ip", "127.0.0.1", "-CAfile",
      "ca/ca.crt", "localhost.crt")
    let public_ = try await cast.openssl("x509", "-in", "localhost.crt", "-noout", "-pubkey")
    #expect(try await cast.openssl("pkey", "-in", "localhost.key", "-pubout") == public_)
    #expect(try await cast.ca("list", "--expiring", "30").status == 0)

    let rekeyed = try await cast.ca("renew", "localhost", "--new-key", "--revoke-old", "--out", scene.folder)
    #expect(rekeyed.status == 0 && rekeyed.text.contains("revoked "), "\(rekeyed.everything)")
    #expect(scene.text("localhost.key") != key)
    #expect(
      try await cast.openssl("x509", "-in", "localhost.crt", "-noout", "-pubkey")
        == cast.openssl("pkey", "-in", "localhost.key", "-pubout"))
    let mode = try FileManager.default.attributesOfItem(atPath: scene.path("localhost.key"))[.posixPermissions] as? Int
    #expect(mode == 0o600)
    #expect(try await cast.ca("list").text.components(separatedBy: "revoked").count == 2)
  }

  @Test func `completes one that ended between the new key and its certificate`() async throws {
    let scene = try Scene.ofTest(), cast = try await AuthorityCast(scene)
    _ = try await cast.ca("issue", "--client", "alice", "--out", scene.folder)
    let old = scene.text("alice.crt"), oldKey = scene.bytes("alice.key")
    let serial = String(try await cast.ca("list").text.prefix { $0 != " " })
    #expect(try await cast.ca("renew", "alice", "--new-key", "--out", scene.folder).status == 0)
    let new = scene.text("alice.crt"), newKey = scene.text("alice.key")
    for which in ["alice", serial] {
      try scene.write("alice.crt", text: old)
      let repeated = try await cast.ca("renew", which, "--new-key", "--out", scene.folder)
      #expect(repeated.status == 0 && repeated.text.contains("this completes it"), "\(repeated.everything)")
      #expect(scene.text("alice.crt") == new && scene.text("alice.key") == newKey)
      #expect(try await cast.ca("list").text.split(separator: "\n").count == 2)
    }
    // It was registered, and ended before it wrote a file: the certificate in the file is the one to renew.
    try scene.write("alice.crt", text: old)
    try scene.write("alice.key", oldKey)
    let renewed = try await cast.ca("renew", "alice", "--revoke-old", "--out", scene.folder)
    #expect(renewed.status == 0 && renewed.text.contains("revoked \(serial)"), "\(renewed.everything)")
    #expect(
      try await cast.openssl("x509", "-in", "alice.crt", "-noout", "-pubkey")
        == cast.openssl("pkey", "-in", "alice.key", "-pubout"))
  }

  @Test(.disabled(if: Sanitizer.isUsed, "a sanitizer makes files before the program runs"))
  func `leaves nothing half done where files may not grow`() async throws {
    let scene = try Scene.ofTest(), cast = try await AuthorityCast(scene)
    _ = try await cast.ca("issue", "--client", "alice", "--out", scene.folder)
    let full = try await scene.run(
      "sh",
      [
        "-c", "{ ulimit -f 0; exec \"$@\"; } 2>&1 | cat", "sh", Sallyport.binary(), "ca", "renew", scene.path("ca"),
        "alice",
      ])
    #expect(full.text.contains("File too large"), "\(full.everything)")
    #expect(try !FileManager.default.contentsOfDirectory(atPath: scene.folder).contains { $0.hasSuffix(".draft") })
    #expect(try await cast.ca("list").text.split(separator: "\n").count == 1)
  }

  @Test func `refuses what is revoked, another's file and several certificates of a name`() async throws {
    let scene = try Scene.ofTest(), cast = try await AuthorityCast(scene)
    _ = try await cast.ca("issue", "--client", "alice", "--san", "URI:urn:x:phone", "--out", scene.folder)
    try scene.makeFolder("b")
    _ = try await cast.ca("issue", "--client", "alice", "--san", "URI:urn:x:desk", "--out", scene.path("b"))
    let both = try await cast.ca("renew", "alice", "--out", scene.folder)
    #expect(both.status == 1 && both.errors.contains("2 valid certificates with different names"))
    let serial = String(try await cast.ca("list").text.prefix { $0 != " " })
    let other = try await cast.ca("renew", serial, "--out", scene.path("b"))
    #expect(other.status == 1 && other.errors.contains("is not replaced"), "\(other.everything)")
    _ = try await cast.ca("revoke", serial)
    let revoked = try await cast.ca("renew", serial, "--out", scene.folder)
    #expect(revoked.status == 1 && revoked.errors.contains("a revoked certificate is not renewed"))
    #expect(try await cast.ca("list").text.split(separator: "\n").count == 2)
  }

  @Test func `--ca keeps the key, so that both of its certificates verify what was issued`() async throws {
    let scene = try Scene.ofTest(), cast = try await AuthorityCast(scene)
    _ = try await cast.ca("issue", "--client", "alice", "--out", scene.folder)
    try scene.write("old.crt", scene.bytes("ca/ca.crt"))
    let renewed = try await cast.ca("renew", "--ca")
    #expect(renewed.status == 0 && scene.text("old.crt") != scene.text("ca/ca.crt"), "\(renewed.everything)")
    _ = try await cast.ca("issue", "--client", "bob", "--out", scene.folder)
    for anchor in ["old.crt", "ca/ca.crt"] {
      try await cast.openssl("verify", "-CAfile", anchor, "alice.crt", "bob.crt")
      try await cast.openssl("crl", "-in", "ca/crl.pem", "-CAfile", anchor, "-noout")
    }
  }
}

@Suite(.staged) struct `An intermediate authority` {
  @Test func `issues chains that openssl, curl and sallyport take, and lists of both levels count`() async throws {
    let scene = try Scene.ofTest(), root = try await AuthorityCast(scene, folder: "root", "--root", "--name", "Root")
    let cast = try await AuthorityCast(scene, folder: "ca", "--intermediate-of", scene.path("root"))
    for arguments in [["--server", "localhost", "--san", "DNS:localhost,IP:127.0.0.1"], ["--client", "alice"]] {
      try await cast.succeed("ca", ["issue", scene.path("ca")] + arguments + ["--out", scene.folder])
    }
    #expect(scene.text("localhost.crt").components(separatedBy: "BEGIN CERTIFICATE").count == 3)
    #expect(scene.text("ca/root.crt") == scene.text("root/ca.crt"))
    try await cast.openssl("verify", "-CAfile", "ca/root.crt", "-untrusted", "alice.crt", "alice.crt")
    try scene.write("lists.pem", scene.bytes("ca/crl.pem") + scene.bytes("root/crl.pem"))

    let port = try scene.port()
    let server = try await Sallyport.start(
      scene,
      """
      pid sallyport.pid; events {} http { server { listen 127.0.0.1:\(port) ssl; ssl_certificate localhost.crt;
        ssl_certificate_key localhost.key; ssl_client_certificate ca/ca.crt; ssl_verify_client on; ssl_verify_depth 2;
        ssl_crl lists.pem; return 200 "$ssl_client_s_dn"; } }
      """)
    extendLifetime(server)
    let curl = ["-sS", "--cacert", "ca/root.crt", "--cert", "alice.crt", "--key", "alice.key"]
    let page = try await scene.run("curl", curl + ["https://localhost:\(port)/"])
    #expect(page.text == "CN=alice", "\(page.everything)")

    let below = try await scene.sallyport("ca", "init", scene.path("third"), "--intermediate-of", scene.path("ca"))
    #expect(below.status == 1 && below.errors.contains("path length is 0"), "\(below.everything)")
    let same = try await scene.sallyport(
      "ca", "init", scene.path("same"), "--intermediate-of", scene.path("root"), "--name", "Root")
    #expect(same.status == 1 && same.errors.contains("its root's name"), "\(same.everything)")
    // A revoked intermediate takes everything below it with it.
    #expect(try await root.ca("revoke", "sallyport intermediate CA").status == 0)
    try scene.write("both.pem", scene.bytes("ca/crl.pem") + scene.bytes("root/crl.pem"))
    let refused = try await scene.run(
      "openssl",
      [
        "verify", "-crl_check_all", "-CRLfile", "both.pem", "-CAfile", "ca/root.crt", "-untrusted", "alice.crt",
        "alice.crt",
      ])
    #expect(refused.everything.contains("certificate revoked"), "\(refused.everything)")
  }
}

@Suite(.staged) struct `sallyport trust` {
  @Test func `adds and removes a root, twice like once, and nothing that is no root`() async throws {
    let scene = try Scene.ofTest(), root = try await AuthorityCast(scene, folder: "root", "--root", "--name", "Root")
    let cast = try await AuthorityCast(scene, folder: "ca", "--intermediate-of", scene.path("root"))
    _ = try await root.ca("issue", "--client", "alice", "--out", scene.folder)
    try scene.makeFolder("store")
    let store = ["--folder", scene.path("store")]
    func trust(_ arguments: String...) async throws -> ToolResult {
      try await scene.run(Sallyport.binary(), ["trust"] + arguments + store)
    }
    func names() throws -> [String] { try FileManager.default.contentsOfDirectory(atPath: scene.path("store")) }
    for source in ["ca", "root", "root/ca.crt", "root"] {
      let added = try await trust("add", scene.path(source))
      #expect(added.status == 0, "\(source): \(added.everything)")
    }
    let file = try #require(try names().first)
    #expect(try names().count == 1 && scene.text("store/\(file)") == scene.text("root/ca.crt"))
    let fingerprint = try await cast.openssl("x509", "-in", "root/ca.crt", "-noout", "-fingerprint", "-sha256")
    let shown = try await trust("add", scene.path("root")).text
    #expect(
      shown.contains(
        fingerprint.split(separator: "=")[1].replacing(":", with: "").lowercased()
          .trimmingCharacters(in: .whitespacesAndNewlines)), "\(shown)")
    for _ in 0..<2 { #expect(try await trust("remove", scene.path("root")).status == 0) }
    #expect(try names().isEmpty)

    func refused(_ file: String, _ reason: String) async throws {
      let result = try await trust("add", scene.path(file))
      #expect(result.status == 1 && result.errors.contains(reason), "\(file): \(result.everything)")
    }
    try await refused("alice.crt", "expected one root")
    try await refused("alice.key", "holds no certificate")
    for (name, lines, reason) in [
      ("leaf", "basicConstraints=CA:FALSE", "is no CA"), ("plain", "subjectKeyIdentifier=hash", "is no CA"),
      ("usage", "basicConstraints=critical,CA:TRUE\nkeyUsage=critical,digitalSignature", "forbids to sign"),
    ] {
      try scene.write("x.cnf", text: "[req]\ndistinguished_name=d\nprompt=no\n[d]\nCN=x\n[e]\n\(lines)\n")
      try await cast.openssl(
        "req", "-x509", "-config", "x.cnf", "-extensions", "e", "-newkey", "ed25519", "-nodes", "-keyout", "x.key",
        "-out", "\(name).crt")
      try await refused("\(name).crt", reason)
    }
    try scene.write("ended.crt", text: AuthorityCast.endedRoot())
    try await refused("ended.crt", "has ended")
    // One that ended while it was trusted leaves the store.
    let digest = try await cast.openssl("x509", "-in", "ended.crt", "-noout", "-fingerprint", "-sha256")
    let hash = digest.split(separator: "=")[1].replacing(":", with: "").lowercased().prefix(16)
    try scene.write("store/sallyport-\(hash).crt", scene.bytes("ended.crt"))
    let removed = try await trust("remove", scene.path("ended.crt"))
    #expect(removed.status == 0 && removed.text.contains("removed"), "\(removed.everything)")
    try scene.write("two.crt", scene.bytes("root/ca.crt") + scene.bytes("ended.crt"))
    try await refused("two.crt", "holds 2 certificates that are their own issuer")
    #expect(try names().isEmpty)
  }
}

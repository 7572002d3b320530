import Foundation
import Glibc
import TestSupport
import Testing

/// Whoever runs a command has given options, and may have no configuration file: errors speak of nothing else.
@Suite(.staged) struct `A wrong option` {
  /// The command, the arguments, and the words of the error: the option and its value.
  private static let table: [(arguments: [String], words: String)] = [
    (["health", "--listen", ""], "--listen \"\": it is empty"),
    (["health", "--listen", "x"], "--listen \"x\": "), (["health", "--timeout", "0"], "--timeout 0: expected"),
    (["health", "--config", ""], "--config \"\": "), (["check", "--config", ""], "--config \"\": "),
    (["reload", "1"], "\"1\" is not the id"), (["reload", "2", "--timeout", "0"], "--timeout 0: expected"),
    (["probe", "a:1", "--password-file", "X"], "--password-file"), (["probe", "a:1", "--name", ""], "--name \"\": "),
    (["probe", "a:1", "--cert", "none"], "--cert \"none\": "), (["probe", "a:1", "--pin", "none"], "--pin \"none\": "),
    (["probe", "a:1", "--cert", "alice.pem", "--key", "none"], "--key \"none\": "),
    (["probe", "a:1", "--pin", ""], "--pin \"\": "), (["probe", "a:1", "--cafile", "none"], "--cafile \"none\": "),
    (["probe", "a:1", "--cafile", ""], "--cafile \"\": "),
    (["probe", "a:1", "--pin", "sha256//x"], "--pin \"sha256//x\""),
    (["probe", "--config", "x.conf", "--server", ""], "--server \"\": "),
    (["probe", "--config", "x.conf", "--name", "a"], "--name replaces"),
    (["pin", "alice.key", "--password-file", "none"], "--password-file \"none\": "),
    (["proxy", "--print", "--listen", "x"], "--listen \"x\": "), (["proxy", "--print", "--to", "x"], "--to \"x\": "),
    (
      [
        "proxy", "--print", "--listen", ":1", "--to", "http://a", "--cert", "server.pem", "--client-ca", "ca.pem",
        "--allow", "x",
      ], "--allow \"x\" is no rule\n"
    ),
    (["check", "--explain", "x", "--config", "x.conf"], "--explain \"x\": "),
    (["check", "--explain", "GET https://a/", "--from", "x", "--config", "x.conf"], "--from \"x\": "),
    (["check", "--explain", "GET https://a/", "--header", "x", "--config", "x.conf"], "--header \"x\": "),
    (["ca", "init", "new", "--name", ""], "--name \"\" can't be"),
    (["ca", "init", "new", "--ca-password-file", "none"], "--ca-password-file \"none\": "),
    (
      ["ca", "init", "new", "--intermediate-of", "ca", "--root-password-file", "none"],
      "--root-password-file \"none\": "
    ),
    (["ca", "issue", "ca", "--client", ""], "--client \"\" can't be"),
    (["ca", "issue", "ca", "--server", "a/b"], "--server \"a/b\" can't be"),
    (["ca", "issue", "ca", "--client", "a", "--days", "0"], "--days 0: expected"),
    (["ca", "issue", "ca", "--client", "a", "--san", "x"], "--san \"x\" is no name"),
    (["ca", "issue", "ca", "--client", "a", "--p12", "x", "--password-file", "none"], "--password-file \"none\": "),
    (["ca", "issue", "ca", "--client", "a", "--ca-password-file", "none"], "--ca-password-file \"none\": "),
    (["ca", "sign", "ca", "none", "--days", "4000"], "--days 4000: expected"),
    (["ca", "renew", "ca", "a", "--days", "0"], "--days 0: expected"),
    (["ca", "crl", "ca", "--days", "0"], "--days 0: "),
    (["ca", "list", "ca", "--expiring=-1"], "--expiring -1: "),
    (["ca", "inspect", "alice.pem", "--password-file", "none"], "--password-file \"none\": "),
    (["signature", "sign", "--keyid", "", "--algorithm", "ed25519", "--key", "x"], "--keyid \"\": "),
    (["signature", "sign", "--keyid", "a", "--algorithm", "x", "--key", "x"], "--algorithm: \"x\""),
    (["signature", "sign", "--keyid", "a", "--algorithm", "ed25519", "--key", "none"], "--key \"none\": "),
    (
      ["signature", "sign", "--keyid", "a", "--algorithm", "ed25519", "--key", "x", "--scheme", "y"], "--scheme \"y\": "
    ),
    (hmac("sign", "--label", "A"), "--label \"A\" is not"), (hmac("verify", "--label", ""), "--label \"\" is not"),
    (hmac("sign", "--expires", "0"), "--expires 0: "), (hmac("verify", "--max-age=-1"), "--max-age -1: "),
    (hmac("sign", "--authority", ""), "--authority \"\": "), (hmac("sign", "--component", "@x"), "--component @x: "),
    (["envelope", "seal", "--cipher", "x", "--key", "h"], "--cipher: \"x\""),
    (["envelope", "seal", "--cipher", "aes-256-gcm", "--mac", "none", "--key", "none"], "--key \"none\": "),
    (["envelope", "open", "--cipher", "aes-256-cbc", "--key", "h", "--mac-key", "none"], "--mac-key \"none\": "),
    (["envelope", "open", "--cipher", "aes-256-cbc", "--key", "h", "--mac", "x"], "--mac: \"x\""),
    (["demo", "--port", "0"], "--port 0: expected"), (["demo", "--tls", "1.1"], "'1.1' is invalid for '--tls"),
    (["demo", "--upstream", "https://a:1"], "needs --upstream-pin"),
    (["demo", "--upstream", "x"], "'x' is invalid for '--upstream"),
  ]

  @Test func `has the exit status of a usage error, and the word error in small letters, in every command`()
    async throws
  {
    let scene = try Scene.ofTest()
    for arguments in [
      ["probe"], ["check", "--nosuch"], ["check", "--dump", "--running"], ["run", "a", "b"], ["ca", "issue"],
    ] {
      let result = try await scene.run(Sallyport.binary(), arguments)
      #expect(result.status == 64 && result.errors.hasPrefix("error: "), "\(arguments): \(result.everything)")
    }
  }

  private static func hmac(_ command: String, _ more: String...) -> [String] {
    ["signature", command, "--keyid", "a", "--algorithm", "hmac-sha256", "--key", "h"] + more
  }

  @Test func `is named with its value, without the words of a configuration file, and fails`() async throws {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    try scene.write("h", text: String(repeating: "ab", count: 32))
    try scene.write("x.conf", text: "events {} http { server { listen 127.0.0.1:1; server_name a; } }")
    _ = try await scene.sallyport("ca", "init", scene.path("ca"))
    let binary = try Sallyport.binary()
    // `proxy` takes options from variables.
    for (arguments, words) in Self.table {
      let result = try await scene.run("env", ["-i", "PATH=/usr/bin:/bin", binary] + arguments)
      let text = result.errors + result.text
      #expect(result.status != 0 && text.contains(words), "\(arguments): \(text)")
      for spoken in ["directive", "ssl_", "proxy_", "message_", "command line"] {
        #expect(!result.errors.contains(spoken), "\(arguments): \(text)")
      }
      // The usage is that of the command, not of the whole program.
      #expect(!text.contains("Usage: sallyport <subcommand>"), "\(arguments): \(text)")
    }
  }
}

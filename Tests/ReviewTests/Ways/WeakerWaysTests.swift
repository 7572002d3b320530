import ConfigurationSupport
import Language
import Observability
@testable import Review
import TestSupport
import Testing
@testable import Traffic

/// Holes that other proxies had, put into the configurations of config/: each is a way that asks for less than before.
@Suite struct `Holes in configurations` {
  struct Hole: CustomTestStringConvertible, Sendable {
    let name: String
    let file: String
    let old: String
    let new: String
    /// A line of the report has these words.
    let words: String

    var testDescription: String { name }
  }

  static let holes = [
    Hole(
      name: "the default server asks nobody for a certificate", file: "multi-tenant",
      old: "    ssl_reject_handshake on;\n",
      new:
        "    ssl_certificate red.pem; ssl_certificate_key red.key; location / { proxy_pass http://127.0.0.1:3001; }\n",
      words: "http://127.0.0.1:3001"),
    Hole(
      name: "a server with another Host asks for no certificate", file: "multi-tenant",
      old: "  server {\n    listen 443 ssl;\n    server_name red.example.com;",
      new: """
          server { listen 443 ssl; server_name old.example.com; ssl_certificate red.pem; ssl_certificate_key red.key;
            location / { proxy_pass http://127.0.0.1:3001; } }
          server {
            listen 443 ssl;
            server_name red.example.com;
        """, words: "http://127.0.0.1:3001"),
    Hole(
      name: "a plain listener beside TLS", file: "legacy-rewrite", old: "    listen 443 ssl;\n",
      new: "    listen 443 ssl;\n    listen 8080;\n", words: "0.0.0.0:8080"),
    Hole(
      name: "the error page of a refusal is the application", file: "multi-tenant",
      old: "    server_name red.example.com;\n",
      new: """
            server_name red.example.com;
            error_page 495 496 = @red;
            location @red { proxy_pass http://127.0.0.1:3001; }

        """, words: "@red"),
    Hole(
      name: "the certificate is optional", file: "multi-tenant",
      old: "    ssl_client_certificate red-ca.pem;\n    ssl_verify_client on;",
      new: "    ssl_client_certificate red-ca.pem;\n    ssl_verify_client optional;",
      words: "a certificate of "),
    Hole(
      name: "a refusal is only reported", file: "multi-tenant",
      old: "    ssl_client_certificate blue-ca.pem;\n",
      new: "    ssl_client_certificate blue-ca.pem;\n    ssl_verify_report_only on;\n", words: "a certificate of "),
    Hole(
      name: "slashes aren't merged", file: "legacy-rewrite", old: "    server_name erp.example.com;\n",
      new: "    server_name erp.example.com;\n    merge_slashes off;\n", words: "several slashes are one"),
    Hole(
      name: "parameters of a path are not judged", file: "legacy-rewrite", old: "    server_name erp.example.com;\n",
      new: "    server_name erp.example.com;\n    path_readings backslash case dots decode slashes literal;\n",
      words: "judges the reading parameters"),
    Hole(
      name: "case and escapes of a path are not judged", file: "legacy-rewrite",
      old: "    server_name erp.example.com;\n",
      new: "    server_name erp.example.com;\n    path_readings off;\n", words: "judges the reading case"),
    Hole(
      name: "the field that says who the client is comes from the client", file: "multi-tenant",
      old: "      proxy_set_header X-Client-DN $ssl_client_s_dn;\n", new: "", words: "tells X-Client-DN"),
    Hole(
      name: "nobody is asked about the request", file: "oauth2-proxy", old: "      auth_request /oauth2/auth;\n",
      new: "",
      words: "the word of /oauth2/auth"),
    Hole(
      name: "an internal location is open", file: "oauth2-proxy", old: "      internal;\n", new: "",
      words: "/oauth2/auth"),
  ]

  @Test(arguments: holes) func `a hole is found`(_ hole: Hole) throws {
    try withScene { scene in
      let path = "\(checkout)/config/\(hole.file).conf"
      let text = String(decoding: try #require(try? SourceFiles.disk.read(path, 1 << 20).get()), as: UTF8.self)
      try #require(text.contains(hole.old), "config/\(hole.file).conf has other lines now")
      let changed = text.replacing(hole.old, with: hole.new, maxReplacements: 1)
      let old = try Ways(scene.write("old.conf", text: text), isTried: false)
      let new = try Ways(scene.write("new.conf", text: changed), isTried: false)
      let lines = WeakerWays(new, than: old).lines
      #expect(lines.contains { $0.contains(hole.words) }, "\(lines)")
      // Closing it is none.
      #expect(!WeakerWays(old, than: new).lines.contains { $0.contains(hole.words) })
    }
  }

  @Test func `a configuration has no way that is weaker than its own`() throws {
    let files = try SourceFiles.disk.expand("\(checkout)/config/*.conf").get()
    #expect(files.count > 15)
    for path in files {
      let ways = try Ways(path, isTried: false)
      #expect(ways.isComplete, "\(path)")
      #expect(WeakerWays(ways, than: ways).found.isEmpty, "\(path)")
    }
  }

  /// The lines of `ways NEW --than OLD`.
  private func weaker(_ new: String, than old: String) throws -> [String] {
    try withScene { scene in
      func ways(_ name: String, _ lines: String) throws -> Ways {
        let text = "events {} http { ssl_certificate s; ssl_certificate_key k; \(lines) }"
        return try Ways(scene.write(name, text: text), isTried: false)
      }
      return WeakerWays(try ways("new.conf", new), than: try ways("old.conf", old)).lines
    }
  }

  private static let app = "location / { proxy_pass http://127.0.0.1:9; }"
  private static let trust = "ssl_client_certificate ca; ssl_verify_client on;"

  @Test func `another word about addresses or certificates that is taken is a way that asks for less`() throws {
    func text(_ from: String) -> String {
      "server { listen 80; \(from) real_ip_header X-Forwarded-For; allow 10.0.0.0/8; deny all; \(Self.app) }"
    }
    let near = "set_real_ip_from 10.0.0.1;"
    for wider in ["\(near) set_real_ip_from 0.0.0.0/0;", "\(near) set_real_ip_from 192.0.2.1;"] {
      #expect(try !weaker(text(wider), than: text(near)).isEmpty, "\(wider)")
      #expect(try weaker(text(near), than: text(wider)) == [], "\(wider)")
    }
    func relayed(_ from: String) -> String {
      "server { listen 80; real_client_cert_from \(from); real_client_cert_header Client-Cert rfc9440; \(Self.trust)"
        + " \(Self.app) }"
    }
    #expect(try !weaker(relayed("10.0.0.1 10.0.0.2"), than: relayed("10.0.0.1")).isEmpty)
    #expect(try weaker(relayed("10.0.0.1"), than: relayed("10.0.0.1 10.0.0.2")) == [])
  }

  @Test func `a name is compared with the server block that it led to before`() throws {
    func named(_ name: String, _ lines: String = Self.trust, _ listen: String = "") -> String {
      "server { listen 443 ssl \(listen); server_name \(name); \(lines) \(Self.app) }"
    }
    let open = "ssl_verify_client off;"
    // A block that is no default any more gets less.
    #expect(try weaker(named("a") + named("b", "return 404;", "default_server"), than: named("a")) == [])
    // The default had the name before, and asked for as little.
    #expect(try weaker(named("a") + named("b"), than: named("a")) == [])
    // A pattern had it, which asked for more than the default.
    let before = named("*.a.test") + named("c", open, "default_server")
    #expect(try !weaker(before + named("x.a.test", open), than: before).isEmpty)
    #expect(try weaker(before + named("x.a.test"), than: before) == [])
    #expect(try !weaker(named("a b", open) + named("c"), than: named("a", open) + named("b") + named("c")).isEmpty)
  }

  @Test func `ways of one block that lack the same are told together, the widest open first`() throws {
    func text(_ listen: String) -> String {
      "server { listen 443 ssl; \(listen) \(Self.trust) location /x/ { proxy_pass http://127.0.0.1:9; }"
        + " location /y/ { proxy_pass http://127.0.0.1:9; } }"
    }
    let lines = try weaker(text("listen 8080;"), than: text(""))
    #expect(lines.count == 4 && lines[0].hasPrefix("anybody, by 0.0.0.0:8080, any name"), "\(lines)")
    #expect(lines.last == "  a new way")
  }

  @Test func `satisfy any is weaker than both conditions`() throws {
    func ways(_ line: String, _ scene: Scene) throws -> Ways {
      try Ways(
        scene.write(
          "x.conf",
          text: """
            events {} http { server { listen 80; location / { \(line) allow 10.0.0.0/8; deny all;
              auth_basic a; auth_basic_user_file users; proxy_pass http://127.0.0.1:9; } } }
            """), isTried: false)
    }
    try withScene { scene in
      let both = try ways("", scene), either = try ways("satisfy any;", scene)
      #expect(!WeakerWays(either, than: both).found.isEmpty)
    }
  }
}

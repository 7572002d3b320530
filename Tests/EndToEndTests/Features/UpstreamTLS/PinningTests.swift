import Crypto
import Foundation
import Glibc
import TestSupport
import Testing

/// A daemon whose locations differ in what they trust, and an access log of how each was judged.
private struct TrustingProxy {
  let scene: Scene
  let port: UInt16
  let daemon: Sallyport

  /// `locations`: name and trust.
  init(_ scene: Scene, to upstream: UInt16, _ locations: [(String, String)], group: String = "") async throws {
    self.scene = scene
    port = try scene.port()
    let target = group.isEmpty ? "127.0.0.1:\(upstream)" : "group"
    daemon = try await Sallyport.serve(
      scene,
      """
      log_format trust "$uri|$status|$upstream_ssl_result|$upstream_ssl_spki|";
      access_log trust.log trust;
      \(group)
      server {
        listen 127.0.0.1:\(port);
        proxy_ssl_name up.test;
        \(locations.map { "location /\($0) { proxy_pass https://\(target); \($1) }" }.joined(separator: "\n"))
      }
      """)
  }

  func ask(_ location: String) async throws -> CurlResult {
    try await scene.curl(
      ["-H", "X-Secret: s3cr3t-field", "http://127.0.0.1:\(port)/\(location)"], input: Array("s3cr3t-body".utf8))
  }

  func get(_ location: String) async throws -> Int {
    try await scene.curl(["http://127.0.0.1:\(port)/\(location)"]).status
  }

  /// Waits for the access record that begins so.
  func recorded(_ beginning: String) async throws {
    try await until("an access record \(beginning) in \(scene.text("trust.log"))") {
      scene.text("trust.log").contains("\(beginning)")
    }
  }
}

private func spki(_ certified: CertifiedKey) -> String {
  String(Pin.spelling(publicKeyDigest: certified.certificate.spkiSHA256).dropFirst("sha256//".count))
}
private func pin(_ certified: CertifiedKey) -> String { "sha256//\(spki(certified))" }
private func hash(_ certified: CertifiedKey) -> String {
  Pin.spelling(certificateDigest: certified.certificate.sha256)
}

extension CertificateBuilder {
  fileprivate static func upstream(_ change: (inout CertificateBuilder) -> Void = { _ in }) -> CertificateBuilder {
    var builder = CertificateBuilder(commonName: "up.test", .leaf([.serverAuth]), names: [.dns("up.test")])
    change(&builder)
    return builder
  }
}

@Suite(.staged) struct `Pinning` {
  @Test func `a self-signed upstream that has expired is trusted by its pin where that is said`() async throws {
    let scene = try Scene.ofTest()
    let certified = try CertificateBuilder.upstream { $0.notAfter = $0.notBefore + 60 }.selfSigned(key: .generate())
    let upstream = try await OpenSSLServer.start(scene, scene.identity("upstream", certified), "-www")
    let other = try CertificateBuilder.upstream().selfSigned(key: .generate())
    let proxy = try await TrustingProxy(
      scene, to: upstream.port,
      [
        ("allowed", "proxy_ssl_allow_invalid on; proxy_ssl_pin \(pin(certified));"),
        ("hash", "proxy_ssl_allow_invalid on; proxy_ssl_pin \(hash(certified));"),
        ("alone", "proxy_ssl_verify off; proxy_ssl_name elsewhere.test; proxy_ssl_pin \(pin(certified));"),
        ("misnamed", "proxy_ssl_allow_invalid on; proxy_ssl_name elsewhere.test; proxy_ssl_pin \(pin(certified));"),
        ("strict", "proxy_ssl_pin \(pin(certified));"),
        ("other", "proxy_ssl_allow_invalid on; proxy_ssl_pin \(pin(other));"),
        ("dated", "proxy_ssl_pinning certificate; proxy_ssl_allow_invalid on; proxy_ssl_pin upstream.pem;"),
      ])
    for location in ["allowed", "hash", "alone"] {
      #expect(try await proxy.get(location) == 200, "\(location)")
      try await proxy.recorded("/\(location)|200|trusted-by-pin|\(spki(certified))|")
    }
    for (location, reason) in [("misnamed", "name"), ("strict", "chain"), ("other", "pin"), ("dated", "expired")] {
      #expect(try await proxy.ask(location).status == 502, "\(location)")
      try await proxy.recorded("/\(location)|502|\(reason)|\(spki(certified))|")
    }
    try await proxy.daemon.logged("[error]", "pin: ", pin(certified), "while SSL handshaking to upstream")
    #expect(!upstream.log.contains("s3cr3t"))
  }

  @Test func `a certificate or a CA that is pinned as a file is an anchor`() async throws {
    let scene = try Scene.ofTest()
    let authority = try TestAuthority("Upstream")
    let certified = try CertificateBuilder.upstream().signed(by: authority.intermediate, key: .generate())
    try scene.anchors("anchors", authority)
    try scene.write("intermediate.pem", text: authority.intermediate.certificate.pem)
    try scene.write("leaf.der", certified.certificate.der)
    try scene.makeFolder("pins")
    try scene.write("pins/old.pem", text: TestAuthority("Old").root.certificate.pem)
    try scene.write("pins/new.der", certified.certificate.der)
    let upstream = try await OpenSSLServer.start(scene, scene.identity("upstream", certified), "-www")
    let proxy = try await TrustingProxy(
      scene, to: upstream.port,
      [
        ("leaf", "proxy_ssl_pinning certificate; proxy_ssl_pin leaf.der;"),
        ("ca", "proxy_ssl_pinning certificate; proxy_ssl_pin intermediate.pem; proxy_ssl_trust_system off;"),
        ("folder", "proxy_ssl_pinning certificate; proxy_ssl_pin pins;"),
        ("hash", "proxy_ssl_trusted_certificate anchors.pem; proxy_ssl_pin \(hash(certified));"),
        ("hashes", "proxy_ssl_trusted_certificate anchors.pem; proxy_ssl_pin \(hash(authority.intermediate));"),
        ("chain", "proxy_ssl_trusted_certificate anchors.pem; proxy_ssl_pin chain \(pin(authority.intermediate));"),
        ("keys", "proxy_ssl_trusted_certificate anchors.pem; proxy_ssl_pin pins;"),
        // The other way round.
        ("wrong-leaf", "proxy_ssl_trusted_certificate anchors.pem; proxy_ssl_pin \(pin(authority.intermediate));"),
        (
          "wrong-hash",
          "proxy_ssl_trusted_certificate anchors.pem; proxy_ssl_pin \(hash(authority.root).dropLast(2))00;"
        ),
        ("no-anchor", "proxy_ssl_pin \(hash(certified));"),
        ("other-file", "proxy_ssl_pinning certificate; proxy_ssl_pin pins/old.pem;"),
        ("half-way", "proxy_ssl_trusted_certificate intermediate.pem; proxy_ssl_pin \(pin(certified));"),
      ])
    for location in ["leaf", "ca", "folder", "hash", "hashes", "chain", "keys"] {
      #expect(try await proxy.get(location) == 200, "\(location)")
      try await proxy.recorded("/\(location)|200|trusted|")
    }
    for (location, reason) in [
      ("wrong-leaf", "pin"), ("wrong-hash", "pin"), ("no-anchor", "chain"), ("other-file", "chain"),
      ("half-way", "chain"),
    ] {
      #expect(try await proxy.ask(location).status == 502, "\(location)")
      try await proxy.recorded("/\(location)|502|\(reason)|")
    }
    try await proxy.daemon.logged("[error]", "pin: ", hash(certified))
    #expect(!upstream.log.contains("s3cr3t"))
  }

  @Test func `a revoked upstream is refused although its pin matches, whatever is allowed`() async throws {
    let scene = try Scene.ofTest()
    let authority = try TestAuthority("Upstream")
    try scene.anchors("anchors", authority)
    let (revoked, good) = try (authority.server(names: ["up.test"]), authority.server(names: ["up.test"]))
    try scene.write(
      "crl.pem", text: RevocationListBuilder(revoking: [revoked.certificate]).pem(signedBy: authority.root))
    try await scene.succeed("openssl", "crl", "-in", "crl.pem", "-outform", "der", "-out", "crl.der")
    let trust = "proxy_ssl_trusted_certificate anchors.pem;"
    for (certified, file) in [(revoked, "revoked"), (good, "good")] {
      let upstream = try await OpenSSLServer.start(scene, scene.identity(file, certified), name: file, "-www")
      let policies = [
        ("file", "\(trust) proxy_ssl_pinning certificate; proxy_ssl_pin \(file).pem;"),
        (
          "file-allowed",
          "\(trust) proxy_ssl_pinning certificate; proxy_ssl_pin \(file).pem; proxy_ssl_allow_invalid on;"
        ),
        ("hash", "\(trust) proxy_ssl_pin \(hash(certified));"),
        ("hash-allowed", "\(trust) proxy_ssl_pin \(hash(certified)); proxy_ssl_allow_invalid on;"),
        ("key", "\(trust) proxy_ssl_pin \(pin(certified));"),
        ("key-allowed", "\(trust) proxy_ssl_pin \(pin(certified)); proxy_ssl_allow_invalid on;"),
      ]
      let proxy = try await TrustingProxy(
        scene, to: upstream.port,
        policies.flatMap { name, trust in
          ["pem", "der"].map { ("\(file)/\(name)/\($0)", "\(trust) proxy_ssl_crl crl.\($0);") }
        } + [("\(file)/unlisted", policies[0].1)])
      let locations = policies.flatMap { name, _ in ["pem", "der"].map { "\(file)/\(name)/\($0)" } }
      let isGood = file == "good"
      for location in locations {
        #expect(
          try await (isGood ? proxy.get(location) : proxy.ask(location).status) == (isGood ? 200 : 502), "\(location)")
      }
      for location in locations {
        try await proxy.recorded("/\(location)|\(isGood ? "200|trusted" : "502|revoked")|\(spki(certified))|")
      }
      // It is the list alone that says so.
      #expect(try await proxy.get("\(file)/unlisted") == 200)
      #expect(!upstream.log.contains("s3cr3t"))
      proxy.daemon.process.stop()
      unlink(scene.path("sallyport.pid"))
    }
  }

  @Test func `a mismatch that is only reported is logged with the key that was found`() async throws {
    let scene = try Scene.ofTest()
    let authority = try TestAuthority("Upstream")
    try scene.anchors("anchors", authority)
    let certified = try authority.server(names: ["up.test"])
    let upstream = try await OpenSSLServer.start(scene, scene.identity("upstream", certified), "-www")
    let wrong = try pin(authority.server(names: ["up.test"]))
    let stranger = try TestAuthority("Stranger")
    try scene.anchors("strangers", stranger)
    let proxy = try await TrustingProxy(
      scene, to: upstream.port,
      [
        (
          "reported", "proxy_ssl_trusted_certificate anchors.pem; proxy_ssl_pin \(wrong); proxy_ssl_pin_report_only on;"
        ),
        (
          "right",
          "proxy_ssl_trusted_certificate anchors.pem; proxy_ssl_pin \(pin(certified)); proxy_ssl_pin_report_only on;"
        ),
        ("chain", "proxy_ssl_trusted_certificate strangers.pem; proxy_ssl_pin \(wrong); proxy_ssl_pin_report_only on;"),
      ])
    #expect(try await proxy.get("reported") == 200)
    try await proxy.recorded("/reported|200|report-only-mismatch|\(spki(certified))|")
    try await proxy.daemon.logged("[warn]", "report-only-mismatch: ", pin(certified), "upstream: \"https://127.0.0.1")
    #expect(try await proxy.get("right") == 200)
    try await proxy.recorded("/right|200|trusted|")
    #expect(try await proxy.ask("chain").status == 502)
    try await proxy.recorded("/chain|502|chain|")
    #expect(!upstream.log.contains("s3cr3t"))
  }

  @Test func `an upstream without a common protocol is incompatible, and gets nothing`() async throws {
    let scene = try Scene.ofTest()
    let authority = try TestAuthority("Upstream")
    try scene.anchors("anchors", authority)
    let upstream = try await OpenSSLServer.start(
      scene, scene.identity("upstream", authority.server(names: ["up.test"])), "-tls1_2")
    let proxy = try await TrustingProxy(
      scene, to: upstream.port,
      [("new", "proxy_ssl_trusted_certificate anchors.pem; proxy_ssl_protocols TLSv1.3;")])
    #expect(try await proxy.ask("new").status == 502)
    try await proxy.recorded("/new|502|incompatible|-|")
    try await proxy.daemon.logged("[error]", "SSL_do_handshake() failed", "while SSL handshaking to upstream")
    #expect(!upstream.log.contains("s3cr3t"))
  }

  @Test func `a pin that matched on one connection says nothing of another`() async throws {
    let scene = try Scene.ofTest()
    let authority = try TestAuthority("Upstream")
    try scene.anchors("anchors", authority)
    let certified = try authority.server(names: ["up.test"])
    let good = try await OpenSSLServer.start(scene, scene.identity("good", certified), name: "good", "-www")
    let bad = try await OpenSSLServer.start(
      scene, scene.identity("bad", authority.server(names: ["up.test"])), name: "bad")
    let proxy = try await TrustingProxy(
      scene, to: 0,
      [
        (
          "pinned",
          "proxy_ssl_trusted_certificate anchors.pem; proxy_ssl_pin \(pin(certified)); proxy_next_upstream off;"
        )
      ],
      group: """
        upstream group { server 127.0.0.1:\(good.port) max_fails=0; server 127.0.0.1:\(bad.port) max_fails=0; }
        """)
    var statuses: [Int] = []
    for _ in 0..<8 {
      statuses.append(
        try await scene.curl(["-H", "X-Secret: s3cr3t-field", "http://127.0.0.1:\(proxy.port)/pinned"]).status)
    }
    #expect(statuses.count { $0 == 200 } >= 2 && statuses.count { $0 == 502 } >= 2, "\(statuses)")
    #expect(!bad.log.contains("s3cr3t"))
  }

  @Test func `a kept connection is not used by a location that says anything else of trust`() async throws {
    let scene = try Scene.ofTest()
    let authority = try TestAuthority("Upstream")
    try scene.anchors("anchors", authority)
    let certified = try authority.server(names: ["up.test"])
    _ = try scene.identity("upstream", certified)
    try scene.write("other.pem", text: authority.server(names: ["up.test"]).certificate.pem)
    let (upstream, port) = try (scene.port(), scene.port())
    let nginx = try await NginxUpstream.secure(scene, upstream, "ssl_session_cache builtin; return 200 $connection;")
    let wrong = try pin(authority.server(names: ["up.test"]))
    _ = try await Sallyport.start(
      scene,
      configuration(
        """
        upstream group { server 127.0.0.1:\(upstream); keepalive 8; }
        proxy_http_version 1.1; proxy_set_header Connection ""; proxy_ssl_name up.test;
        proxy_ssl_trusted_certificate anchors.pem;
        server {
          listen 127.0.0.1:\(port);
          location /report { proxy_pass https://group; proxy_ssl_pin \(wrong); proxy_ssl_pin_report_only on; }
          location /pin { proxy_pass https://group; proxy_ssl_pin \(wrong); }
          location /any { proxy_pass https://group; proxy_ssl_pin \(pin(certified)); proxy_ssl_allow_invalid on; }
          location /other { proxy_pass https://group; proxy_ssl_pin \(wrong); proxy_ssl_allow_invalid on; }
          location /file { proxy_pass https://group; proxy_ssl_pinning certificate; proxy_ssl_pin upstream.pem; }
          location /wrong-file { proxy_pass https://group; proxy_ssl_pinning certificate; proxy_ssl_pin other.pem; }
        }
        """
      ).replacing("worker_processes 2", with: "worker_processes 1"))
    var connections: [String: Set<String>] = [:]
    for _ in 0..<2 {
      for path in ["/report", "/any", "/file"] {
        let result = try await scene.curl(["http://127.0.0.1:\(port)\(path)"])
        #expect(result.status == 200, "\(path)")
        connections[path, default: []].insert(result.text)
      }
      for path in ["/pin", "/other", "/wrong-file"] {
        #expect(try await scene.curl(["http://127.0.0.1:\(port)\(path)"]).status == 502, "\(path)")
      }
    }
    // Each was kept, for its own location only.
    #expect(connections.values.allSatisfy { $0.count == 1 } && Set(connections.values).count == 3, "\(connections)")
    for path in ["/pin", "/other", "/wrong-file"] { #expect(!nginx.accessLog.contains("GET \(path)")) }
  }

  @Test(
    arguments: ["missing", "empty", "garbage", "folder", "key"],
    ["proxy_ssl_trusted_certificate", "ssl_client_certificate"]
  )
  func `CVE-2026-27586: a CA file that can't be used stops a start and a reload`(
    fault: String, directive: String
  ) async throws {
    let scene = try Scene.ofTest()
    let authority = try TestAuthority("Upstream")
    try scene.anchors("anchors", authority)
    let identity = try scene.identity("upstream", authority.server(names: ["up.test"]))
    switch fault {
    case "empty": try scene.write("ca.pem", text: "")
    case "garbage": try scene.write("ca.pem", text: "no certificate\n")
    case "folder": try scene.makeFolder("ca.pem")
    case "key": try scene.write("ca.pem", text: scene.text("upstream.key"))
    default: break
    }
    let upstream = try await OpenSSLServer.start(scene, identity, "-www")
    let (port, front) = try (scene.port(), scene.port())
    func text(_ file: String) -> String {
      func named(by name: String) -> String { directive == name ? file : "anchors.pem" }
      return configuration(
        """
        server { listen 127.0.0.1:\(port); location / { proxy_pass https://127.0.0.1:\(upstream.port);
          proxy_ssl_name up.test; proxy_ssl_trusted_certificate \(named(by: "proxy_ssl_trusted_certificate")); } }
        server { listen 127.0.0.1:\(front) ssl; ssl_certificate upstream.pem; ssl_certificate_key upstream.key;
          ssl_client_certificate \(named(by: "ssl_client_certificate")); ssl_verify_client on; return 200 "in"; }
        """)
    }
    let checked = try scene.check(text("ca.pem"))
    #expect(!checked.isValid && checked.contains("ca.pem"), "\(checked)")
    let daemon = try await Sallyport.start(scene, text("anchors.pem"))
    try daemon.rewrite(text("ca.pem"))
    daemon.signal(SIGHUP)
    try await daemon.logged("ca.pem")
    // The old one serves on, and by its own anchors.
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/"]).status == 200)
    let stranger = try scene.identity("stranger", TestAuthority("Stranger").client())
    for (identity, status) in try [(stranger, 400), (scene.identity("alice", authority.client()), 200)] {
      let result = try await scene.curl(
        ["--cacert", scene.path("anchors.pem"), "--connect-to", "::127.0.0.1:\(front)", "https://up.test/"]
          + identity.curl)
      #expect(result.status == status)
    }
    let refused = try Sallyport(scene, text("ca.pem"), name: "refused")
    #expect(try await refused.process.ended(within: .seconds(20)) == .exited(78))
  }

  @Test(arguments: ["p256", "rsa"])
  func `curl, openssl and sallyport pin agree on a key`(kind: String) async throws {
    let scene = try Scene.ofTest()
    let authority = try TestAuthority("Upstream")
    try scene.anchors("anchors", authority)
    let certified = try authority.server(
      names: ["up.test"], key: .generate(kind == "rsa" ? .rsa(bits: 2048) : .p256))
    let identity = try scene.identity("up", certified)
    let printed = try await scene.sallyport("pin", "up.pem").text
    let ours = try #require(
      printed.split(separator: " ").last.map { String($0.prefix { $0 != ";" }) })
    // The lines of docs/SECURITY.md.
    let documented = try String(contentsOfFile: "\(checkout)/docs/SECURITY.md", encoding: .utf8)
      .split(separator: "\n").map { $0.drop { $0 == " " } }
    let line = try #require(documented.first { $0.hasPrefix("openssl x509 -in up.pem -noout -pubkey") })
    let digest = try #require(documented.first { $0.hasPrefix("openssl x509 -in up.pem -outform der") })
    #expect(try await "sha256//" + scene.succeed("sh", "-c", String(line)) == ours)
    let whole = try await scene.succeed("sh", "-c", String(digest.prefix { $0 != "#" }))
    #expect(whole.hasSuffix(hash(certified).dropFirst("cert:".count)))
    let server = try await OpenSSLServer.start(scene, identity, "-www")
    func curl(_ pin: String) async throws -> CurlResult {
      try await scene.curl([
        "--cacert", scene.path("anchors.pem"), "--connect-to", "::127.0.0.1:\(server.port)", "--pinnedpubkey", pin,
        "https://up.test/",
      ])
    }
    #expect(try await curl(ours).status == 200)
    let other = try pin(authority.server(names: ["up.test"]))
    #expect(try await curl(other).status != 200)
    // And ours takes curl's.
    let proxy = try await TrustingProxy(
      scene, to: server.port, [("curl", "proxy_ssl_trusted_certificate anchors.pem; proxy_ssl_pin \(ours);")])
    #expect(try await proxy.get("curl") == 200)
  }
}

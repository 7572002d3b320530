import Bytes
import Crypto
import Foundation
import Glibc
import TestSupport
import Testing

/// `ssl_certificate` with variables: handshakes choose the file.
@Suite(.staged) struct `Certificates that handshakes name` {
  private static let pair =
    "ssl_certificate certs/$ssl_server_name.pem; ssl_certificate_key certs/$ssl_server_name.key;"
  private static let answer =
    #"location / { return 200 "name=$ssl_server_name reused=$ssl_session_reused verify=$ssl_client_verify\n"; }"#

  /// Sends a ClientHello with this name, as hexadecimal digits, and prints what comes first. With a third argument, it
  /// sends its FIN too.
  private static let hello = """
    import socket, ssl, sys
    name = bytes.fromhex(sys.argv[2])
    stand_in = "x" * len(name)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    session = context.wrap_bio(incoming, outgoing, server_hostname=stand_in)
    try: session.do_handshake()
    except ssl.SSLWantReadError: pass
    hello = outgoing.read()
    assert hello.count(stand_in.encode()) == 1
    client = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    client.settimeout(20)
    client.sendall(hello.replace(stand_in.encode(), name))
    if len(sys.argv) > 3: client.shutdown(socket.SHUT_WR)
    answer = client.recv(100)
    print(answer[0] if answer else "closed", answer[6] if answer[:1] == b"\\x15" else "")
    """

  /// A daemon with certificates for these names in `certs`, signed by the CA in ca.pem.
  private func stage(
    _ scene: Scene, _ lines: String = pair, names: [String] = ["a.test", "b.test"], http: String = ""
  ) async throws -> (daemon: Sallyport, port: UInt16, authority: TestAuthority) {
    let authority = try TestAuthority(), port = try scene.port()
    try scene.anchors("ca", authority)
    try scene.makeFolder("certs")
    for name in names { _ = try scene.identity("certs/\(name)", authority.server(names: [name])) }
    let daemon = try await Sallyport.start(
      scene,
      configuration("\(http) server { listen 127.0.0.1:\(port) ssl; \(lines) \(Self.answer) }")
        .replacing("worker_processes 2", with: "worker_processes 1")
        // Otherwise the lines after the first five are folded to a number.
        .replacing("error_log error.log info", with: "error_log error.log debug"))
    return (daemon, port, authority)
  }

  /// What a handshake shows: `CN=a.test`, or empty if it fails.
  private func shown(_ scene: Scene, _ port: UInt16, _ name: String?, _ arguments: [String] = []) async throws -> String
  {
    let text = try await shake(scene, port, name, arguments).text.withPlainNames
    return text.firstMatch(of: /(?m)^subject=(.*)$/).map { String($0.output.1) } ?? ""
  }

  private func shake(_ scene: Scene, _ port: UInt16, _ name: String?, _ arguments: [String] = []) async throws
    -> ToolResult
  {
    let sni = name.map { ["-servername", $0] } ?? ["-noservername"]
    return try await scene.run("openssl", ["s_client", "-connect", "127.0.0.1:\(port)"] + sni + arguments, input: [])
  }

  @Test(arguments: ["-tls1_2", "-tls1_3"]) func `each name gets its own certificate`(version: String) async throws {
    let scene = try Scene.ofTest()
    let (_, port, _) = try await stage(scene)
    for (name, subject) in [("a.test", "a.test"), ("b.test", "b.test"), ("A.TEST", "a.test"), ("b.test.", "b.test")] {
      #expect(try await shown(scene, port, name, [version]) == "CN=\(subject)", "\(name)")
    }
    let result = try await scene.curl([
      "--cacert", scene.path("ca.pem"), "--connect-to", "::127.0.0.1:\(port)", "https://b.test/",
    ])
    #expect(result.text.contains("name=b.test"))
  }

  @Test func `a variable can hold certificate and key, as in nginx, and no output shows the key`() async throws {
    let scene = try Scene.ofTest()
    let authority = try TestAuthority(), (port, nginx) = try (scene.port(), scene.port())
    for name in ["a.test", "b.test"] { _ = try scene.identity(name, authority.server(names: [name])) }
    func table(_ variable: String, _ ending: String) -> String {
      """
      map $ssl_server_name \(variable) {
        a.test "\(scene.text("a.test.\(ending)"))";
        b.test "\(scene.text("b.test.\(ending)"))";
        broken.test "-----BEGIN nothing"; }
      """
    }
    func http(_ port: UInt16) -> String {
      """
      \(table("$certificate", "pem")) \(table("$key", "key"))
      server { listen 127.0.0.1:\(port) ssl; ssl_certificate data:$certificate; ssl_certificate_key data:$key;
        \(Self.answer) }
      """
    }
    _ = try await NginxUpstream.start(scene, ports: [nginx], http(nginx))
    let daemon = try await Sallyport.start(scene, configuration(http(port)))
    for name in ["a.test", "b.test", "A.test", "broken.test", "other.test", nil] {
      #expect(try await shown(scene, port, name) == shown(scene, nginx, name), "\(name ?? "no name")")
    }
    #expect(try await shown(scene, port, "b.test") == "CN=b.test")
    try await daemon.logged("cannot load certificate \"data:${certificate}\"")
    let dump = try await scene.sallyport("check", "--dump", "--config", scene.path("sallyport.conf"))
    let outputs = dump.everything + daemon.errorLog
    #expect(dump.status == 0 && outputs.contains("BEGIN CERTIFICATE") && !outputs.contains("PRIVATE KEY"))
  }

  @Test func `a certificate can stand in the configuration`() async throws {
    let scene = try Scene.ofTest(), port = try scene.port()
    _ = try scene.identity("a.test", TestAuthority().server(names: ["a.test"]))
    let daemon = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port) ssl; ssl_certificate "data:\(scene.text("a.test.pem"))";
        ssl_certificate_key "data:\(scene.text("a.test.key"))"; \(Self.answer) }
      """)
    #expect(try await shown(scene, port, "a.test") == "CN=a.test")
    let bad = try scene.write(
      "bad.conf", text: scene.text("sallyport.conf").replacing("-----BEGIN CERTIFICATE", with: "-----BEGIN NOTHING"))
    let check = try await scene.sallyport("check", "--config", bad)
    #expect(check.status == 1 && check.text.contains("\"data:…\"") && !check.text.contains("PRIVATE KEY"))
    #expect(!daemon.errorLog.contains("PRIVATE KEY"))
  }

  @Test func `a map, a geo and shares choose the certificate as a variable does`() async throws {
    let scene = try Scene.ofTest()
    let (daemon, port, _) = try await stage(
      scene, "ssl_certificate certs/$pair.pem; ssl_certificate_key certs/$pair.key;",
      names: ["a.test", "b.test", "c.test"],
      http: """
        geo $near { default no; 127.0.0.0/8 c; }
        split_clients $ssl_server_name $share { * .test; }
        map $ssl_server_name $pair { hostnames; default $near$share; *.a.test a.test; b.test $ssl_server_name;
          "~^(?<who>[ab])-(.)\\.test$" $who.test; "~^dots(.)x" "$1$1/a.test"; bad.test /nowhere/x; }
        """)
    for (name, subject) in [
      ("x.a.test", "a.test"), ("b.test", "b.test"), ("b-1.test", "b.test"), ("other.test", "c.test"), (nil, "c.test"),
      ("bad.test", ""), ("dots.x", ""),
    ] as [(String?, String)] {
      #expect(try await shown(scene, port, name) == (subject.isEmpty ? "" : "CN=\(subject)"), "\(name ?? "none")")
    }
    try await daemon.logged("cannot load certificate", "certs/${pair}.pem\": the name would have \"..\" in it")
  }

  @Test func `a map can name whole paths, and the sandbox lets them be read`() async throws {
    let scene = try Scene.ofTest()
    try scene.makeFolder("more")
    _ = try scene.identity("more/d.test", TestAuthority().server(names: ["d.test"]))
    let (_, port, _) = try await stage(
      scene, "ssl_certificate $pair.pem; ssl_certificate_key $pair.key;",
      http: "map $ssl_server_name $pair { default certs/a.test; d.test \(scene.path("more/d.test")); }")
    #expect(try await shown(scene, port, "a.test") == "CN=a.test")
    #expect(try await shown(scene, port, "d.test") == "CN=d.test")
  }

  @Test func `what can't be loaded ends the handshakes for its own name only`() async throws {
    let scene = try Scene.ofTest()
    let (daemon, port, authority) = try await stage(scene)
    try scene.write("certs/mixed.test.pem", text: scene.text("certs/a.test.pem"))
    try scene.write("certs/mixed.test.key", text: scene.text("certs/b.test.key"))
    try scene.write("certs/empty.test.pem", text: "")
    try scene.write("certs/damaged.test.pem", text: "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    _ = try scene.identity("certs/half.test", authority.server(names: ["half.test"]))
    try FileManager.default.removeItem(atPath: scene.path("certs/half.test.key"))
    try scene.makeFolder("certs/folder.test.pem")
    #expect(mkfifo(scene.path("certs/fifo.test.pem"), 0o600) == 0)
    for (name, reason) in [
      ("none.test", "none.test.pem\": cannot be opened: No such file"), ("empty.test", "empty.test.pem\": empty"),
      ("damaged.test", "damaged.test.pem\":"), ("half.test", "half.test.key\": cannot be opened"),
      ("mixed.test", "does not belong to the certificate"), ("folder.test", "is not a regular file"),
      ("fifo.test", "fifo.test.pem\": is not a regular file"),
    ] {
      let result = try await shake(scene, port, name)
      #expect(!result.text.contains("subject="), "\(name)")
      #expect(result.everything.contains("alert internal error"), "\(name): \(result.errors)")
      try await daemon.logged("cannot load certificate", reason, "while SSL handshaking")
      #expect(try await shown(scene, port, "a.test") == "CN=a.test")
    }
    // The file that was missing is there now: no reload is needed.
    _ = try scene.identity("certs/none.test", authority.server(names: ["none.test"]))
    try await until("the new file to be found") { try await shown(scene, port, "none.test") == "CN=none.test" }
    #expect(daemon.process.ending == nil)
  }

  @Test func `a client's name never leads out of the folder, and no name leads nowhere`() async throws {
    let scene = try Scene.ofTest()
    let (daemon, port, authority) = try await stage(
      scene, "ssl_certificate certs/$ssl_server_name/cert.pem; ssl_certificate_key certs/$ssl_server_name/key.pem;")
    for folder in [".", "certs", "certs/1.2.3.4"] {
      try scene.makeFolder(folder)
      let files = try scene.identity("\(folder)/outside", authority.server(names: ["outside"]))
      try FileManager.default.moveItem(atPath: files.certificate, toPath: scene.path("\(folder)/cert.pem"))
      try FileManager.default.moveItem(atPath: files.key, toPath: scene.path("\(folder)/key.pem"))
    }
    let hostile = [
      "..", "...", "....", ".", "a..b", "../certs", "..%2fcerts", "%2e%2e", "..\\certs", "a.test/..", "/etc", "~", "*",
      "-.-/", "[::1]", "::1", "a b", "a\tb", "$x", "name;rm", String(repeating: "a", count: 64), "ä.test",
      (0..<63).map { _ in "abc" }.joined(separator: ".") + ".a",
    ]
    for name in hostile {
      let result = try await shake(scene, port, name)
      #expect(!result.text.contains("subject="), "\(name)")
    }
    #expect(try await shown(scene, port, nil) == "")
    try await daemon.logged("[error]", "the client sent no valid host name")
    // As with nginx, a name of digits is a name.
    #expect(try await shown(scene, port, "1.2.3.4") == "CN=outside")
    #expect(!daemon.errorLog.contains("certs/../"))
  }

  @Test func `a ClientHello with a NUL or a slash in its name is malformed`() async throws {
    let scene = try Scene.ofTest()
    let (_, port, _) = try await stage(scene)
    let script = try scene.write("hello.py", text: Self.hello)
    // 21: an alert. 50: decode_error. 80: internal_error.
    for (name, answer) in [
      ("a.test\0.pem", "21 50"), ("../a.test", "21 50"), ("a.test\0", "21 50"), ("..%2fa.test", "21 80"),
      ("a.test", "22 "),
    ] {
      let hex = name.utf8.map { String(format: "%02x", $0) }.joined()
      let result = try await scene.run("python3", [script, "\(port)", hex])
      #expect(result.text == "\(answer)\n", "\(name.debugDescription): \(result.everything)")
    }
  }

  @Test(arguments: ["-tls1_2", "-tls1_3"])
  func `a session is resumed under its own name, and never under another`(version: String) async throws {
    let scene = try Scene.ofTest()
    for store in ["", "ssl_session_cache shared:s:1m; ssl_session_ticket_key tickets.key;"] {
      try scene.write("tickets.key", (0..<80).map { UInt8($0) })
      let (_, port, _) = try await stage(scene, "\(Self.pair) \(store)")
      let file = scene.path("session.pem")
      func ask(_ name: String, _ arguments: [String]) async throws -> String {
        try await scene.run(
          "openssl",
          ["s_client", "-connect", "127.0.0.1:\(port)", "-servername", name, "-ign_eof", version] + arguments,
          input: Array("GET / HTTP/1.1\r\nHost: \(name)\r\nConnection: close\r\n\r\n".utf8)
        ).text
      }
      #expect(try await ask("a.test", ["-sess_out", file]).contains("name=a.test reused=."))
      let crossed = try await ask("b.test", ["-sess_in", file])
      #expect(crossed.contains("name=b.test reused=.") && crossed.withPlainNames.contains("subject=CN=b.test"))
      _ = try await ask("a.test", ["-sess_out", file])
      #expect(try await ask("a.test", ["-sess_in", file]).contains("name=a.test reused=r"))
      try await endDaemons(scene)
    }
  }

  private func endDaemons(_ scene: Scene) async throws {
    guard let identifier = Int32(scene.text("sallyport.pid").trimmingCharacters(in: .newlines)) else { return }
    kill(identifier, SIGTERM)
    // The pid file goes before the sockets, whose port the next daemon takes.
    try await until("the daemon to end") { kill(identifier, 0) != 0 }
  }

  // MARK: Cache

  @Test func `without a cache each handshake reads the files; with one, a pair is shown until it is looked at again`()
    async throws
  {
    let scene = try Scene.ofTest()
    for (cache, isKept) in [("", false), ("ssl_certificate_cache max=10 inactive=1h valid=1h;", true)] {
      let (_, port, authority) = try await stage(scene, "\(Self.pair) \(cache)")
      #expect(try await shown(scene, port, "a.test") == "CN=a.test")
      _ = try scene.identity("certs/a.test", authority.server(names: ["renewed.test"]))
      #expect(try await shown(scene, port, "a.test") == (isKept ? "CN=a.test" : "CN=renewed.test"))
      try await endDaemons(scene)
    }
  }

  @Test func `a full cache drops the pair that was not used for longest`() async throws {
    let scene = try Scene.ofTest()
    let names = ["a.test", "b.test", "c.test"]
    let (_, port, authority) = try await stage(
      scene, "\(Self.pair) ssl_certificate_cache max=4 inactive=1h valid=1h;", names: names)
    for name in ["a.test", "b.test", "a.test", "c.test"] { _ = try await shown(scene, port, name) }
    for name in names { _ = try scene.identity("certs/\(name)", authority.server(names: ["new-\(name)"])) }
    #expect(try await shown(scene, port, "a.test") == "CN=a.test")
    #expect(try await shown(scene, port, "c.test") == "CN=c.test")
    #expect(try await shown(scene, port, "b.test") == "CN=new-b.test")
  }

  @Test func `a renewed pair is shown after its validity, and one that is gone no more`() async throws {
    let scene = try Scene.ofTest()
    let (daemon, port, authority) = try await stage(
      scene, "\(Self.pair) ssl_certificate_cache max=10 inactive=1h valid=1s;")
    for name in ["a.test", "b.test"] { #expect(try await shown(scene, port, name) == "CN=\(name)") }
    _ = try scene.identity("certs/a.test", authority.server(names: ["renewed.test"]))
    try FileManager.default.removeItem(atPath: scene.path("certs/b.test.pem"))
    try await until("the new one") { try await shown(scene, port, "a.test") == "CN=renewed.test" }
    try await until("the old one to go") { try await shown(scene, port, "b.test") == "" }
    try await daemon.logged("[error]", "b.test.pem\": cannot be opened")
  }

  // MARK: Slow files

  /// A key whose pass phrase takes seconds to check.
  private func slow(_ scene: Scene, _ name: String, _ authority: TestAuthority, rounds: Int) async throws {
    let files = try scene.identity("certs/\(name)", authority.server(names: [name]))
    try await scene.succeed(
      "openssl", "pkcs8", "-topk8", "-v2", "aes-256-cbc", "-iter", "\(rounds)", "-passout", "pass:secret", "-in",
      files.key, "-out", files.key + ".new")
    try scene.write("certs/\(name).key", text: scene.text("certs/\(name).key.new"))
  }

  @Test func `others shake hands while one certificate loads, a client may leave, and a reload takes the others along`()
    async throws
  {
    let scene = try Scene.ofTest()
    try scene.write("password", text: "secret\n")
    let (daemon, port, authority) = try await stage(scene, "\(Self.pair) ssl_password_file password;")
    try await slow(scene, "slow.test", authority, rounds: 6_000_000)
    async let first = shown(scene, port, "slow.test")
    // One that does not wait: it leaves after its ClientHello.
    let leaver = try OpenSSLClient(scene, port: port, name: "slow.test")
    for name in ["a.test", "b.test", "a.test"] { #expect(try await shown(scene, port, name) == "CN=\(name)") }
    leaver.process.stop()
    // One that sends its FIN with its ClientHello is not waited for.
    let script = try scene.write("hello.py", text: Self.hello)
    let hex = "slow.test".utf8.map { String(format: "%02x", $0) }.joined()
    #expect(try await scene.run("python3", [script, "\(port)", hex, "fin"]).text == "closed \n")
    try await daemon.logged("peer closed connection in SSL handshake")
    daemon.signal(SIGHUP)
    try await until("the reload") { daemon.errorLog.contains("generation 2") || daemon.errorLog.contains("reload") }
    #expect(try await first == "CN=slow.test")
    #expect(try await shown(scene, port, "a.test") == "CN=a.test")
    #expect(daemon.process.ending == nil)
  }

  @Test func `a handshake that waits too long for its certificate times out`() async throws {
    let scene = try Scene.ofTest()
    try scene.write("password", text: "secret\n")
    let (daemon, port, authority) = try await stage(
      scene, "\(Self.pair) ssl_password_file password; client_header_timeout 1s;")
    try await slow(scene, "slow.test", authority, rounds: 6_000_000)
    #expect(try await shown(scene, port, "slow.test") == "")
    try await daemon.logged("client timed out", "while SSL handshaking")
    #expect(try await shown(scene, port, "a.test") == "CN=a.test")
  }

  @Test func `a thousand names at once each get their own`() async throws {
    let scene = try Scene.ofTest()
    let authority = try TestAuthority(), port = try scene.port()
    let key = try PrivateKey.generate()
    try scene.anchors("ca", authority)
    try scene.makeFolder("certs")
    try scene.write("one.key", key.pem.withUnsafeBytes { Array($0) })
    for index in 0..<1000 {
      let certified = try authority.server(names: ["n\(index).test"], key: key)
      try scene.write("certs/n\(index).test.pem", text: certified.certificate.pem)
    }
    let daemon = try await Sallyport.start(
      scene,
      configuration(
        """
        server { listen 127.0.0.1:\(port) ssl; ssl_certificate certs/$ssl_server_name.pem; ssl_certificate_key one.key;
          ssl_certificate_cache max=100; \(Self.answer) }
        """
      ).replacing("worker_connections 256", with: "worker_connections 1500")
        .replacing("listen 127.0.0.1:\(port) ssl", with: "listen 127.0.0.1:\(port) ssl backlog=2000"))
    let script = try scene.write(
      "names.py",
      text: """
        import asyncio, ssl, sys
        context = ssl.create_default_context(cafile=sys.argv[2])
        # More at once than the cache has places. All at once, this one thread would be too slow for those whose turn it is:
        # sallyport ends a handshake that stands still for three seconds while others wait.
        places = asyncio.Semaphore(200)
        async def one(index):
            async with places: return await handshake(index)
        async def handshake(index):
            name = f"n{index}.test" if index < 1000 else f"missing{index}.test"
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", int(sys.argv[1]), ssl=context,
                    server_hostname=name, ssl_handshake_timeout=120)
                writer.transport.abort()
                return "right"
            except ssl.SSLCertVerificationError as error: return f"wrong {error}"
            except ssl.SSLError as error: return "refused" if "INTERNAL_ERROR" in str(error) else str(error)
        async def main():
            found = await asyncio.gather(*(one(index) for index in range(1200)))
            print(sorted({kind: found.count(kind) for kind in found}.items()))
        asyncio.run(main())
        """)
    let result = try await scene.run("python3", [script, "\(port)", scene.path("ca.pem")], within: .seconds(180))
    #expect(result.text == "[('refused', 200), ('right', 1000)]\n", "\(result.errors)")
    // The log has the first failures, and the number of the others.
    try await daemon.logged("more handshakes of clients failed: ", "no-server-certificate ")
    #expect(daemon.errorLog.matches(of: /cannot load certificate/).count < 200)
  }

  // MARK: Forms

  @Test func `several pairs, of both kinds of keys, some with variables`() async throws {
    let scene = try Scene.ofTest()
    let authority = try TestAuthority()
    _ = try scene.identity("rsa", authority.server(names: ["rsa.test"], key: .generate(.rsa(bits: 2048))))
    let (_, port, _) = try await stage(scene, "ssl_certificate rsa.pem; ssl_certificate_key rsa.key; \(Self.pair)")
    #expect(try await shown(scene, port, "b.test", ["-sigalgs", "ECDSA+SHA256"]) == "CN=b.test")
    #expect(try await shown(scene, port, "b.test", ["-sigalgs", "RSA-PSS+SHA256"]) == "CN=rsa.test")
    // The pair without variables is nobody's substitute.
    #expect(try await shown(scene, port, "none.test", ["-sigalgs", "RSA-PSS+SHA256"]) == "")
  }

  @Test func `a PKCS#12 by name, a link by name, and each variable`() async throws {
    let scene = try Scene.ofTest()
    let authority = try TestAuthority(), port = try scene.port()
    for name in ["main.test", "127.0.0.1", "port\(port)"] {
      _ = try scene.identity("\(name)-cert", authority.server(names: [name]))
    }
    try scene.pkcs12("p.test", authority.server(names: ["p.test"]))
    try FileManager.default.createSymbolicLink(atPath: scene.path("link.test.p12"), withDestinationPath: "p.test.p12")
    try scene.write("password", text: "\(IdentityFiles.password)\n")
    for (lines, name, subject) in [
      ("ssl_certificate $ssl_server_name.p12; ssl_password_file password;", "p.test", "p.test"),
      ("ssl_certificate $ssl_server_name.p12; ssl_password_file password;", "link.test", "p.test"),
      (
        "ssl_certificate ${server_name}-cert.pem; ssl_certificate_key ${server_name}-cert.key;", "x.test",
        "main.test"
      ),
      ("ssl_certificate ${server_addr}-cert.pem; ssl_certificate_key ${server_addr}-cert.key;", "x.test", "127.0.0.1"),
      ("ssl_certificate ${remote_addr}-cert.pem; ssl_certificate_key ${remote_addr}-cert.key;", "x.test", "127.0.0.1"),
      (
        "ssl_certificate port${server_port}-cert.pem; ssl_certificate_key port${server_port}-cert.key;", "x.test",
        "port\(port)"
      ),
    ] {
      _ = try await Sallyport.start(
        scene,
        configuration("server { listen 127.0.0.1:\(port) ssl; server_name main.test; \(lines) \(Self.answer) }"))
      #expect(try await shown(scene, port, name) == "CN=\(subject)", "\(lines)")
      try await endDaemons(scene)
    }
  }

  @Test func `clients are verified as with a certificate without variables, and early data is taken`() async throws {
    let scene = try Scene.ofTest()
    let clients = try TestAuthority("Clients")
    try scene.anchors("clients", clients)
    let alice = try scene.identity("alice", clients.client())
    let (_, port, _) = try await stage(
      scene,
      "\(Self.pair) ssl_client_certificate clients.pem; ssl_verify_client on; ssl_early_data on; http2 on;")
    let base = ["--cacert", scene.path("ca.pem"), "--connect-to", "::127.0.0.1:\(port)"]
    #expect(try await scene.curl(base + alice.curl + ["https://a.test/"]).text.contains("verify=SUCCESS"))
    #expect(try await scene.curl(base + alice.curl + ["--http2", "https://b.test/"]).text.contains("name=b.test"))
    #expect(try await scene.curl(base + ["https://a.test/"]).status == 400)
  }

  // MARK: nginx

  @Test func `nginx shows the same certificates, and refuses the same names`() async throws {
    let scene = try Scene.ofTest()
    let (_, port, authority) = try await stage(scene)
    try scene.write("certs/mixed.test.pem", text: scene.text("certs/a.test.pem"))
    try scene.write("certs/mixed.test.key", text: scene.text("certs/b.test.key"))
    _ = try scene.identity("certs/1.2.3.4", authority.server(names: ["digits.test"]))
    let other = try scene.port()
    let certs = scene.path("certs")
    let nginx = try await NginxUpstream.start(
      scene, ports: [other],
      """
      server { listen 127.0.0.1:\(other) ssl; ssl_protocols TLSv1.2 TLSv1.3; ssl_certificate \(certs)/$ssl_server_name.pem;
        ssl_certificate_key \(certs)/$ssl_server_name.key; return 200 "x"; }
      """)
    for name in ["a.test", "b.test", "none.test", "mixed.test", "1.2.3.4", nil] {
      for version in ["-tls1_2", "-tls1_3"] {
        let (mine, yours) = try await (shake(scene, port, name, [version]), shake(scene, other, name, [version]))
        func told(_ result: ToolResult) -> String {
          let subject = result.text.firstMatch(of: /(?m)^subject=(.*)$/).map { String($0.output.1) }
          let alert = result.everything.firstMatch(of: /alert [a-z ]+/).map { String($0.output) }
          return "\(subject ?? "none"), \(alert ?? "no alert")"
        }
        #expect(told(mine) == told(yours), "\(name ?? "no name") \(version)")
      }
    }
    // nginx tells of both at its level error.
    #expect(nginx.errorLog.contains(/\[error\].*cannot load certificate .*none\.test\.pem/))
  }
}

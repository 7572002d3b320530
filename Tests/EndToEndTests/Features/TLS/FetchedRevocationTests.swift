import Crypto
import Glibc
import Synchronization
import TestSupport
import Testing

/// A server of revocation lists that says what a test tells it to.
private final class ListServer: Sendable {
  private final class Script: Sendable {
    let text = Mutex("HTTP/1.1 503 Unavailable\r\nContent-Length: 0\r\n\r\n")
    let targets = Mutex<[String]>([])
    let end = Flag()
  }

  private let script: Script
  let port: UInt16

  init(_ scene: Scene) throws {
    let script = Script()
    self.script = script
    scene.atEnd { script.end.raise() }
    port = try ScriptedUpstream(scene) { wire, _ in
      guard let request = try wire.requestHead() else { return }
      script.targets.withLock { $0.append(request.target) }
      let text = script.text.withLock { $0 }
      try wire.write(text)
      if text.isEmpty { script.end.wait() }
    }.port
  }

  /// As it goes over the wire. Empty: nothing, and the connection stays.
  func say(_ text: String) { script.text.withLock { $0 = text } }
  func serve(_ body: String) { say("HTTP/1.1 200 OK\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)") }
  /// The targets of all requests so far.
  var targets: [String] { script.targets.withLock { $0 } }
  func url(_ path: String = "ca.crl") -> String { "http://127.0.0.1:\(port)/\(path)" }
}

@Suite(.staged) struct `Fetched revocation lists` {
  private func list(
    _ cast: Cast, revoking: [IdentityFiles], number: Int = 1, by signer: CertifiedKey? = nil
  ) throws -> String {
    try RevocationListBuilder(revoking: revoking.map(\.certified.certificate), number: number)
      .pem(signedBy: signer ?? cast.authority.root)
  }

  private func server(_ port: UInt16, _ more: String) -> String {
    configuration(
      """
      server { listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls)
        ssl_crl_cache lists refresh=1s; \(more)
        location = /metrics { metrics; } location / { return 200 "in\n"; } }
      """)
  }

  private func ask(
    _ scene: Scene, _ cast: Cast, _ port: UInt16, _ who: IdentityFiles, _ path: String = ""
  ) async throws -> CurlResult {
    try await scene.curl(cast.to(port) + who.curl + ["https://localhost/\(path)"])
  }

  private func letsIn(_ scene: Scene, _ cast: Cast, _ port: UInt16, _ who: IdentityFiles) async throws -> Bool {
    try await ask(scene, cast, port, who).status == 200
  }

  @Test func `without a list nobody of the CA gets in; with it, whom it names stays out; a later one cuts connections`()
    async throws
  {
    let scene = try Scene.ofTest(), cast = try Cast(scene), lists = try ListServer(scene)
    let bob = try scene.identity("bob", cast.authority.client(commonName: "bob"))
    let port = try scene.port()
    let text = server(port, "ssl_crl \(lists.url());")
    let check = try scene.check(text)
    #expect(check.isValid && check.contains("has not been fetched yet"))
    let daemon = try await Sallyport.start(scene, text)
    try await daemon.logged(
      "[error]", "\(lists.url()) could not be fetched", "status 503", "clients of its CA are refused")
    let refused = try await ask(scene, cast, port, cast.alice)
    #expect(refused.status == 400 && refused.text.contains("The SSL certificate error"))
    try await daemon.logged("unable to get certificate CRL")
    let health = try await scene.sallyport("health", "--config", scene.path("sallyport.conf"))
    #expect(
      health.status != 0 && health.text.contains("The revocation list \(lists.url()) is not there")
        && health.text.contains("status 503"), "\(health.everything)")
    lists.serve(try list(cast, revoking: [bob]))
    try await daemon.logged("revocation list \(lists.url()): taken, 1 revoked by CN=Test Root")
    try await until("alice to get in") { try await letsIn(scene, cast, port, cast.alice) }
    #expect(try await ask(scene, cast, port, bob).status == 400)
    let healthy = try await scene.sallyport("health", "--config", scene.path("sallyport.conf"))
    #expect(!healthy.text.contains("The revocation list"), "\(healthy.everything)")
    let metrics = try await ask(scene, cast, port, cast.alice, "metrics").text
    #expect(metrics.contains("sallyport_crl_fetches_total{url=\"\(lists.url())\",result=\"taken\"} 1"))
    // The folder and its file are the server's own.
    let folder = try await scene.run("stat", ["-c", "%a", scene.path("lists")])
    #expect(folder.text == "700\n")
    try await scene.talk(tls: port, identity: cast.alice) { wire in
      try wire.write("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
      #expect(try wire.response().status == 200)
      lists.serve(try self.list(cast, revoking: [cast.alice], number: 2))
      // The end of the stream is the event: nothing of a second request would be answered.
      #expect(try wire.readToEnd().isEmpty)
    }
    try await until("bob to get in") { try await letsIn(scene, cast, port, bob) }
  }

  @Test func `a kept list serves a restart while its server is silent`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene), lists = try ListServer(scene)
    let bob = try scene.identity("bob", cast.authority.client(commonName: "bob"))
    lists.serve(try list(cast, revoking: [bob]))
    let port = try scene.port()
    let text = server(port, "ssl_crl \(lists.url());")
    let daemon = try await Sallyport.start(scene, text)
    try await until("the list to count") { try await letsIn(scene, cast, port, cast.alice) }
    daemon.process.stop()
    unlink(scene.path("sallyport.pid"))
    lists.say("")
    let before = lists.targets.count
    _ = try await Sallyport.start(scene, text)
    #expect(try await ask(scene, cast, port, cast.alice).status == 200)
    #expect(try await ask(scene, cast, port, bob).status == 400)
    try await until("the server to be asked") { lists.targets.count > before }
    #expect(try await ask(scene, cast, port, cast.alice).status == 200)
  }

  @Test func `nothing that a server sends in its place replaces a good list`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene), lists = try ListServer(scene)
    let bob = try scene.identity("bob", cast.authority.client(commonName: "bob"))
    let present = try list(cast, revoking: [bob], number: 8)
    lists.serve(present)
    let port = try scene.port()
    let daemon = try await Sallyport.start(scene, server(port, "ssl_crl \(lists.url());"))
    try await until("the list to count") { try await letsIn(scene, cast, port, cast.alice) }
    var older = RevocationListBuilder(revoking: [], number: 7)
    older.thisUpdate += 1800
    var delta = RevocationListBuilder(revoking: [], number: 9)
    delta.isDelta = true
    let good = try list(cast, revoking: [], number: 9)
    let lies: [(what: String, told: String)] = [
      (try older.pem(signedBy: cast.authority.root), "older than the one in use"),
      (try list(cast, revoking: [], number: 9, by: TestAuthority().root), "is not signed by a CA that it could be for"),
      (try delta.pem(signedBy: cast.authority.root), "a delta revocation list, which names only what changed"),
      (String(good.dropLast(60)), "damaged PEM"), ("<html>Welcome</html>", "neither DER nor PEM"),
    ]
    for (what, told) in lies {
      // After a success the next failure is told again.
      lists.serve(present)
      let count = lists.targets.count
      try await until("a good answer") { lists.targets.count > count + 1 }
      lists.serve(what)
      try await daemon.logged("[warn]", told, "the one in use is valid until")
      #expect(try await ask(scene, cast, port, cast.alice).status == 200)
      #expect(try await ask(scene, cast, port, bob).status == 400)
    }
  }

  @Test func `a certificate's distribution point is fetched, and its client gets in once the list came`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene), lists = try ListServer(scene)
    let (carol, dave) = (try named("carol", cast, lists), try named("dave", cast, lists))
    let port = try scene.port()
    let text = server(port, "ssl_crl_fetch 127.0.0.1:\(lists.port);")
    let daemon = try await Sallyport.start(scene, text)
    #expect(try await ask(scene, cast, port, carol).status == 400)
    try await daemon.logged("a verified client's certificate names the revocation list \(lists.url("dp.crl"))")
    lists.serve(try list(cast, revoking: [dave]))
    try await until("carol to get in") { try await letsIn(scene, cast, port, carol) }
    #expect(try await ask(scene, cast, port, dave).status == 400)
    // Whose certificate names no list has that of its CA.
    #expect(try await ask(scene, cast, port, cast.alice).status == 200)
    // A restart knows the list.
    daemon.process.stop()
    unlink(scene.path("sallyport.pid"))
    lists.say("")
    _ = try await Sallyport.start(scene, text)
    #expect(try await ask(scene, cast, port, carol).status == 200)
    #expect(try await ask(scene, cast, port, dave).status == 400)
  }

  private func named(
    _ name: String, _ cast: Cast, _ lists: ListServer, by authority: TestAuthority? = nil, days: Int64 = 1
  ) throws -> IdentityFiles {
    var builder = CertificateBuilder(commonName: name, .leaf([.clientAuth]), days: days)
    if days < 0 { builder.notBefore = builder.notAfter - 86_400 }
    builder.revocationURLs = [try #require(RevocationURL(lists.url("dp.crl")))]
    return try cast.scene.identity(
      name, builder.signed(by: (authority ?? cast.authority).root, key: .generate()))
  }

  @Test(arguments: ["ssl_crl_fetch on;", "ssl_crl_fetch crl.example:80;", "ssl_crl_fetch 127.0.0.1:1;"])
  func `a certificate makes the server ask no address of its own, and no host that is not named`(fetch: String)
    async throws
  {
    let scene = try Scene.ofTest(), cast = try Cast(scene), lists = try ListServer(scene)
    let carol = try named("carol", cast, lists)
    lists.serve(try list(cast, revoking: []))
    let port = try scene.port()
    let daemon = try await Sallyport.start(scene, server(port, fetch))
    #expect(try await ask(scene, cast, port, carol).status == 400)
    if fetch == "ssl_crl_fetch on;" { try await daemon.logged("is an address of this machine or its link") }
    #expect(try await ask(scene, cast, port, carol).status == 400)
    #expect(lists.targets.isEmpty)
  }

  @Test func `a stranger's certificate, or an ended one, causes no request`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene), lists = try ListServer(scene)
    let port = try scene.port()
    let daemon = try await Sallyport.start(scene, server(port, "ssl_crl_fetch 127.0.0.1;"))
    let clients = [
      try named("mallory", cast, lists, by: TestAuthority()), try named("eve", cast, lists, days: -1),
    ]
    for client in clients { #expect(try await ask(scene, cast, port, client).status == 400) }
    // The point of a client that verifies is asked, so that the others' would have been by now.
    #expect(try await ask(scene, cast, port, named("carol", cast, lists)).status == 400)
    try await until("carol's list to be asked for") { !lists.targets.isEmpty }
    #expect(daemon.errorLog.split(separator: "\n").count { $0.contains("a verified client's certificate names") } == 1)
  }

  @Test func `openssl ca makes the list and python serves it`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let root = try scene.identity("root", cast.authority.root)
    let bob = try scene.identity("bob", cast.authority.client(commonName: "bob"))
    try scene.write("index.txt", text: "")
    try scene.write("crlnumber", text: "01\n")
    try scene.write(
      "ca.cnf",
      text: "[ca]\ndefault_ca=d\n[d]\ndatabase=index.txt\ncrlnumber=crlnumber\ndefault_md=sha256\ndefault_crl_days=7\n")
    let served = try scene.makeFolder("served")
    func ca(_ words: String...) async throws {
      let all = ["ca", "-config", "ca.cnf", "-cert", root.certificate, "-keyfile", root.key] + words
      let result = try await scene.run("openssl", all)
      try #require(result.status == 0, "\(result.everything)")
    }
    func publish() async throws {
      try await ca("-gencrl", "-out", "\(served)/new")
      rename("\(served)/new", "\(served)/ca.crl")
    }
    try await publish()
    let web = try scene.port()
    let python = try ChildProcess(
      "python3", ["-m", "http.server", "--bind", "127.0.0.1", "--directory", served, "\(web)"], in: scene.folder,
      output: scene.path("python.out"), errors: scene.path("python.err"))
    scene.atEnd { python.stop() }
    let port = try scene.port()
    _ = try await Sallyport.start(scene, server(port, "ssl_crl http://127.0.0.1:\(web)/ca.crl;"))
    try await until("bob to get in") { try await letsIn(scene, cast, port, bob) }
    try await ca("-revoke", bob.certificate)
    try await publish()
    try await until("bob to be refused") { try await ask(scene, cast, port, bob).status == 400 }
    #expect(try await ask(scene, cast, port, cast.alice).status == 200)
  }
}

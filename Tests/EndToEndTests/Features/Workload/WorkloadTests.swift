import Bytes
import Crypto
import Glibc
import TestSupport
import Testing

/// A daemon whose identity and trust come from a test agent, and the peers of its trust domain.
private struct WorkloadProxy: Sendable {
  let scene: Scene
  let domain: TestTrustDomain
  let port: UInt16
  let daemon: Sallyport
  static let id = "spiffe://example.org/ns/prod/sa/proxy"

  /// `server`: more lines of the server block.
  init(
    _ scene: Scene, _ domain: TestTrustDomain, server: String = "", locations: String = "location / { return 200 in; }",
    more: String = "", main: String = ""
  ) async throws {
    self.scene = scene
    self.domain = domain
    port = try scene.port()
    try scene.write("root.pem", text: domain.root.certificate.pem)
    daemon = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port) ssl; server_name localhost;
        ssl_certificate spiffe:; ssl_client_certificate spiffe:; ssl_verify_client on;
        ssl_client_allow uri=spiffe://example.org/ns/*/sa/web; ssl_client_allow uri=spiffe://other.test/**;
        \(server)
        location = /metrics { metrics; }
        \(locations)
      }
      \(more)
      """, main: "spiffe_endpoint unix:\(scene.path("agent.sock")); \(main)")
  }

  /// What the agent sends: an SVID for the daemon.
  static func message(
    _ domain: TestTrustDomain, federated: [TestTrustDomain] = [], seconds: Int64 = 3600
  ) throws -> WorkloadMessage {
    WorkloadMessage(
      try domain.svid("/ns/prod/sa/proxy", seconds: seconds, names: [.dns("localhost")]), id, of: domain,
      federated: federated)
  }

  /// Asks with this SVID, and verifies the daemon's by the trust domain's root. `trusts`: not if it is to be refused anyway.
  func get(_ svid: CertifiedKey, _ path: String = "/", name: String = "client") async throws -> CurlResult {
    let files = try scene.identity("\(name)-\(UInt32.random(in: 0...UInt32.max))", svid)
    return try await scene.curl(
      files.curl + [
        "--cacert", scene.path("root.pem"), "--connect-to", "::127.0.0.1:\(port)", "https://localhost\(path)",
      ])
  }

  func metric(_ name: String, _ svid: CertifiedKey) async throws -> Int? {
    let page = try await get(svid, "/metrics").text
    let line = page.split(separator: "\n").first { $0.hasPrefix("\(name) ") }
    return line.flatMap { $0.split(separator: " ").last }.flatMap { Int($0) }
  }
}

@Suite(.staged) struct `Identities of a SPIFFE agent` {
  let scene: Scene
  let domain: TestTrustDomain
  let other: TestTrustDomain

  init() throws {
    scene = try Scene.ofTest()
    domain = try TestTrustDomain()
    other = try TestTrustDomain("other.test")
  }

  @Test func `verify clients by their SVIDs, and rules on their IDs authorise`() async throws {
    let agent = try await WorkloadAgent.start(scene)
    try agent.send(try WorkloadProxy.message(domain))
    let proxy = try await WorkloadProxy(scene, domain)
    let good = try await proxy.get(domain.svid())
    #expect(good.status == 200 && good.text == "in")
    #expect(try await proxy.get(domain.svid("/ns/test/sa/web", by: domain.intermediate)).status == 200)
    #expect(try await proxy.get(domain.svid("/ns/prod/sa/db")).status == 403)
    #expect(try await proxy.get(domain.svid("/ns/prod/x/sa/web")).status == 403)
    #expect(agent.calls == 1)
  }

  @Test func `refuse what is no SVID, and what another trust domain's authority issued`() async throws {
    let agent = try await WorkloadAgent.start(scene)
    try agent.send(try WorkloadProxy.message(domain, federated: [other]))
    let proxy = try await WorkloadProxy(scene, domain)
    let id = "spiffe://example.org/ns/prod/sa/web"
    // Each authority is trusted, but not for the other one's trust domain.
    let crossed = try other.svid(uris: [id])
    let foreign = try domain.svid(uris: ["spiffe://other.test/a"])
    let unknown = try TestTrustDomain("third.test")
    let bad: [(CertifiedKey, String)] = [
      (crossed, "unable to get local issuer certificate"), (foreign, "unable to get local issuer certificate"),
      (try unknown.svid(), "no bundle of the trust domain third.test"),
      (try domain.svid(uris: [id, "spiffe://example.org/ns/prod/sa/db"]), "it has 2 URIs"),
      (try domain.svid(uris: [id, "https://example.org/"]), "it has 2 URIs"),
      (try domain.svid(uris: []), "it has no SPIFFE ID"),
      (try domain.svid(uris: ["spiffe://example.org"]), "its SPIFFE ID is that of a trust domain"),
      (try domain.svid(uris: ["spiffe://example.org/ns//sa/web"]), "its URI is no SPIFFE ID"),
      (try domain.svid(purpose: .authority(pathLength: nil)), "it is a CA's certificate"),
      (try domain.svid(seconds: -60), "certificate has expired"),
    ]
    for (svid, reason) in bad {
      #expect(try await proxy.get(svid).status == 400, "\(reason)")
      try await proxy.daemon.logged(reason)
    }
    #expect(try await proxy.get(domain.svid()).status == 200)
    #expect(try await proxy.get(other.svid("/a/b")).status == 200)
  }

  @Test func `follow each message as a whole: a bundle that is gone lets nobody in any more`() async throws {
    let agent = try await WorkloadAgent.start(scene)
    try agent.send(try WorkloadProxy.message(domain, federated: [other]))
    let proxy = try await WorkloadProxy(scene, domain)
    let stranger = try other.svid("/a")
    #expect(try await proxy.get(stranger).status == 200)
    // A connection that was open before is judged by what has come since.
    let files = try scene.identity("stranger", stranger)
    let port = proxy.port
    let statuses = try await scene.talk(tls: port, identity: files) { wire in
      try wire.write("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
      let first = try wire.response().status
      try agent.send(try WorkloadProxy.message(domain))
      while !proxy.daemon.errorLog.contains("trust domains example.org, from") { usleep(10_000) }
      while proxy.daemon.errorLog.split(separator: "\n").filter({ $0.contains("reconfigured:") }).isEmpty {
        usleep(10_000)
      }
      try? wire.write("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
      return [first, (try? wire.response().status) ?? 0]
    }
    #expect(statuses[0] == 200 && statuses[1] != 200, "\(statuses)")
    #expect(try await proxy.get(stranger).status == 400)
    try agent.send(try WorkloadProxy.message(domain, federated: [other]))
    try await until("the federated bundle") { try await proxy.get(stranger).status == 200 }
  }

  @Test func `come after a start without an agent, which refuses handshakes and says why`() async throws {
    let proxy = try await WorkloadProxy(scene, domain)
    #expect(try await proxy.get(domain.svid()).exit == 35)
    try await proxy.daemon.logged("there is no SPIFFE identity", "connect() failed (2: No such file or directory)")
    let health = try await scene.sallyport("health", "--config", scene.path("sallyport.conf"))
    #expect(health.status != 0 && health.everything.contains("SPIFFE"), "\(health.everything)")
    let agent = try await WorkloadAgent.start(scene)
    try agent.send(try WorkloadProxy.message(domain))
    try await until("the identity") { try await proxy.get(domain.svid()).status == 200 }
    let later = try await scene.sallyport("health", "--config", scene.path("sallyport.conf"))
    #expect(later.status == 0, "\(later.everything)")
  }

  @Test func `stay when the agent goes, and are renewed when it is back`() async throws {
    let agent = try await WorkloadAgent.start(scene)
    try agent.send(try WorkloadProxy.message(domain))
    let proxy = try await WorkloadProxy(scene, domain)
    let client = try domain.svid()
    #expect(try await proxy.metric("sallyport_spiffe_up", client) == 1)
    agent.stop()
    try await proxy.daemon.logged("can't be followed, trying again")
    #expect(try await proxy.get(client).status == 200)
    #expect(try await proxy.metric("sallyport_spiffe_up", client) == 0)
    let next = try await WorkloadAgent.start(scene)
    try next.send(try WorkloadProxy.message(domain))
    try await until("the agent's stream") { try await proxy.metric("sallyport_spiffe_up", client) == 1 }
    #expect(try await proxy.metric("sallyport_spiffe_messages_total", client) ?? 0 >= 2)
  }

  @Test func `end at their end: without a new one, handshakes are refused`() async throws {
    let agent = try await WorkloadAgent.start(scene)
    try agent.send(try WorkloadProxy.message(domain, seconds: 8))
    let proxy = try await WorkloadProxy(scene, domain)
    let client = try domain.svid()
    #expect(try await proxy.get(client).status == 200)
    try await proxy.daemon.logged("SPIFFE: the identity has ended")
    #expect(try await proxy.get(client).exit == 35)
    try await proxy.daemon.logged("the SPIFFE identity has ended, and the agent has sent no other")
    try agent.send(try WorkloadProxy.message(domain))
    try await until("the new identity") { try await proxy.get(client).status == 200 }
  }

  @Test func `are given up when the agent takes them back`() async throws {
    let agent = try await WorkloadAgent.start(scene)
    try agent.send(try WorkloadProxy.message(domain))
    let proxy = try await WorkloadProxy(scene, domain)
    let client = try domain.svid()
    #expect(try await proxy.get(client).status == 200)
    try agent.end(with: "PERMISSION_DENIED")
    try await proxy.daemon.logged("SPIFFE: the identity is given up")
    try await until("the refusal") { try await proxy.get(client).exit == 35 }
    try agent.send(try WorkloadProxy.message(domain))
    try await until("the identity") { try await proxy.get(client).status == 200 }
  }

  @Test func `don't outlive the trust that a message takes away, and the process says why it serves nobody`()
    async throws
  {
    let agent = try await WorkloadAgent.start(scene)
    let next = try TestTrustDomain()
    let svid = try domain.svid("/ns/prod/sa/proxy", names: [.dns("localhost")])
    var message = WorkloadMessage()
    message.add(svid, WorkloadProxy.id, bundle: [domain.root.certificate, next.root.certificate])
    try agent.send(message)
    let more = try scene.port()
    _ = try scene.identity("server", domain.svid("/file", names: [.dns("localhost")]))
    let proxy = try await WorkloadProxy(
      scene, domain,
      more: """
        server { listen 127.0.0.1:\(more) ssl; ssl_certificate server.pem; ssl_certificate_key server.key;
          ssl_client_certificate spiffe:; ssl_verify_client on; return 200 in; }
        """)
    let old = try scene.identity("old", domain.svid()), fresh = try scene.identity("fresh", next.svid())
    /// At a server that shows a certificate of its own.
    func ask(_ who: IdentityFiles) async throws -> Int {
      try await scene.curl(who.curl + ["-k", "https://localhost:\(more)/", "--connect-to", "::127.0.0.1:\(more)"])
        .status
    }
    #expect(try await proxy.get(old.certified).status == 200)
    #expect(try await ask(old) == 200)
    #expect(try await ask(fresh) == 200)
    // The same identity, and the CA that issued it is none of the trust domain any more.
    message = WorkloadMessage()
    message.add(svid, WorkloadProxy.id, bundle: [next.root.certificate])
    try agent.send(message)
    try await proxy.daemon.logged("[crit]", "SPIFFE: NOT in effect", "does not verify by its own bundle")
    try await until("the trust to end") { try await ask(old) == 400 }
    #expect(try await ask(fresh) == 200)
    #expect(try await proxy.get(fresh.certified).exit == 35)
    try await proxy.daemon.logged("there is no SPIFFE identity", "does not verify by its own bundle")
    let health = try await scene.sallyport("health", "--config", scene.path("sallyport.conf"))
    #expect(
      health.status == 1 && health.text.contains("FAILED  SPIFFE: an identity can't be used"), "\(health.everything)")
    message = WorkloadMessage()
    message.add(
      try next.svid("/ns/prod/sa/proxy", names: [.dns("localhost")]), WorkloadProxy.id,
      bundle: [next.root.certificate])
    try agent.send(message)
    try await proxy.daemon.logged("is in effect as a whole")
    try scene.write("root.pem", text: next.root.certificate.pem)
    try await until("the new identity") { try await proxy.get(fresh.certified).status == 200 }
    #expect(try await scene.sallyport("health", "--config", scene.path("sallyport.conf")).status == 0)
  }

  @Test func `that have ended replace no valid one`() async throws {
    let agent = try await WorkloadAgent.start(scene)
    try agent.send(try WorkloadProxy.message(domain))
    let proxy = try await WorkloadProxy(scene, domain)
    let client = try domain.svid()
    #expect(try await proxy.get(client).status == 200)
    try agent.send(try WorkloadProxy.message(domain, federated: [other], seconds: -60))
    try await proxy.daemon.logged("[crit]", "SPIFFE: NOT in effect", "has ended already: the former one stays")
    try await until("the rest of the message") { try await proxy.get(other.svid("/a")).status == 200 }
    #expect(try await proxy.get(client).status == 200)
  }

  @Test func `are not replaced by a message with a fault`() async throws {
    let agent = try await WorkloadAgent.start(scene)
    try agent.send(try WorkloadProxy.message(domain))
    let proxy = try await WorkloadProxy(scene, domain)
    let client = try domain.svid()
    let svid = try domain.svid("/ns/prod/sa/proxy", names: [.dns("localhost")])
    var faults: [(WorkloadMessage, String)] = []
    var message = WorkloadMessage(svid, WorkloadProxy.id, of: domain)
    message.add(federated: "spiffe://example.org", [other.root.certificate])
    faults.append((message, "a federated bundle speaks for spiffe://example.org"))
    message = WorkloadMessage()
    message.add(svid, WorkloadProxy.id, bundle: [])
    faults.append((message, "the bundle of spiffe://example.org is empty"))
    let deep = try domain.svid("/ns/prod/sa/proxy", by: domain.intermediate)
    message = WorkloadMessage()
    message.add(deep, WorkloadProxy.id, bundle: [domain.root.certificate], chain: [])
    faults.append((message, "does not verify by its own bundle"))
    faults.append((WorkloadMessage(), "no SVID is in it"))
    message = WorkloadMessage()
    message.bytes = [UInt8](repeating: 0, count: 100 << 20)
    faults.append((message, "a message has 104857600 bytes"))
    for (message, reason) in faults {
      try agent.send(message)
      try await proxy.daemon.logged(reason)
      #expect(try await proxy.get(client).status == 200, "\(reason)")
    }
    #expect((proxy.daemon.memory("VmHWM") ?? 0) < 150_000)
    try agent.send(try WorkloadProxy.message(domain, federated: [other]))
    try await until("the next message") { try await proxy.get(other.svid("/a")).status == 200 }
  }

  /// An HTTP/1 server, an agent that never answers, and one that closes at once.
  @Test(arguments: ["HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", "", nil] as [String?])
  func `come from who speaks gRPC at the socket alone`(answer: String?) async throws {
    let endpoint = try ScriptedUpstream(scene, unixPath: scene.path("agent.sock")) { wire, _ in
      guard let answer else { return }
      try wire.write(answer)
      _ = try? wire.readToEnd()
    }
    let proxy = try await WorkloadProxy(scene, domain)
    #expect(endpoint.connections >= 1)
    #expect(try await proxy.get(domain.svid()).exit == 35)
    try await proxy.daemon.logged("there is no SPIFFE identity")
  }

  @Test func `are shown to upstreams, which must have the ID that the location names`() async throws {
    let agent = try await WorkloadAgent.start(scene)
    try agent.send(try WorkloadProxy.message(domain, federated: [other]))
    func upstream(_ name: String, _ svid: CertifiedKey) async throws -> UInt16 {
      let identity = try scene.identity(name, svid)
      try scene.write("root.pem", text: domain.root.certificate.pem)
      return try await OpenSSLServer.start(
        scene, identity, name: name, "-www", "-Verify", "2", "-verify_return_error", "-CAfile", scene.path("root.pem")
      ).port
    }
    let right = try await upstream("app", domain.svid("/ns/prod/sa/app"))
    let wrong = try await upstream("else", domain.svid("/ns/prod/sa/else"))
    let crossed = try await upstream("crossed", other.svid(uris: ["spiffe://example.org/ns/prod/sa/app"]))
    let federated = try await upstream("federated", other.svid("/app"))
    let trust = "proxy_ssl_certificate spiffe:; proxy_ssl_trusted_certificate spiffe:;"
    let id = "proxy_ssl_spiffe_id spiffe://example.org/ns/*/sa/app;"
    let proxy = try await WorkloadProxy(
      scene, domain,
      locations: """
        location /right { proxy_pass https://127.0.0.1:\(right); \(trust) \(id) }
        location /wrong { proxy_pass https://127.0.0.1:\(wrong); \(trust) \(id) }
        location /crossed { proxy_pass https://127.0.0.1:\(crossed); \(trust) \(id) }
        location /other { proxy_pass https://127.0.0.1:\(federated); \(trust) proxy_ssl_spiffe_id spiffe://other.test/**; }
        location /one { proxy_pass https://127.0.0.1:\(federated);
          proxy_ssl_certificate spiffe://example.org/ns/prod/sa/proxy; proxy_ssl_trusted_certificate spiffe://other.test;
          proxy_ssl_spiffe_id spiffe://other.test/*; }
        location /none { proxy_pass https://127.0.0.1:\(right); proxy_ssl_certificate spiffe://example.org/nobody;
          proxy_ssl_trusted_certificate spiffe:; \(id) }
        """)
    let client = try domain.svid()
    #expect(try await proxy.get(client, "/right").status == 200)
    #expect(try await proxy.get(client, "/other").status == 200)
    #expect(try await proxy.get(client, "/one").status == 200)
    #expect(try await proxy.get(client, "/wrong").status == 502)
    try await proxy.daemon.logged("name: upstream SSL certificate does not match \"spiffe://example.org/ns/*/sa/app\"")
    #expect(try await proxy.get(client, "/crossed").status == 502)
    #expect(try await proxy.get(client, "/none").status == 502)
    try await proxy.daemon.logged("the agent gives no identity spiffe://example.org/nobody")
    for name in ["else", "crossed"] { #expect(!scene.text("\(name).out").contains("GET ")) }
  }

  @Test func `serve streams, too`() async throws {
    let agent = try await WorkloadAgent.start(scene)
    try agent.send(try WorkloadProxy.message(domain))
    let echo = try ScriptedUpstream(scene) { wire, _ in
      while true { try wire.write(try wire.read(exactly: 1)) }
    }
    let port = try scene.port()
    _ = try await Sallyport.start(
      scene,
      """
      error_log error.log info; pid sallyport.pid; spiffe_endpoint unix:\(scene.path("agent.sock"));
      events {}
      stream { server { listen 127.0.0.1:\(port) ssl; ssl_certificate spiffe:; ssl_client_certificate spiffe://example.org;
        ssl_verify_client on; ssl_client_allow uri=spiffe://example.org/ns/*/sa/web; proxy_pass 127.0.0.1:\(echo.port); } }
      """)
    let allowed = try scene.identity("web", domain.svid()), denied = try scene.identity("db", domain.svid("/db"))
    let echoed = try await scene.talk(tls: port, identity: allowed) { wire in
      try wire.write("x")
      return try wire.read(exactly: 1)
    }
    #expect(echoed == Array("x".utf8))
    let refused = try await scene.talk(tls: port, identity: denied) { wire in
      try? wire.write("x")
      return (try? wire.read(exactly: 1)) ?? []
    }
    #expect(refused.isEmpty)
  }

  @Test func `are shown to gRPC services, and judge them`() async throws {
    let agent = try await WorkloadAgent.start(scene)
    try agent.send(try WorkloadProxy.message(domain))
    _ = try scene.identity("server", domain.svid("/ns/prod/sa/app"))
    _ = try scene.identity("alice", domain.svid())
    try scene.write("ca.pem", text: domain.root.certificate.pem)
    let upstream = try await scene.grpcServer()
    let trust = "grpc_ssl_certificate spiffe:; grpc_ssl_trusted_certificate spiffe:; grpc_ssl_spiffe_id"
    let proxy = try await WorkloadProxy(
      scene, domain, server: "http2 on;",
      locations: """
        location / { grpc_pass grpcs://127.0.0.1:\(upstream); \(trust) spiffe://example.org/ns/*/sa/app; }
        location /test.Untrusted/ { grpc_pass grpcs://127.0.0.1:\(upstream); \(trust) spiffe://example.org/ns/*/sa/db; }
        """)
    #expect(try await scene.grpcClient(proxy.port, "calls").first == "hello True")
    #expect(try await scene.grpcClient(proxy.port, "errors").last?.hasPrefix("UNAVAILABLE") ?? false)
    try await proxy.daemon.logged("name: upstream SSL certificate does not match \"spiffe://example.org/ns/*/sa/db\"")
  }

  @Test func `are those that the reference client gets from the same agent`() async throws {
    let agent = try await WorkloadAgent.start(scene)
    try agent.send(try WorkloadProxy.message(domain, federated: [other]))
    let proxy = try await WorkloadProxy(scene, domain)
    // The package spiffe of PyPI.
    let script = try scene.write(
      "reference.py",
      text: """
        import sys
        from spiffe import WorkloadApiClient
        context = WorkloadApiClient("unix:" + sys.argv[1]).fetch_x509_context()
        svid = context.default_svid
        print(svid.spiffe_id, "%X" % svid.leaf.serial_number)
        print(sorted(bundle.trust_domain.name for bundle in context.x509_bundle_set.bundles))
        """)
    let seen = try await scene.run(PythonPackages.python, [script, agent.socket])
    let shown = try await scene.run(
      "openssl", ["s_client", "-connect", "127.0.0.1:\(proxy.port)", "-servername", "localhost"])
    let text = try await scene.run("openssl", ["x509", "-noout", "-serial"], input: Array(shown.text.utf8)).text
    let serial = text.dropFirst("serial=".count).prefix { !$0.isNewline }
    #expect(
      seen.text.split(separator: "\n").map(String.init) == [
        "\(WorkloadProxy.id) \(serial)", "['example.org', 'other.test']",
      ], "\(seen.everything) \(serial)")
    try await proxy.daemon.logged("trust domains example.org, other.test, from")
  }

  @Test func `bring revocation lists, which count until a message comes without them`() async throws {
    let agent = try await WorkloadAgent.start(scene)
    let client = try domain.svid()
    let first = try domain.svid("/ns/prod/sa/web")
    var message = try WorkloadProxy.message(domain)
    try agent.send(message)
    let proxy = try await WorkloadProxy(scene, domain)
    #expect(try await proxy.get(client).status == 200)
    let pem = try RevocationListBuilder(revoking: [client.certificate], number: 1).pem(signedBy: domain.root)
    message.add(2, try Base64.decode(pem.split(separator: "\n").filter { !$0.hasPrefix("-----") }.joined()))
    try agent.send(message)
    try await until("the list to count") { try await proxy.get(client).status == 400 }
    #expect(try await proxy.get(first).status == 200)
    try agent.send(try WorkloadProxy.message(domain))
    try await until("the list to be gone") { try await proxy.get(client).status == 200 }
  }

  @Test func `come from the socket that the environment names`() async throws {
    let agent = try await WorkloadAgent.start(scene)
    try agent.send(try WorkloadProxy.message(domain))
    let port = try scene.port()
    try scene.write("root.pem", text: domain.root.certificate.pem)
    _ = try await Sallyport.start(
      scene,
      configuration(
        "server { listen 127.0.0.1:\(port) ssl; server_name localhost; ssl_certificate spiffe:; return 200 env; }"),
      environment: ["SPIFFE_ENDPOINT_SOCKET": "unix://\(scene.path("agent.sock"))"])
    let result = try await scene.curl([
      "--cacert", scene.path("root.pem"), "--connect-to", "::127.0.0.1:\(port)", "https://localhost/",
    ])
    #expect(result.text == "env")
  }

  @Test func `take the place of files by a reload that refuses nobody`() async throws {
    let agent = try await WorkloadAgent.start(scene)
    try agent.send(try WorkloadProxy.message(domain))
    let port = try scene.port()
    try scene.write("root.pem", text: domain.root.certificate.pem)
    _ = try scene.identity("server", domain.svid("/file", names: [.dns("localhost")]))
    func text(_ certificate: String) -> String {
      configuration(
        "server { listen 127.0.0.1:\(port) ssl; server_name localhost; \(certificate) return 200 ok; }",
        main: "spiffe_endpoint unix:\(scene.path("agent.sock"));")
    }
    let daemon = try await Sallyport.start(scene, text("ssl_certificate server.pem; ssl_certificate_key server.key;"))
    #expect(agent.calls == 0)
    let arguments = [
      "--cacert", scene.path("root.pem"), "--connect-to", "::127.0.0.1:\(port)", "https://localhost/",
    ]
    try daemon.rewrite(text("ssl_certificate spiffe:;"))
    daemon.signal(SIGHUP)
    var statuses: [Int] = []
    while !daemon.errorLog.contains("reconfigured:") { statuses.append(try await scene.curl(arguments).status) }
    for _ in 0..<5 { statuses.append(try await scene.curl(arguments).status) }
    #expect(statuses.allSatisfy { $0 == 200 }, "\(statuses)")
    #expect(agent.calls == 1)
    try daemon.rewrite(text("ssl_certificate server.pem; ssl_certificate_key server.key;"))
    daemon.signal(SIGHUP)
    try await daemon.logged("reconfigured: generation 3")
    #expect(try await scene.curl(arguments).status == 200)
  }

  @Test func `are there before a new process of USR2 takes the place of the former one`() async throws {
    let agent = try await WorkloadAgent.start(scene)
    try agent.send(try WorkloadProxy.message(domain))
    let proxy = try await WorkloadProxy(scene, domain)
    let client = try domain.svid()
    proxy.daemon.signal(SIGUSR2)
    var statuses: [Int] = []
    while !proxy.daemon.errorLog.contains("of the new binary serves") {
      statuses.append(try await proxy.get(client).status)
    }
    if let fresh = Int32(scene.text("sallyport.pid").filter(\.isNumber)) { scene.atEnd { kill(fresh, SIGKILL) } }
    for _ in 0..<5 { statuses.append(try await proxy.get(client).status) }
    #expect(statuses.allSatisfy { $0 == 200 }, "\(statuses)")
    #expect(agent.calls == 2)
  }

  @Test func `are not verified by check, which says so`() async throws {
    let text = configuration(
      """
      server { listen 127.0.0.1:1 ssl; ssl_certificate spiffe:; ssl_client_certificate spiffe:; ssl_verify_client on;
        return 204; }
      """, main: "spiffe_endpoint unix:/nowhere.sock;")
    let result = try scene.check(text)
    #expect(result.isValid)
    #expect(result.contains("nothing of spiffe: is verified here"), "\(result)")
    #expect(result.contains("every workload of these trust domains gets in"))
    let nowhere = try scene.check(text.replacing("spiffe_endpoint unix:/nowhere.sock;", with: ""))
    #expect(nowhere.contains("nothing says where the SPIFFE agent is"), "\(nowhere)")
  }
}

/// Renewal under load: no request may fail by it.
@Suite(.stagedAlone) struct `A SPIFFE identity that is renewed each second` {
  /// PORT FOLDER SECONDS: threads that ask over kept connections and over new ones; prints requests, failures and the
  /// certificates that were shown.
  private static let load = #"""
    import http.client, ssl, sys, threading, time
    port, folder, seconds = int(sys.argv[1]), sys.argv[2], float(sys.argv[3])
    context = ssl.create_default_context(cafile=folder + "/root.pem")
    context.load_cert_chain(folder + "/load.pem", folder + "/load.key")
    end = time.time() + seconds
    counts, faults, shown = [0] * 8, [], set()

    def ask(number):
        kept = None
        while time.time() < end:
            try:
                if kept is None or number % 2:
                    if kept: kept.close()
                    kept = http.client.HTTPSConnection("localhost", port, context=context, timeout=20)
                    kept.connect()
                    shown.add(kept.sock.getpeercert()["serialNumber"])
                kept.request("GET", "/through")
                answer = kept.getresponse()
                body = answer.read()
                if answer.status != 200 or body != b"end": faults.append((answer.status, body[:80]))
                if answer.will_close:
                    kept.close()
                    kept = None
                counts[number] += 1
            except Exception as error:
                faults.append(repr(error))
                kept = None

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(len(counts))]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    print(sum(counts), len(faults), len(shown), faults[:5])
    """#

  @Test func `loses no request, towards clients and upstreams`() async throws {
    let scene = try Scene.ofTest()
    let domain = try TestTrustDomain()
    let agent = try await WorkloadAgent.start(scene)
    try agent.send(try WorkloadProxy.message(domain))
    let upstream = try scene.port()
    let proxy = try await WorkloadProxy(
      scene, domain,
      locations: """
        location /through { proxy_pass https://app; proxy_ssl_certificate spiffe:; proxy_ssl_trusted_certificate spiffe:;
          proxy_ssl_spiffe_id \(WorkloadProxy.id); }
        """,
      more: """
        upstream app { server 127.0.0.1:\(upstream); keepalive 8; }
        server { listen 127.0.0.1:\(upstream) ssl; ssl_certificate spiffe:; ssl_client_certificate spiffe:;
          ssl_verify_client on; ssl_client_allow uri=\(WorkloadProxy.id); return 200 end; }
        """)
    _ = try scene.identity("load", domain.svid())
    let seconds = 8
    let script = try scene.write("load.py", text: Self.load)
    let port = proxy.port
    async let load = scene.run(GRPCScripts.python, [script, "\(port)", scene.folder, "\(seconds)"])
    for _ in 0..<(seconds - 1) {
      try await Task.sleep(for: .seconds(1))
      try agent.send(try WorkloadProxy.message(domain))
    }
    let result = try await load
    let words = result.text.split(separator: " ", maxSplits: 3)
    #expect(words.count == 4 && words[1] == "0", "\(result)")
    #expect(Int(words[0]) ?? 0 > 200, "\(result)")
    #expect(Int(words[2]) ?? 0 > 4, "\(result)")
    #expect(agent.calls == 1)
  }
}

import Crypto
import Glibc
import TestSupport
import Testing

@Suite(.stagedOverBoth) struct Revocation {
  private static let answer =
    #"location / { return 200 "reused=$ssl_session_reused verify=$ssl_client_verify dn=$ssl_client_s_dn\n"; }"#

  private func list(
    _ scene: Scene, _ cast: Cast, revoking: [IdentityFiles], number: Int = 1, ends: Int64 = 86_400 * 30,
    file: String = "crl.pem"
  ) throws {
    var builder = RevocationListBuilder(revoking: revoking.map(\.certified.certificate), number: number)
    builder.nextUpdate = Int64(time(nil)) + ends
    // As careful people do it: never half a file under its name.
    let path = try scene.write("\(file).new", text: builder.pem(signedBy: cast.authority.root))
    rename(path, scene.path(file))
  }

  private func server(_ port: UInt16, _ more: String = "") -> String {
    configuration(
      "server { listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls) ssl_crl crl.pem; \(more) \(Self.answer) }"
    )
  }

  private func ask(_ scene: Scene, _ cast: Cast, _ port: UInt16, _ who: IdentityFiles) async throws -> CurlResult {
    try await scene.curl(cast.to(port) + who.curl + ["https://localhost/"])
  }

  /// One request over openssl s_client; the session goes to and comes from a file.
  private func resume(
    _ scene: Scene, _ port: UInt16, _ version: String, _ who: IdentityFiles, _ session: [String]
  ) async throws -> ToolResult {
    try await scene.run(
      "openssl",
      ["s_client", "-connect", "127.0.0.1:\(port)", "-servername", "localhost", "-ign_eof", version] + who.openssl
        + session, input: Array("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".utf8))
  }

  @Test func `a revoked client gets nginx's 400, others get in`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let bob = try scene.identity("bob", cast.authority.client(commonName: "bob"))
    try list(scene, cast, revoking: [bob])
    let port = try scene.port()
    let daemon = try await Sallyport.start(scene, server(port))
    #expect(try await ask(scene, cast, port, cast.alice).status == 200)
    let refused = try await ask(scene, cast, port, bob)
    #expect(refused.status == 400 && refused.text.contains("The SSL certificate error"))
    try await daemon.logged("certificate revoked")
  }

  @Test(
    arguments: ["-tls1_2", "-tls1_3"],
    ["", "ssl_session_cache shared:s:1m; ssl_session_tickets off;", "ssl_session_ticket_key ticket.key;"])
  func `a client revoked by a CRL that is put in place neither resumes nor gets in, without a signal`(
    version: String, store: String
  ) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    try list(scene, cast, revoking: [])
    try scene.write("ticket.key", (0..<80).map { _ in UInt8.random(in: 0...255) })
    let port = try scene.port()
    let daemon = try await Sallyport.start(scene, server(port, store))
    let file = scene.path("session.pem")
    let first = try await resume(scene, port, version, cast.alice, ["-sess_out", file])
    #expect(first.text.contains("reused=. verify=SUCCESS"))
    let again = try await resume(scene, port, version, cast.alice, ["-sess_in", file, "-sess_out", file])
    #expect(again.text.contains("reused=r verify=SUCCESS"))
    try list(scene, cast, revoking: [cast.alice], number: 2)
    try await daemon.logged("reconfigured: ")
    let revoked = try await resume(scene, port, version, cast.alice, ["-sess_in", file])
    #expect(!revoked.text.contains("verify=SUCCESS") && revoked.text.contains("400 Bad Request"))
    #expect(try await ask(scene, cast, port, cast.alice).status == 400)
  }

  @Test(.ofHTTP1) func `a revoked client's kept connection serves no other request`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    try list(scene, cast, revoking: [])
    let port = try scene.port()
    let daemon = try await Sallyport.start(scene, server(port))
    try await scene.talk(tls: port, identity: cast.alice) { wire in
      try wire.write("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
      #expect(try wire.response().status == 200)
      try list(scene, cast, revoking: [cast.alice], number: 2)
      // The end of the stream is the event: nothing of a second request would be answered.
      #expect(try wire.readToEnd().isEmpty)
    }
    try await daemon.logged("changed: ", "crl.pem")
  }

  @Test func `an ended CRL refuses everybody of its CA, does not stop a start, and never replaces a valid one`()
    async throws
  {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    try list(scene, cast, revoking: [], ends: -60)
    let port = try scene.port()
    let check = try scene.check(server(port))
    #expect(!check.isValid && check.contains("ended on"))
    let daemon = try await Sallyport.start(scene, server(port))
    #expect(try await ask(scene, cast, port, cast.alice).status == 400)
    try await daemon.logged("[crit]", "ended on", "every certificate of this CA is refused")
    try list(scene, cast, revoking: [], number: 2)
    try await until("the new list to count") { try await ask(scene, cast, port, cast.alice).status == 200 }
    let bob = try scene.identity("bob", cast.authority.client(commonName: "bob"))
    try list(scene, cast, revoking: [bob], number: 3, ends: -60)
    try await daemon.logged("[warn]", "stays in use")
    try await until("both generations to have settled") {
      daemon.errorLog.split(separator: "\n").count { $0.contains("reconfigured: ") } >= 2
    }
    // The valid one serves on, but whom the ended one names does not come back.
    #expect(try await ask(scene, cast, port, cast.alice).status == 200)
    #expect(try await ask(scene, cast, port, bob).status == 400)
  }

  @Test func `a list with a smaller number lets no revoked client in again, however new it looks`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let bob = try scene.identity("bob", cast.authority.client(commonName: "bob"))
    try list(scene, cast, revoking: [bob], number: 8)
    let port = try scene.port()
    let daemon = try await Sallyport.start(scene, server(port))
    #expect(try await ask(scene, cast, port, bob).status == 400)
    var builder = RevocationListBuilder(revoking: [], number: 7)
    // Later than that of the list in use: OpenSSL itself would prefer it.
    builder.thisUpdate += 1800
    let path = try scene.write("crl.pem.new", text: builder.pem(signedBy: cast.authority.root))
    rename(path, scene.path("crl.pem"))
    try await daemon.logged("reconfigured: generation 2")
    #expect(try await ask(scene, cast, port, bob).status == 400)
    try await daemon.logged("[warn]", "has the number 7, and the one before has 8", "stays in use")
    #expect(try await ask(scene, cast, port, cast.alice).status == 200)
    try list(scene, cast, revoking: [], number: 9)
    try await daemon.logged("reconfigured: generation 3")
    #expect(try await ask(scene, cast, port, bob).status == 200)
  }

  @Test func `a list that can't be read keeps the one in use`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let bob = try scene.identity("bob", cast.authority.client(commonName: "bob"))
    try list(scene, cast, revoking: [bob])
    let port = try scene.port()
    let daemon = try await Sallyport.start(scene, server(port))
    try scene.write("crl.pem", text: "-----BEGIN X509 CRL-----\nhalf")
    try await daemon.logged("[crit]", "NOT in effect, the former content of the revocation list serves on", "crl.pem")
    #expect(try await ask(scene, cast, port, bob).status == 400)
    #expect(try await ask(scene, cast, port, cast.alice).status == 200)
    try list(scene, cast, revoking: [bob, cast.alice], number: 2)
    try await until("the whole list to count") { try await ask(scene, cast, port, cast.alice).status == 400 }
  }

  @Test func `a revocation that could not be loaded for something else at fault is not lost`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let bob = try scene.identity("bob", cast.authority.client(commonName: "bob"))
    try list(scene, cast, revoking: [])
    let port = try scene.port()
    let daemon = try await Sallyport.start(scene, server(port))
    let process = "\(daemon.process.identifier)"
    // The watch of files and its clock have their descriptors.
    try list(scene, cast, revoking: [], number: 2)
    try await daemon.logged("generation 2")
    // Of what passes nobody hears when it has: only the try on the clock finds it over.
    try await scene.succeed("prlimit", "--pid", process, "--nofile=8:")
    try list(scene, cast, revoking: [bob], number: 3)
    try await daemon.logged("[crit]", "NOT in effect, the former content of the revocation list serves on")
    try await scene.succeed("prlimit", "--pid", process, "--nofile=1024:")
    try await until("the list to count") { try await ask(scene, cast, port, bob).status == 400 }
  }

  @Test func `a stranger's list in the place of a good one changes nothing, and is told by name`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let bob = try scene.identity("bob", cast.authority.client(commonName: "bob"))
    try list(scene, cast, revoking: [bob])
    let port = try scene.port()
    let daemon = try await Sallyport.start(scene, server(port))
    let stranger = try TestAuthority()
    #expect(stranger.root.certificate.subject.rfc2253 == cast.authority.root.certificate.subject.rfc2253)
    rename(
      try scene.write("new.pem", text: RevocationListBuilder(revoking: [], number: 2).pem(signedBy: stranger.root)),
      scene.path("crl.pem"))
    let fault = "crl.pem\": the revocation list of CN=Test Root is not signed by the trusted CA of that name"
    try await daemon.logged("[crit]", "NOT in effect, the former content of the revocation list serves on", fault)
    #expect(try await ask(scene, cast, port, cast.alice).status == 200)
    #expect(try await ask(scene, cast, port, bob).status == 400)
    let check = try scene.check(server(port))
    #expect(!check.isValid && check.contains(fault))
    try list(scene, cast, revoking: [cast.alice], number: 3)
    try await until("the CA's own list to count") { try await ask(scene, cast, port, cast.alice).status == 400 }
    #expect(try await ask(scene, cast, port, bob).status == 200)
  }

  @Test func `a revoked upstream gets no byte`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let up = try scene.identity("up", cast.authority.server())
    try list(scene, cast, revoking: [up], file: "upcrl.pem")
    let upstream = try await OpenSSLServer.start(scene, up)
    let port = try scene.port()
    let daemon = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port); location / { proxy_pass https://localhost:\(upstream.port);
        proxy_ssl_trusted_certificate ca.pem; proxy_ssl_crl upcrl.pem; } }
      """)
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/secret"]).status == 502)
    try await daemon.logged("certificate revoked")
    #expect(!upstream.log.contains("secret"))
  }
}

import Bytes
import Crypto
import Glibc
import TestSupport
import Testing

/// `ssl_verify_candidate`: the next trust judges the clients that come, and decides nothing.
@Suite(.staged) struct `A candidate trust` {
  private static let locations =
    "location / { return 200 in; } location = /metrics { metrics; } location = /status { status; }"

  /// Alice is of today's CA, bob of the next one.
  private static func people(_ scene: Scene) throws -> (alice: IdentityFiles, bob: IdentityFiles) {
    let next = try TestAuthority("Next")
    _ = try scene.write("next-ca.pem", text: next.root.certificate.pem)
    return try (Cast(scene).alice, scene.identity("bob", next.client(commonName: "bob")))
  }

  private static func count(_ page: String, _ result: String) -> String? {
    page.split(separator: "\n").first {
      $0.hasPrefix("sallyport_client_candidate_total") && $0.contains("result=\"\(result)\"")
    }.flatMap { $0.split(separator: " ").last.map(String.init) }
  }

  @Test(arguments: [["--tlsv1.2", "--tls-max", "1.2"], ["--tlsv1.3"]])
  func `tells of the clients that it would judge otherwise, and decides on none`(version: [String]) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene), (alice, bob) = try Self.people(scene)
    let front = try await MutualProxy(
      scene, server: "ssl_verify_candidate { ssl_client_certificate next-ca.pem; }", locations: Self.locations)
    func ask(_ path: String, _ who: IdentityFiles?) async throws -> CurlResult {
      try await scene.curl(cast.to(front.port) + (who?.curl ?? []) + version + ["https://localhost\(path)"])
    }
    #expect(try await ask("/", alice).status == 200)
    #expect(try await ask("/", bob).status == 400)
    #expect(try await ask("/", nil).status == 400)
    let refused = try await front.daemon.logged("[info]", "the candidate trust would refuse a client that gets in")
    #expect(refused.contains("CN=alice") && refused.contains("client SSL certificate verify error"))
    let admitted = try await front.daemon.logged("the candidate trust would let in a client that is refused")
    #expect(admitted.contains("CN=bob"))
    let page = try await ask("/metrics", alice).text
    #expect(Self.count(page, "would_refuse") == "2" && Self.count(page, "would_admit") == "1")
    #expect(Self.count(page, "same") == "1")
    let status = try await ask("/status", alice).text
    #expect(status.contains("would refuse 3 more and let in 1 more"), "\(status)")
  }

  @Test func `judges clients whose handshake is refused, and those of resumed sessions`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene), (_, bob) = try Self.people(scene)
    let front = try await MutualProxy(
      scene,
      server: """
        ssl_verify_reject handshake; ssl_session_cache shared:s:1m;
        ssl_verify_candidate { ssl_client_certificate next-ca.pem; }
        """, locations: Self.locations)
    #expect(try await scene.curl(cast.to(front.port) + bob.curl + ["--http1.1", "https://localhost/"]).exit != 0)
    _ = try await front.daemon.logged("the candidate trust would let in a client that is refused", "CN=bob")
    func session(_ words: [String]) async throws -> String {
      try await scene.run(
        "openssl",
        [
          "s_client", "-quiet", "-connect", "127.0.0.1:\(front.port)", "-servername", "localhost", "-CAfile",
          scene.path("ca.pem"), "-tls1_2",
        ] + cast.alice.openssl + words,
        input: Array("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".utf8)
      ).text
    }
    #expect(try await session(["-sess_out", scene.path("session")]).contains("in"))
    #expect(try await session(["-sess_in", scene.path("session")]).contains("in"))
    let page = try await scene.curl(cast.to(front.port) + cast.alice.curl + ["https://localhost/metrics"]).text
    #expect(Self.count(page, "would_refuse") == "3" && Self.count(page, "would_admit") == "1")
  }

  @Test func `judges clients whom a rule refuses in the handshake`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let front = try await MutualProxy(
      scene,
      server: """
        ssl_verify_reject handshake; ssl_client_allow cn=boss; ssl_verify_candidate { ssl_client_allow cn=alice; }
        """, locations: Self.locations)
    #expect(
      try await scene.curl(cast.to(front.port) + cast.alice.curl + ["--http1.1", "https://localhost/"]).exit != 0)
    _ = try await front.daemon.logged("the candidate trust would let in a client that is refused", "CN=alice")
  }

  @Test func `judges by its own rules and list, and a client of both trusts is the same to both`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let front = try await MutualProxy(
      scene, server: "ssl_verify_candidate { ssl_client_allow cn=boss; }", locations: Self.locations)
    #expect(try await scene.curl(cast.to(front.port) + cast.alice.curl + ["https://localhost/"]).status == 200)
    let line = try await front.daemon.logged("the candidate trust would refuse a client that gets in")
    #expect(line.contains("access forbidden by rule at"))
  }

  @Test
  func
    `a rotation: the next CA beside the old one is told as letting in more, and after the swap there is no difference`()
    async throws
  {
    let scene = try Scene.ofTest(), cast = try Cast(scene), (alice, bob) = try Self.people(scene)
    _ = try scene.write("both.pem", text: scene.text("ca.pem") + scene.text("next-ca.pem"))
    let front = try await MutualProxy(
      scene, server: "ssl_verify_candidate { ssl_client_certificate both.pem; }", locations: Self.locations)
    func ask(_ path: String, _ who: IdentityFiles) async throws -> CurlResult {
      try await scene.curl(cast.to(front.port) + who.curl + ["https://localhost\(path)"])
    }
    #expect(try await ask("/", alice).status == 200)
    #expect(try await ask("/", bob).status == 400)
    var page = try await ask("/metrics", alice).text
    #expect(Self.count(page, "would_refuse") == "0" && Self.count(page, "would_admit") == "1")
    // A candidate that can't be loaded leaves everything as it is.
    let text = scene.text("sallyport.conf")
    _ = try scene.write("sallyport.conf", text: text.replacing("both.pem", with: "missing.pem"))
    front.daemon.signal(SIGHUP)
    _ = try await front.daemon.logged("[emerg]", "missing.pem")
    #expect(try await ask("/", alice).status == 200)
    // The swap.
    let swapped = text.replacing("ssl_verify_candidate { ssl_client_certificate both.pem; }", with: "")
      .replacing("ssl_client_certificate ca.pem", with: "ssl_client_certificate both.pem")
    #expect(swapped.contains("ssl_client_certificate both.pem"))
    _ = try scene.write("sallyport.conf", text: swapped)
    front.daemon.signal(SIGHUP)
    _ = try await front.daemon.logged("generation 2")
    #expect(try await ask("/", bob).status == 200)
    page = try await ask("/metrics", bob).text
    #expect(!page.contains("sallyport_client_candidate_total"))
  }

  @Test func `an intermediate that today's file has and the client doesn't send is missed by the next trust`()
    async throws
  {
    let scene = try Scene.ofTest(), cast = try Cast(scene), deep = try TestAuthority("Deep")
    let carol = try deep.client(.viaIntermediate, commonName: "carol")
    _ = try scene.write("deep.pem", text: deep.root.certificate.pem + deep.intermediate.certificate.pem)
    _ = try scene.write("root.pem", text: deep.root.certificate.pem)
    let files = try [
      "--cert", scene.write("carol.pem", text: carol.certificate.pem), "--key",
      scene.write("carol.key", carol.key.pem.withUnsafeBytes { Array($0) }),
    ]
    let front = try await MutualProxy(
      scene,
      server: "ssl_trusted_certificate deep.pem; ssl_verify_candidate { ssl_trusted_certificate root.pem; }",
      locations: Self.locations)
    #expect(try await scene.curl(cast.to(front.port) + files + ["https://localhost/"]).status == 200)
    _ = try await front.daemon.logged("the candidate trust would refuse a client that gets in", "CN=carol")
  }

  @Test func `a server of stream tells of its clients too`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene), (alice, bob) = try Self.people(scene)
    let front = try await StreamFront(
      scene, listen: "ssl",
      server: "\(Cast.tls) ssl_verify_candidate { ssl_client_certificate next-ca.pem; } return hello;")
    for who in [alice, bob] {
      _ = try await scene.run(
        "openssl",
        ["s_client", "-quiet", "-connect", "127.0.0.1:\(front.port)", "-CAfile", scene.path("ca.pem")] + who.openssl,
        input: [])
    }
    _ = try await front.daemon.logged("the candidate trust would refuse a client that gets in", "CN=alice")
    _ = try await front.daemon.logged("the candidate trust would let in a client that is refused", "CN=bob")
    _ = cast
  }
}

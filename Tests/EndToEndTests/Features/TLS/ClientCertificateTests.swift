import TestSupport
import Testing

@Suite(.stagedOverBoth) struct `Client certificates` {
  static let versions = [["--tlsv1.2", "--tls-max", "1.2"], ["--tlsv1.3"]]

  private func start(_ scene: Scene, verify: String = "on") async throws -> MutualProxy {
    try await MutualProxy(
      scene, verify: verify,
      location: "proxy_set_header X-Verify $ssl_client_verify; proxy_set_header X-DN $ssl_client_s_dn;")
  }

  @Test(arguments: versions, [TestAuthority.ClientKind.good, .viaIntermediate])
  func `a client with a certificate of the right CA gets in`(
    version: [String], kind: TestAuthority.ClientKind
  ) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let client = try scene.identity("client", cast.authority.client(kind, commonName: "bob"))
    let front = try await start(scene)
    let result = try await scene.curl(cast.to(front.port) + client.curl + version + ["https://localhost/head"])
    #expect(result.status == 200)
    #expect(result.text.contains("X-Verify: SUCCESS"))
    #expect(result.text.contains("X-DN: CN=bob,O=Example \\+ Sons,C=SE"))
  }

  @Test(arguments: versions) func `a client without a certificate gets nginx's 400`(version: [String]) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let front = try await start(scene)
    let result = try await scene.curl(cast.to(front.port) + version + ["https://localhost/"])
    #expect(result.status == 400)
    #expect(result.text.contains("No required SSL certificate was sent"))
    #expect(front.upstream.connections == 0)
    try await front.daemon.logged("[notice]", "client sent no required SSL certificate")
  }

  @Test(arguments: versions, TestAuthority.ClientKind.refused)
  func `a client whose certificate does not verify gets nginx's 400`(
    version: [String], kind: TestAuthority.ClientKind
  ) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let client = try scene.identity("client", cast.authority.client(kind))
    let front = try await start(scene)
    let result = try await scene.curl(cast.to(front.port) + client.curl + version + ["https://localhost/"])
    #expect(result.status == 400)
    #expect(result.text.contains("The SSL certificate error"))
    #expect(front.upstream.connections == 0)
    try await front.daemon.logged("[notice]", "client SSL certificate verify error", kind.reason)
    #expect(!front.daemon.errorLog.contains("[error]"))
  }

  @Test(arguments: versions) func `a client of another CA gets nginx's 400`(version: [String]) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    // The same names as ours, another key.
    let client = try scene.identity("client", TestAuthority().client())
    let front = try await start(scene)
    let result = try await scene.curl(cast.to(front.port) + client.curl + version + ["https://localhost/"])
    #expect(result.status == 400)
    #expect(result.text.contains("The SSL certificate error"))
    #expect(front.upstream.connections == 0)
  }

  @Test func `a deeper chain is let in where ssl_verify_depth says so`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let client = try scene.identity("client", cast.authority.client(.tooDeep))
    let front = try await start(scene, verify: "on; ssl_verify_depth 2")
    let result = try await scene.curl(cast.to(front.port) + client.curl + ["https://localhost/"])
    #expect(result.status == 200)
  }

  @Test func `an optional certificate may be left out, but must verify when it is shown`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let front = try await start(scene, verify: "optional")
    let none = try await scene.curl(cast.to(front.port) + ["https://localhost/head"])
    #expect(none.status == 200 && none.text.contains("X-Verify: NONE"))
    #expect(!none.text.contains("X-DN"))
    let good = try await scene.curl(cast.to(front.port) + cast.alice.curl + ["https://localhost/head"])
    #expect(good.status == 200 && good.text.contains("X-Verify: SUCCESS"))
    let stranger = try scene.identity("stranger", TestAuthority("Other").client())
    let bad = try await scene.curl(cast.to(front.port) + stranger.curl + ["https://localhost/head"])
    #expect(bad.status == 400 && bad.text.contains("The SSL certificate error"))
  }

  @Test func `optional_no_ca lets the upstream judge a stranger's certificate, but not an expired one`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let front = try await start(scene, verify: "optional_no_ca")
    let stranger = try scene.identity("stranger", TestAuthority("Other").client(commonName: "eve"))
    let result = try await scene.curl(cast.to(front.port) + stranger.curl + ["https://localhost/head"])
    #expect(result.status == 200)
    #expect(result.text.contains("X-Verify: FAILED:"))
    #expect(result.text.contains("CN=eve"))
    let alone = try scene.identity("alone", cast.authority.client(.selfSigned))
    #expect(
      try await scene.curl(cast.to(front.port) + alone.curl + ["https://localhost/head"]).text.contains("FAILED:"))
    let expired = try scene.identity("expired", cast.authority.client(.expired))
    #expect(try await scene.curl(cast.to(front.port) + expired.curl + ["https://localhost/"]).status == 400)
    let both = try scene.identity("both", TestAuthority("Other").client(.expired))
    #expect(try await scene.curl(cast.to(front.port) + both.curl + ["https://localhost/"]).status == 400)
    try await front.daemon.logged("client SSL certificate verify error: (10:certificate has expired)")
  }

  @Test func `curl's own PKCS#12 gets in`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let file = try scene.pkcs12("client", cast.authority.client(.viaIntermediate))
    let front = try await start(scene)
    let result = try await scene.curl(
      cast.to(front.port)
        + ["--cert-type", "P12", "--cert", "\(file):\(IdentityFiles.password)", "https://localhost/head"])
    #expect(result.status == 200)
    #expect(result.text.contains("X-Verify: SUCCESS"))
  }

  @Test(.ofHTTP1) func `the names of the accepted CAs are sent to the client`() async throws {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    let front = try await start(scene)
    let result = try await scene.run(
      "openssl", ["s_client", "-connect", "127.0.0.1:\(front.port)", "-tls1_2"], input: [])
    #expect(result.text.withPlainNames.contains("Acceptable client certificate CA names\nCN=Test Root"))
  }
}

extension TestAuthority.ClientKind {
  static let refused: [Self] = [.expired, .notYetValid, .selfSigned, .serverAuthOnly, .tooDeep]

  /// What OpenSSL calls it.
  var reason: String {
    switch self {
    case .expired: "certificate has expired"
    case .notYetValid: "certificate is not yet valid"
    case .selfSigned: "self-signed certificate"
    case .serverAuthOnly: "purpose"
    case .tooDeep: "chain"
    case .good, .viaIntermediate: "nothing"
    }
  }
}

import Glibc
import TestSupport
import Testing

/// A daemon that alice and bob reach with their certificates, in front of upstreams that ask for passwords.
struct PasswordProxy: Sendable {
  let scene: Scene
  let cast: Cast
  let port: UInt16
  let daemon: Sallyport

  static let users = """
    # SELECTOR USER:PASSWORD
    cn=alice al:geheim-über dem:Berg
    cn=bob bo:falsch

    """

  init(
    _ scene: Scene, users: String = Self.users, workers: Int = 2, http: String = "", _ locations: String
  ) async throws {
    self.scene = scene
    let cast = try Cast(scene)
    for name in ["alice", "bob", "carol"] { _ = try scene.identity(name, cast.authority.client(commonName: name)) }
    self.cast = cast
    try scene.write("users", text: users)
    try await scene.succeed("chmod", "600", scene.path("users"))
    port = try scene.port()
    daemon = try await Sallyport.start(
      scene,
      Self.configuration(port, http: http, locations)
        .replacing("worker_processes 2", with: "worker_processes \(workers)"))
  }

  static func configuration(_ port: UInt16, http: String = "", _ locations: String) -> String {
    TestSupport.configuration(
      """
      \(http)
      server {
        listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls)
        proxy_auth_user_file users;
        \(locations)
      }
      """, level: "debug")
  }

  func ask(_ path: String, as name: String = "alice", _ more: [String] = [], input: [UInt8]? = nil) async throws
    -> CurlResult
  {
    let identity = ["--cert", scene.path("\(name).pem"), "--key", scene.path("\(name).key")]
    return try await scene.curl(cast.to(port) + identity + more + ["https://localhost\(path)"], input: input)
  }

  /// No password, nor what is made of one, in any log, at any level.
  func expectNoSecrets(_ words: String...) {
    for log in ["error.log", "access.log", "sallyport.stderr"] {
      for word in words + ["geheim", "Z2VoZWlt", "falsch"] {
        #expect(!scene.text(log).contains(word), "\(word) in \(log)")
      }
    }
  }
}

@Suite(.stagedOverBoth) struct `Upstreams that ask for a password` {
  private let accounts = [ApacheUpstream.Account("al", "geheim-über dem:Berg"), .init("bo", "richtig")]

  private func stage(
    _ scene: Scene, _ auth: String, http: String = ""
  ) async throws -> (proxy: PasswordProxy, apache: ApacheUpstream) {
    let apache = try await ApacheUpstream.start(scene, accounts: accounts)
    let text = auth.replacing("$APACHE", with: "127.0.0.1:\(apache.port)")
    let groups = http.replacing("$APACHE", with: "127.0.0.1:\(apache.port)")
    return (try await PasswordProxy(scene, http: groups, text), apache)
  }

  @Test(arguments: [("digest", "digest basic ntlm"), ("basic", "basic"), ("digest", "digest")])
  func `a certificate in front becomes a password behind`(path: String, schemes: String) async throws {
    let scene = try Scene.ofTest()
    let (proxy, apache) = try await stage(scene, "proxy_auth \(schemes); location / { proxy_pass http://$APACHE; }")
    for _ in 0..<3 {
      let result = try await proxy.ask("/\(path)/page", ["-H", "Authorization: Basic ZXZpbDpldmls"])
      #expect(result.status == 200 && result.text == path)
      #expect(result["WWW-Authenticate"] == nil && result["Authentication-Info"] == nil)
    }
    let seen = try await apache.seen(4)
    #expect(seen.map { $0[0] } == ["401", "200", "200", "200"])
    #expect(seen.map { $0[1] } == ["-", "al", "al", "al"])
    #expect(!seen.contains { $0[4].contains("ZXZpbDpldmls") })
    proxy.expectNoSecrets()
  }

  @Test func `one answer an exchange, and each refusal has its name`() async throws {
    let scene = try Scene.ofTest()
    let (proxy, apache) = try await stage(
      scene,
      """
      location / { proxy_auth digest basic; proxy_pass http://$APACHE; }
      location /digest/only/ { proxy_auth digest; proxy_pass http://$APACHE/basic/; }
      location /plain/ { proxy_pass http://$APACHE/basic/; }
      """)
    #expect(try await proxy.ask("/digest/page", as: "bob").status == 502)
    try await proxy.daemon.logged("[error]", "upstream-credentials-refused")
    // What was refused is not sent ahead of the next challenge.
    #expect(try await proxy.ask("/digest/page", as: "bob").status == 502)
    let refused = try await apache.seen(4)
    #expect(refused.map { $0[0] } == ["401", "401", "401", "401"])
    #expect(refused.map { $0[4] == "-" } == [true, false, true, false])
    #expect(try await proxy.ask("/digest/only/page").status == 502)
    try await proxy.daemon.logged("[error]", "no-acceptable-scheme")
    #expect(try await proxy.ask("/digest/page", as: "carol").status == 403)
    try await proxy.daemon.logged("[error]", "no line of \"users\" is for this client")
    let plain = try await proxy.ask("/plain/page", ["-u", "al:geheim-über dem:Berg"])
    #expect(plain.status == 200 && plain.text == "basic", "without proxy_auth the client's own goes on")
    #expect(try await apache.seen(6).count == 6, "for carol nothing was sent")
    #expect(try await proxy.ask("/plain/page")["WWW-Authenticate"] != nil)
    proxy.expectNoSecrets()
  }

  @Test func `credentials stay unsent where another host, port or realm asks for Basic`() async throws {
    let scene = try Scene.ofTest()
    let (proxy, apache) = try await stage(
      scene,
      """
      proxy_auth basic;
      location /host/ { proxy_auth_space http://127.0.0.2:$PORT; proxy_pass http://$APACHE/basic/; }
      location /port/ { proxy_auth_space http://127.0.0.1:9; proxy_pass http://$APACHE/basic/; }
      location /scheme/ { proxy_auth_space https://$APACHE; proxy_pass http://$APACHE/basic/; }
      location /realm/ { proxy_auth_space http://$APACHE realm="another"; proxy_pass http://$APACHE/basic/; }
      location /right/ { proxy_auth_space http://$APACHE realm="a realm"; proxy_pass http://$APACHE/basic/; }
      location /group/ { proxy_auth_space http://legacy; proxy_pass http://legacy/basic/; }
      """.replacing("$PORT", with: "18080"), http: "upstream legacy { server $APACHE; }")
    for path in ["host", "port", "scheme", "realm"] {
      // What is remembered of the same server is not shown either.
      #expect(try await proxy.ask("/right/page").text == "basic")
      let before = try await apache.seen(1).count
      #expect(try await proxy.ask("/\(path)/page").status == 502)
      _ = try await apache.seen(before + 1)
    }
    #expect(try await proxy.ask("/group/page").text == "basic")
    let all = try await apache.seen(11)
    #expect(all.map { $0[0] } == ["401", "200", "401", "200", "401", "200", "401", "200", "401", "401", "200"])
    #expect(all.allSatisfy { ($0[0] == "401") == ($0[4] == "-") })
    try await proxy.daemon.logged("[error]", "challenge-outside-space")
  }

  @Test(.ofHTTP1) func `ten thousand requests, one 401`() async throws {
    let scene = try Scene.ofTest(), count = max(1, Int(10_000 * Load.scale))
    let (proxy, apache) = try await stage(scene, "proxy_auth digest; location / { proxy_pass http://$APACHE; }")
    let result = try await scene.python(
      .many, "\(proxy.port)", scene.folder, "alice", "/digest/page", "\(count)", "4", within: .seconds(120))
    #expect(result.text.hasPrefix("0 "), "\(result.everything)")
    let seen = try await apache.seen(count + 1)
    #expect(seen.count == count + 1 && seen.filter { $0[0] == "401" }.count == 1)
    let counts = seen.compactMap { $0[4].firstMatch(of: /nc=([0-9a-f]{8})/).map { String($0.1) } }
    #expect(counts.count == count && Set(counts).count == count)
  }

  @Test func `a nonce that got stale is answered once more, and nobody sees it`() async throws {
    let scene = try Scene.ofTest()
    let (proxy, apache) = try await stage(scene, "proxy_auth digest; location / { proxy_pass http://$APACHE; }")
    #expect(try await proxy.ask("/digest/page").status == 200)
    // Apache knows a nonce by a secret of its process, and calls another's stale.
    try await apache.stop()
    let another = try await ApacheUpstream.start(scene, name: "another", port: apache.port, accounts: accounts)
    for _ in 0..<2 { #expect(try await proxy.ask("/digest/page").status == 200) }
    let seen = try await another.seen(3)
    #expect(seen.map { $0[0] } == ["401", "200", "200"])
    #expect(seen[0][4].contains("nc=00000002") && seen[1][4].contains("nc=00000001"))
  }

  @Test func `nothing is remembered with none, and a folder remembers across processes`() async throws {
    let scene = try Scene.ofTest()
    let (proxy, apache) = try await stage(
      scene,
      """
      proxy_auth digest;
      location / { proxy_auth_persistence permanent; proxy_auth_state state; proxy_pass http://$APACHE; }
      location /none/ { proxy_auth_persistence none; proxy_pass http://$APACHE/digest/; }
      """)
    for _ in 0..<2 { #expect(try await proxy.ask("/none/page").status == 200) }
    #expect(try await apache.seen(4).map { $0[0] } == ["401", "200", "401", "200"])
    #expect(try await proxy.ask("/digest/page").status == 200)
    try await until("the state to be written") { !scene.text("state/challenges").isEmpty }
    #expect(!scene.text("state/challenges").contains("geheim"))
    #expect(
      try await scene.succeed("stat", "-c", "%a", scene.path("state"), scene.path("state/challenges")) == "700\n600")
    proxy.daemon.signal(SIGKILL)
    _ = try await proxy.daemon.process.ended()
    try await scene.succeed("rm", scene.path("sallyport.pid"))
    let again = try await Sallyport.start(scene, scene.text("sallyport.conf"))
    #expect(try await proxy.ask("/digest/page").status == 200)
    #expect(try await apache.seen(7).map { $0[0] }.suffix(3) == ["401", "200", "200"])
    again.signal(SIGQUIT)
    _ = try await again.process.ended()
    try scene.write("state/challenges", text: "junk")
    _ = try await Sallyport.start(scene, scene.text("sallyport.conf"))
    #expect(scene.text("error.log").contains("is ignored and will be replaced"))
    #expect(try await proxy.ask("/digest/page").status == 200)
  }

  @Test func `a body is sent with the answer, and a large one waits for the challenge`() async throws {
    let scene = try Scene.ofTest()
    let (proxy, apache) = try await stage(
      scene,
      """
      proxy_auth digest; proxy_auth_persistence none; client_max_body_size 0; client_body_buffer_size 64k;
      location / { proxy_pass http://$APACHE/digest/; }
      location /stream/ { proxy_request_buffering off; proxy_pass http://$APACHE/digest/; }
      """)
    let cases: [(path: String, bytes: Int, first: String)] = [
      ("/page", 1000, "POST"), ("/page", 500_000, "HEAD"), ("/stream/page", 1000, "POST"),
      ("/stream/page", 5_000_000, "HEAD"),
    ]
    var count = 0
    for (path, bytes, first) in cases {
      let result = try await proxy.ask(path, ["-H", "Expect:"], input: [UInt8](repeating: 7, count: bytes))
      #expect(result.status == 200 && result.text == "digest", "\(path) \(bytes)")
      count += 2
      let seen = try await apache.seen(count).suffix(2).map { "\($0[0]) \($0[2])" }
      #expect(seen == ["401 \(first)", "200 POST"], "\(path) \(bytes)")
    }
    #expect(
      try await proxy.ask("/stream/page", ["-H", "Transfer-Encoding: chunked"], input: [1, 2, 3]).status == 200)
  }

  @Test func `the body arrives whole, whatever way it took, and one that is gone is 502`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      try wire.serve { request in
        let isLate = request.target.contains("late") && request.method == "HEAD"
        guard isLate || request.head.contains("Authorization: Basic") else {
          let body = request.target.contains("large") ? [UInt8](repeating: 65, count: 200_000) : [65]
          return try wire.answer(
            bytes: request.method == "HEAD" ? [] : body, status: "401 Who",
            fields: ["WWW-Authenticate: Foo, Basic realm=\"x\"", "Authentication-Info: nextnonce=\"y\""])
        }
        try wire.answer(bytes: request.body)
      }
    }
    let proxy = try await PasswordProxy(
      scene,
      """
      proxy_auth basic; proxy_auth_persistence none; client_max_body_size 0; client_body_buffer_size 16k;
      location / { proxy_pass http://127.0.0.1:\(upstream.port); }
      location /stream/ { proxy_request_buffering off; proxy_pass http://127.0.0.1:\(upstream.port); }
      """)
    for path in ["/", "/large", "/stream/"] {
      for count in [0, 5000, 16_384, 16_385, 900_000] {
        let body = Pattern.bytes(count)
        let result = try await proxy.ask(path, ["-H", "Expect:"], input: body)
        #expect(result.status == 200 && result.body == body, "\(path) \(count)")
      }
    }
    #expect(try await proxy.ask("/stream/late", ["-H", "Expect:"], input: Pattern.bytes(900_000)).status == 502)
    try await proxy.daemon.logged("[error]", "body-not-replayable")
    proxy.expectNoSecrets()
  }

  @Test(arguments: ["basic", "digest"])
  func `a sealed message is opened, sent with the password, and its answer sealed`(scheme: String) async throws {
    let scene = try Scene.ofTest(), cast = try EnvelopeCast(scene)
    let (proxy, apache) = try await stage(
      scene,
      "proxy_auth \(scheme); proxy_auth_persistence none; location / { \(cast.lines()) proxy_pass http://$APACHE; }")
    let sealed = try cast.seal(#"{"x":1}"#)
    let answer = try await proxy.ask("/\(scheme)/page", input: sealed)
    #expect(try answer.status == 200 && cast.openText(answer.body) == scheme)
    #expect(try await apache.seen(2).map { "\($0[0]) \($0[2])" } == ["401 POST", "200 POST"])
    // A challenge that is not answered is no answer to seal.
    let refused = try await proxy.ask("/\(scheme)/page", as: "bob", input: cast.seal("{}"))
    #expect(refused.status == 502 && refused["WWW-Authenticate"] == nil)
    proxy.expectNoSecrets()
  }

  @Test func `a changed user file is taken up, and a broken one is not and shows nothing`() async throws {
    let scene = try Scene.ofTest()
    let (proxy, _) = try await stage(scene, "proxy_auth basic; location / { proxy_pass http://$APACHE; }")
    #expect(try await proxy.ask("/basic/page", as: "bob").status == 502)
    try scene.write("users", text: "cn=bob bo:richtig\n")
    try await until("the new password to be used") { try await proxy.ask("/basic/page", as: "bob").status == 200 }
    #expect(try await proxy.ask("/basic/page").status == 403)
    try scene.write("users", text: "cn=bob bo:richtig\nsehrgeheim\n")
    try await proxy.daemon.logged("[crit]", "NOT in effect", "line 2: no USER:PASSWORD after its SELECTOR")
    #expect(try await proxy.ask("/basic/page", as: "bob").status == 200)
    proxy.expectNoSecrets("sehr", "richtig")
  }

  @Test func `nginx's auth_basic is answered too`() async throws {
    let scene = try Scene.ofTest()
    let port = try scene.port()
    let crypt = try await scene.succeed("openssl", "passwd", "-apr1", "geheim-über dem:Berg")
    try scene.write("htpasswd", text: "al:\(crypt)\n")
    _ = try await NginxUpstream.start(
      scene, ports: [port],
      """
      server { listen 127.0.0.1:\(port); auth_basic "über"; auth_basic_user_file \(scene.path("htpasswd"));
        location / { return 200 "open"; } location /in { try_files /none @in; } location @in { return 200 "$remote_user"; } }
      """)
    let proxy = try await PasswordProxy(
      scene, "proxy_auth basic digest; location / { proxy_pass http://127.0.0.1:\(port); }")
    #expect(try await proxy.ask("/in").text == "al")
  }
}

@Suite(.stagedOverBoth) struct `Upstreams that ask for NTLM` {
  private static let users = """
    cn=alice CORP\\alice:pw-alice
    cn=bob CORP\\bob:pw-bob
    cn=carol CORP\\carol:falsch

    """

  private func stage(_ scene: Scene, keepalive: Bool) async throws -> PasswordProxy {
    let port = try await scene.listening(.ntlm)
    return try await PasswordProxy(
      scene, users: Self.users,
      http: "upstream group { server 127.0.0.1:\(port); \(keepalive ? "keepalive 16;" : "") }",
      "proxy_auth ntlm; client_max_body_size 0; location / { proxy_pass http://group; }")
  }

  @Test(.ofHTTP1, arguments: [true, false])
  func `two users at once, never one under the other's name`(keepalive: Bool) async throws {
    let scene = try Scene.ofTest()
    let proxy = try await stage(scene, keepalive: keepalive)
    let result = try await scene.python(
      .twins, "\(proxy.port)", scene.folder, "1000", "alice", "bob", within: .seconds(120))
    #expect(result.text.hasPrefix("0 "), "\(result.everything)")
    let lines = scene.text("ntlm.out").split(separator: "\n")
    #expect(!lines.contains { $0.contains(" alice ") && $0.contains("/bob/") })
    #expect(!lines.contains { $0.contains(" bob ") && $0.contains("/alice/") })
    // A connection is one user's for its life.
    var users: [Substring: Set<Substring>] = [:]
    for words in lines.map({ $0.split(separator: " ") }) where words.count > 4 && words[4] != "None" {
      users[words[0], default: []].insert(words[4])
    }
    #expect(users.values.allSatisfy { $0.count == 1 })
    if keepalive { #expect(lines.count < 2100) }
    proxy.expectNoSecrets("pw-", "cHct")
  }

  @Test func `a connection that was authenticated is not used for what stands outside of its space`() async throws {
    let scene = try Scene.ofTest()
    let port = try await scene.listening(.ntlm)
    let proxy = try await PasswordProxy(
      scene, users: Self.users, workers: 1, http: "upstream group { server 127.0.0.1:\(port); keepalive 16; }",
      """
      proxy_auth ntlm;
      location / { proxy_pass http://group; }
      location /else/ { proxy_auth_space http://127.0.0.1:9; proxy_pass http://group; }
      """)
    #expect(try await proxy.ask("/x").text == "alice")
    #expect(try await proxy.ask("/else/x").status == 502)
    try await proxy.daemon.logged("[error]", "challenge-outside-space")
  }

  @Test func `over TLS the answer is bound to the channel`() async throws {
    let scene = try Scene.ofTest()
    let authority = try TestAuthority("Upstream")
    try scene.anchors("anchors", authority)
    _ = try scene.identity("ntlm-tls", authority.server(names: ["up.test"]))
    let port = try await scene.listening(.ntlm)
    let proxy = try await PasswordProxy(
      scene, users: Self.users,
      """
      proxy_auth ntlm; proxy_ssl_trusted_certificate anchors.pem; proxy_ssl_name up.test;
      location / { proxy_pass https://127.0.0.1:\(port); }
      """)
    for _ in 0..<2 { #expect(try await proxy.ask("/x").text == "alice") }
  }

  @Test(arguments: [true, false])
  func `the answer is proved, and the body goes with the last message`(isOld: Bool) async throws {
    let scene = try Scene.ofTest()
    if isOld { try scene.write("ntlm-old", text: "") }
    let proxy = try await stage(scene, keepalive: true)
    for count in [10, 3_000_000] {
      let result = try await proxy.ask("/x", ["-H", "Expect:"], input: [UInt8](repeating: 7, count: count))
      #expect(result.status == 200 && result.text == "alice" && result["X-Body"] == "\(count)")
      #expect(result["WWW-Authenticate"] == nil)
    }
    #expect(try await proxy.ask("/x", as: "carol").status == 502)
    try await proxy.daemon.logged("[error]", "upstream-credentials-refused")
  }
}

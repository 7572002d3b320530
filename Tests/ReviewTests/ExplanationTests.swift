@testable import Loading
@testable import Review
import ConfigurationSupport
import TestSupport
import Testing

/// `sallyport check --explain`, of configurations that no process runs: EndToEndTests compare it with the daemon.
@Suite struct `The explanation` {
  /// Explains a request or a connection by a configuration in the scene. Returns the lines, each with single spaces.
  private func explain(
    _ words: String, _ scene: Scene, _ text: String, certificate: String? = nil, from: String? = nil,
    fields: [String] = []
  ) throws -> String {
    let lines = try Explanation(
      of: words, certificate: certificate, from: from, fields: fields,
      configuration: scene.write("x.conf", text: text)
    ).lines
    return lines.map { $0.split(separator: " ").joined(separator: " ") + "\n" }.joined()
  }

  private static let tls = """
    ssl_certificate server.pem; ssl_certificate_key server.key; ssl_client_certificate ca.pem; ssl_verify_client on;
    """

  @Test func `tells which rule decides, by its place, and what the upstream gets`() throws {
    try withScene { scene in
      let authority = try scene.serverFiles()
      _ = try scene.identity("alice", authority.client())
      _ = try scene.identity("bob", authority.client(commonName: "bob"))
      let text = """
        events {}
        http { server {
          listen 127.0.0.1:8099 ssl; server_name a.test; \(Self.tls)
          ssl_client_allow cn=alice;
          ssl_client_deny cn=bob;
          location / {
            deny 10.0.0.0/8;
            allow all;
            proxy_pass https://127.0.0.1:9; proxy_ssl_trusted_certificate ca.pem; proxy_ssl_name up.test;
            proxy_set_header X-DN $ssl_client_s_dn;
            add_header X-Added yes;
          }
        } }
        """
      func explain(as name: String?, from: String? = nil) throws -> String {
        try self.explain(
          "GET https://a.test:8099/x?y=1", scene, text, certificate: name.map { scene.path("\($0).pem") }, from: from)
      }
      let conf = scene.path("x.conf")
      let alice = try explain(as: "alice")
      for line in [
        "listener 127.0.0.1:8099 ssl \(conf):3:", "server a.test \(conf):2:8 its server_name is the Host \"a.test\"",
        "client CN=alice,O=Example \\+ Sons,C=SE: verified by the CA CN=Test Root",
        "location / \(conf):6:3 is the longest prefix of \"/x\"",
        "rule ssl_client_allow cn=alice \(conf):4:3 admits the client",
        "rule allow all \(conf):8:5 decides on 127.0.0.1",
        "upstream https://127.0.0.1:9: one of 127.0.0.1:9", "name must be up.test", "anchor CN=Test Root",
        "sends GET /x?y=1 HTTP/1.1", "field X-DN: CN=alice", "field X-Added: yes",
      ] { #expect(alice.contains(line), "\(line) in \(alice)") }
      let far = try explain(as: "alice", from: "10.1.2.3")
      #expect(far.contains("rule deny 10.0.0.0/8 \(conf):7:5 decides on 10.1.2.3"), "\(far)")
      #expect(far.contains("status 403") && !far.contains("upstream "), "\(far)")
      let denied = try explain(as: "bob")
      #expect(denied.contains("log access forbidden by rule at \(conf):5:3: ssl_client_deny cn=bob"), "\(denied)")
      let nobody = try explain(as: nil)
      #expect(nobody.contains("client shows no certificate (ssl_verify_client on)\n"), "\(nobody)")
      #expect(nobody.contains("status 400"), "\(nobody)")
    }
  }

  @Test func `names the file of the passwords that it takes as right`() throws {
    try withScene { scene in
      try scene.write("users", text: "alice:{PLAIN}x\n")
      for (path, file) in [("fixed", "users"), ("named", "the file that the request names")] {
        let told = try explain(
          "http://127.0.0.1:8099/\(path)", scene,
          """
          events {} http { server { listen 127.0.0.1:8099; auth_basic s; auth_basic_user_file users;
            location /named { auth_basic_user_file per/$arg_a; proxy_pass http://127.0.0.1:9; }
            location /fixed { proxy_pass http://127.0.0.1:9; } } }
          """, fields: ["Authorization: Basic YWxpY2U6eA=="])
        #expect(told.contains(" \(file) for the password of \"alice\"; taken as right"), "\(told)")
      }
    }
  }

  @Test(arguments: [
    ("fixed", "one of 127.0.0.1:1, 127.0.0.1:2 backup"), ("mixed", "one of 127.0.0.1:3, and those of DNS"),
    ("named", "its servers are those of DNS"),
  ])
  func `names the servers of a group with a zone, and says which of them DNS gives`(
    group: String, servers: String
  ) throws {
    try withScene { scene in
      let told = try explain(
        "http://127.0.0.1:8099/", scene,
        """
        events {} http { resolver 127.0.0.1:9;
          upstream fixed { zone a 64k; server 127.0.0.1:1; server 127.0.0.1:2 backup; }
          upstream mixed { zone b 64k; server 127.0.0.1:3; server up.test:4 resolve; }
          upstream named { zone c 64k; server up.test:5 resolve; }
          server { listen 127.0.0.1:8099; location / { proxy_pass http://\(group); } } }
        """)
      #expect(told.contains("http://\(group): \(servers)\n"), "\(told)")
    }
  }

  @Test func `names the outer fields that a location's own proxy_set_header keeps from the upstream`() throws {
    try withScene { scene in
      func explain(_ path: String) throws -> String {
        try self.explain(
          "http://127.0.0.1:8099/\(path)", scene,
          """
          events {} http { server { listen 127.0.0.1:8099;
          proxy_set_header X-Client $ssl_client_s_dn;
          proxy_set_header x-own outer;
          location /own { proxy_set_header X-Own $host; proxy_pass http://127.0.0.1:9; }
          location /outer { proxy_pass http://127.0.0.1:9; } } }
          """)
      }
      let own = try explain("own"), outer = try explain("outer")
      #expect(own.contains("of which these have no effect here: X-Client (\(scene.path("x.conf")):2:1)\n"), "\(own)")
      #expect(!outer.contains("no effect here") && outer.contains("x-own: outer"), "\(outer)")
    }
  }

  @Test func `says where a connection of stream goes, by the name of a ClientHello that nobody sends`() throws {
    try withScene { scene in
      let text = """
        events {} http { server { listen 127.0.0.1:8099; return 204; } }
        stream {
          upstream app { server 127.0.0.1:1; server 127.0.0.1:2 backup; }
          map $ssl_preread_server_name $backend { a.test app; default 127.0.0.1:1; }
          server { listen 127.0.0.1:8098; ssl_preread on; proxy_pass $backend; }
          server { listen 127.0.0.1:8098; server_name closed.test; deny all; proxy_pass app; }
          server { listen 127.0.0.1:8097; allow 127.0.0.1; deny all; proxy_pass app; }
        }
        """
      let routed = try explain("TCP a.test:8098", scene, text)
      for line in [
        "listener 127.0.0.1:8098 \(scene.path("x.conf")):", "ssl_preread the ClientHello asks for a.test",
        "upstream $backend is app: one of 127.0.0.1:1, 127.0.0.1:2 backup", "connection without TLS (proxy_ssl off)",
      ] { #expect(routed.contains(line), "\(line) in \(routed)") }
      let denied = try explain("TCP closed.test:8098", scene, text)
      #expect(denied.contains("its server_name is the name \"closed.test\"") && denied.contains("refused-address"))
      #expect(try explain("TCP a.test:8097", scene, text, from: "10.1.2.3").contains("refused-address"))
    }
  }

  @Test(arguments: [
    ("GET https://a.test:1/", "no listener has port 1:"),
    ("GET https://a.test:8099/", "no listener has port 8099 with TLS"),
    ("GET http://a.test:8098/", "no listener has port 8098 in http"),
    ("TCP a.test:8099", "no listener has port 8099 in stream"), ("TCP a.test", "it must be HOST:PORT"),
    ("GET ftp://a.test/", "must begin with https:// or http://"), ("a b c", "it must be METHOD URL"),
    ("get https://a.test/", "\"get\" is not a method"),
    ("GET https://a.test:99999/", "there is no host that can be read"),
  ])
  func `refuses what is no request, and says why`(words: String, reason: String) { refuses(words, reason) }

  @Test func `refuses words beside the request, and says why`() throws {
    let get = "GET https://a.test/", connection = "TCP a.test:8098"
    refuses(get, from: "here", "it must be an IPv4 or IPv6 address")
    refuses(get, fields: ["x"], "it must be NAME: VALUE")
    refuses(get, certificate: "missing.pem", "--cert: ")
    refuses(connection, fields: ["A: b"], "--header belongs to a request")
    try withScene { scene in
      try scene.serverFiles()
      refuses(connection, certificate: scene.path("ca.pem"), "this listener has no TLS")
    }
  }

  private func refuses(
    _ words: String, certificate: String? = nil, from: String? = nil, fields: [String] = [], _ reason: String
  ) {
    let refusal = #expect(throws: Explanation.Refusal.self) {
      try withScene { scene in
        try explain(
          words, scene,
          """
          events {} http { server { listen 127.0.0.1:8099; return 200 x; } }
          stream { server { listen 127.0.0.1:8098; proxy_pass 127.0.0.1:9; } }
          """, certificate: certificate, from: from, fields: fields)
      }
    }
    #expect(refusal?.text.contains(reason) == true, "\(words): \(refusal?.text ?? "")")
  }
}

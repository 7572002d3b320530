import ConfigurationSupport
import Language
import Observability
import TestSupport
import Testing

@testable import Review

/// Policy files against configurations that no process runs.
@Suite struct `A policy file` {
  private static func erp(_ admin: String, _ rest: String = "") -> String {
    """
    events {}
    http {
      upstream erp { server 127.0.0.1:9; }
      server {
        listen 127.0.0.1:8443 ssl; server_name erp.test;
        \(Scene.tls)
        ssl_verify_client on;
        proxy_set_header X-DN $ssl_client_s_dn;
        location / { proxy_pass http://erp; }
        location /admin/ {
          \(admin)
          proxy_pass http://erp;
        }
      }
      \(rest)
    }
    """
  }

  private static let policy = """
    who boss { subject CN=boss,O=Example; issuer ca.pem; }
    who joe { cn joe; }
    who nobody;
    allow boss GET https://erp.test:8443/admin/;
    allow joe GET https://erp.test:8443/;
    refuse joe GET https://erp.test:8443/admin/ 403;
    refuse stranger GET https://erp.test:8443/;
    refuse nobody to upstream erp;
    only boss to https://erp.test:8443/admin/;
    never to upstream erp without certificate;
    tells upstream erp X-DN always;
    """

  private func report(
    _ scene: Scene, _ configuration: String, _ policy: String, coverage: Bool = false
  ) throws -> AccessReport {
    try scene.serverFiles()
    let path = try scene.write("x.conf", text: configuration), file = try scene.write("x.policy", text: policy)
    do { return try AccessReport(of: [file], configuration: path, withCoverage: coverage) } catch {
      Issue.record("\(error.text) \(error.diagnostics)")
      throw error
    }
  }

  @Test func `of the page about them can be read`() throws {
    let block = try #require(PageBlock.with("who boss", on: "docs/operating/policy-tests.md"))
    let policy = AccessPolicy(ConfigurationSource("access.policy"), files: memory(["access.policy": block.text]))
    #expect(policy.diagnostics.isEmpty && policy.assertions.count == 7, "\(policy.diagnostics)")
  }

  @Test func `holds of a configuration that keeps it`() throws {
    try withScene { scene in
      let report = try report(scene, Self.erp("ssl_client_allow cn=boss;"), Self.policy)
      #expect(report.isFine && report.lines.count == 1, "\(report.lines)")
      #expect(report.lines[0].hasPrefix("policy \(scene.path("x.policy")): 8 assertions hold, "), "\(report.lines)")
    }
  }

  @Test(arguments: [
    // The rule is gone.
    ("", "", "refuse joe GET https://erp.test:8443/admin/ 403"),
    ("", "", "only boss to https://erp.test:8443/admin/"),
    // Another listener, which asks for no certificate.
    (
      "ssl_client_allow cn=boss;", "server { listen 127.0.0.1:8080; location /x { proxy_pass http://erp; } }",
      "never to upstream erp without certificate"
    ),
    // Another server block of the same listener.
    (
      "ssl_client_allow cn=boss;",
      "server { listen 127.0.0.1:8443 ssl; server_name other.test; \(Scene.tls) location / { proxy_pass http://erp; } }",
      "refuse nobody to upstream erp"
    ),
    // A location that passes on what the client writes.
    (
      "ssl_client_allow cn=boss; proxy_set_header X-Own x;", "", "tells upstream erp X-DN always"
    ),
  ])
  func `fails with a witness where there is another way in`(admin: String, rest: String, assertion: String) throws {
    try withScene { scene in
      let report = try report(scene, Self.erp(admin, rest), Self.policy)
      let line = try #require(report.lines.firstIndex { $0.hasSuffix(assertion) }, "\(report.lines)")
      #expect(!report.isFine && report.lines[line...].contains { $0.contains("witness: ") }, "\(report.lines)")
      #expect(report.lines[line...].contains { $0.contains("decided at \(scene.path("x.conf")):") })
      #expect(report.junit.contains("<failure message=") && report.json.contains("\"holds\":false"))
    }
  }

  @Test func `says of a rule that no assertion misses which one would`() throws {
    try withScene { scene in
      let whole = try report(scene, Self.erp("ssl_client_allow cn=boss;"), Self.policy, coverage: true)
      #expect(whole.isFine, "\(whole.lines)")
      let poor = try report(
        scene, Self.erp("ssl_client_allow cn=boss;"), "who joe { cn joe; } refuse nobody GET https://erp.test:8443/;",
        coverage: true)
      let told = poor.lines.joined(separator: "\n")
      #expect(!poor.isFine && told.contains("ssl_client_allow cn=boss: no assertion fails without it"), "\(told)")
      #expect(told.contains("add: refuse joe GET https://erp.test:8443/admin/"), "\(told)")
    }
  }

  @Test func `of a server of stream names its address`() throws {
    try withScene { scene in
      let report = try report(
        scene,
        """
        events {} stream { upstream db { server 127.0.0.1:5; }
          server { listen 127.0.0.1:5432 ssl; \(Scene.tls) ssl_verify_client on; ssl_client_allow cn=boss; proxy_pass db; } }
        """,
        """
        who boss { cn boss; } who joe { cn joe; }
        allow boss TCP db.test:5432;
        refuse joe TCP db.test:5432;
        only boss to upstream db;
        only boss to TCP db.test:5432;
        """)
      #expect(report.isFine, "\(report.lines)")
    }
  }

  @Test(arguments: ["ssl_client_allow uri=spiffe://example.org/ns/*/job;", ""])
  func `of workloads names their IDs`(rule: String) throws {
    try withScene { scene in
      let report = try report(
        scene,
        """
        events {} http { server { listen 127.0.0.1:8443 ssl; server_name a.test;
          ssl_certificate spiffe:; ssl_client_certificate spiffe:; ssl_verify_client on; \(rule)
          location / { proxy_pass http://127.0.0.1:9; } } }
        """,
        """
        who job { spiffe spiffe://example.org/ns/prod/job; }
        who web { spiffe spiffe://fed.test/web; }
        allow job GET https://a.test:8443/;
        refuse web to upstream 127.0.0.1:9;
        only job to upstream 127.0.0.1:9;
        never to upstream 127.0.0.1:9 without certificate;
        """, coverage: true)
      let told = report.lines.joined(separator: "\n")
      #expect(report.isFine == !rule.isEmpty, "\(told)")
      let draft = AccessDraft(try TrialWorld(.file(scene.path("x.conf"))), configuration: "x.conf").text
      #expect(draft.contains("who other { spiffe spiffe://other.invalid/workload; }"), "\(draft)")
      let drafted = AccessPolicy(.text(draft, name: "draft"))
      #expect(drafted.diagnostics == [] && drafted.assertions.count > 3, "\(drafted.diagnostics)")
      guard rule.isEmpty else { return }
      #expect(told.contains("refuse web to upstream 127.0.0.1:9") && !told.contains("allow job"), "\(told)")
      #expect(told.contains("of the trust domain fed.test") && told.contains("spiffe://example.org/somebody-else"))
    }
  }

  @Test func `takes what nobody can say for no refusal`() throws {
    try withScene { scene in
      let report = try report(
        scene,
        """
        events {} http { server { listen 127.0.0.1:8443 ssl; server_name a.test; ssl_certificate spiffe:;
          ssl_client_certificate spiffe:; ssl_verify_client on; return 200 x; } }
        """,
        """
        who file { certificate server.pem; }
        refuse file GET https://a.test:8443/;
        """)
      #expect(!report.isFine && report.lines.contains { $0.contains("nobody can say: ") }, "\(report.lines)")
    }
  }

  @Test func `names who is asked before it takes an answer`() throws {
    try withScene { scene in
      try scene.write("users", text: "alice:{PLAIN}x\n")
      let report = try report(
        scene,
        """
        events {} http { server { listen 127.0.0.1:8080; auth_basic s; auth_basic_user_file users;
          location / { return 200 x; } location /pass { proxy_pass http://127.0.0.1:9; } } }
        """,
        """
        who alice { user alice; }
        allow alice GET http://a.test:8080/pass asked;
        allow alice GET http://a.test:8080/pass;
        never to upstream 127.0.0.1:9 unless asked;
        never to upstream 127.0.0.1:9;
        """)
      let told = report.lines.joined(separator: "\n")
      #expect(told.contains("2 of 4 assertions fail") && told.contains("write \"asked\""), "\(told)")
    }
  }

  @Test(arguments: [
    ("allow boss GET https://a.test/;", "nobody says who \"boss\" is"),
    ("alow nobody GET https://a.test/;", "did you mean \"allow\"?"),
    ("who boss { cn boss; } who boss { cn b; } allow boss GET https://a.test/;", "described twice"),
    ("who boss; allow boss GET https://a.test/;", "nothing is said"),
    ("who boss { cm boss; } allow boss GET https://a.test/;", "did you mean \"cn\"?"),
    ("who boss { cn a; ca none; issuer x; } allow boss GET https://a.test/;", "both say who has issued"),
    ("who job { spiffe example.org/job; } allow job GET https://a.test/;", "is no SPIFFE ID"),
    ("who job { spiffe spiffe://example.org; } allow job GET https://a.test/;", "not of a workload"),
    ("who job { spiffe spiffe://a/b; ca none; } allow job GET https://a.test/;", "both say who has issued"),
    ("who boss { subject boss; } allow boss GET https://a.test/;", "is no name such as"),
    ("allow nobody GET ftp://a.test/;", "must begin with https:// or http://"),
    ("allow nobody GET https://a.test/ 99;", "is not a status"),
    ("refuse nobody GET https://a.test/ asked;", "is not expected here"),
    ("allow nobody GET https://a.test/ form=1.2.3.4;", "unknown option"),
    ("never from upstream erp;", "\"from\" stands where \"to\" is expected"),
    ("tells upstream erp X-DN;", "can't be read"),
    ("", "asserts nothing"),
    ("allow nobody GET https://a.test/", "unexpected end of file"),
  ])
  func `that can't be read is refused with the reason and its place`(text: String, reason: String) {
    let policy = AccessPolicy(.text(text, name: "x.policy"))
    let told = policy.diagnostics.map(\.description).joined(separator: "\n")
    #expect(told.contains(reason), "\(told)")
  }

  @Test(arguments: [
    ("who boss { cn boss; issuer other.pem; } allow boss GET https://erp.test:8443/;", "trusts no CA \"other.pem\""),
    (
      "who job { spiffe spiffe://example.org/job; } allow job GET https://erp.test:8443/;",
      "trusts no CA \"spiffe://example.org\""
    ),
    ("allow nobody GET https://erp.test/;", "no listener with TLS has port 443"),
    ("never to upstream erb;", "has no upstream \"erb\"; it has erp"),
    ("who boss { cn boss; pin sha256//x; } allow boss GET https://erp.test:8443/;", "doesn't pin"),
    ("only stranger to https://erp.test:8443/;", "stranger doesn't get there itself"),
  ])
  func `fails where it names what the configuration doesn't have`(text: String, reason: String) throws {
    try withScene { scene in
      let told = try report(scene, Self.erp(""), text).lines.joined(separator: "\n")
      #expect(told.contains(reason), "\(told)")
    }
  }

  @Test func `drafted of a configuration holds of it`() throws {
    try withScene { scene in
      try scene.serverFiles()
      let configuration = Self.erp("ssl_client_allow cn=boss;")
      let path = try scene.write("x.conf", text: configuration)
      let draft = AccessDraft(try TrialWorld(.file(path)), configuration: path).text
      #expect(draft.contains("never to upstream erp without certificate;"), "\(draft)")
      #expect(draft.contains("allow boss GET https://erp.test:8443/admin/;"), "\(draft)")
      let report = try report(scene, configuration, draft)
      #expect(report.isFine, "\(report.lines)\n\(draft)")
      // Each client once for what a location makes of it, and once for the names that nobody has.
      let lines = draft.split(separator: "\n").filter { $0.contains(" boss GET ") }
      #expect(lines.count { $0.contains("unknown.invalid") } <= 1, "\(draft)")
      #expect(lines.count { $0.contains("/admin/") } == 1, "\(draft)")
    }
  }

  @Test func `of a drafted policy, a plain listener is asserted for those who can show nothing`() throws {
    try withScene { scene in
      try scene.serverFiles()
      let text = Self.erp("ssl_client_allow cn=boss;").replacing(
        "http {", with: "http { server { listen 127.0.0.1:8081; return 200; }", maxReplacements: 1)
      let path = try scene.write("x.conf", text: text)
      let draft = AccessDraft(try TrialWorld(.file(path)), configuration: path).text
      let plain = draft.split(separator: "\n").filter { $0.contains(" http://") }
      #expect(!plain.isEmpty && plain.allSatisfy { $0.contains(" nobody ") }, "\(draft)")
    }
  }
}

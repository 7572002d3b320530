@testable import Loading
@testable import Review
import ConfigurationSupport
import Traffic
import Forward
import Features
import Crypto
import Observability
import TestSupport
import Testing

@Suite struct CheckTests {
  @Test func `the policy says who gets in and whom the proxy trusts`() throws {
    try withScene { scene in
      try scene.serverFiles()
      let pin = "sha256//47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
      let path = try scene.write(
        "test.conf",
        text: """
          events {}
          http { server { listen 127.0.0.1:8443 ssl; server_name a.example *.b.example;
          ssl_certificate server.pem; ssl_certificate_key server.key;
          ssl_client_certificate ca.pem; ssl_verify_client on; ssl_verify_depth 2;
          location /api/ { proxy_pass https://127.0.0.1:9443; proxy_ssl_trusted_certificate ca.pem;
          proxy_ssl_name up.example; proxy_ssl_pin \(pin); }
          ssl_verify_reject handshake; client_identity rfc9440; ssl_client_allow cn=alice ou=dev; ssl_client_deny cn=eve;
          location /told/ { proxy_pass http://127.0.0.1:9443; client_identity xfcc; ssl_client_deny cn=bob; }
          location /open/ { proxy_pass https://127.0.0.1:9443; proxy_ssl_verify off; } } }
          """)
      let check = Check(path)
      #expect(check.count(.error) == 0, "\(check.diagnostics)")
      let lines = check.policy.map { $0.split(separator: " ").joined(separator: " ") }
      #expect(lines.first?.hasPrefix("server a.example *.b.example ") == true)
      for expected in [
        "listen 127.0.0.1:8443 ssl", "clients only with a certificate of these CAs (ssl_verify_client on)", "depth 2",
        "location /api/", "upstream https://127.0.0.1:9443", "chain must verify, depth 1", "name must be up.example",
        "pin \(pin)", "refused by a TLS alert (ssl_verify_reject handshake)", "deny all others", "location /told/",
        "client fields Client-Cert, Client-Cert-Chain (RFC 9440)", "client fields X-Forwarded-Client-Cert (Envoy)",
        "location /open/", "chain NOT verified", "name NOT checked", "pin none",
      ] { #expect(lines.contains(expected), "\(expected) in \(lines)") }
      for rule in ["allow cn=alice ou=dev ", "deny cn=eve ", "deny cn=bob "] {
        #expect(lines.contains { $0.hasPrefix(rule + scene.path("test.conf") + ":") }, "\(rule) in \(lines)")
      }
      #expect(lines.contains { $0.hasPrefix("certificate CN=localhost (localhost, 127.0.0.1), until ") })
      #expect(lines.contains { $0.hasPrefix("CA CN=Test Root, until ") })
      #expect(lines.contains { $0.hasPrefix("anchor CN=Test Root, until ") })
    }
  }

  @Test func `the policy names the doors to an upstream that need no certificate`() throws {
    try withScene { scene in
      try scene.serverFiles()
      let tls = Scene.tls
      func doors(_ servers: String, _ rest: String = "") throws -> [String] {
        let path = try scene.write(
          "test.conf",
          text: "events {} http { upstream erp { server 127.0.0.1:9000; server 10.0.0.1:9000; } \(servers) } \(rest)")
        let check = Check(path)
        #expect(check.count(.error) == 0, "\(check.diagnostics)")
        return check.policy.filter { $0.contains("without a certificate") || $0.contains("told who") }
      }
      let mutual = """
        server { listen 127.0.0.1:8443 ssl; \(tls) ssl_verify_client on; location / { proxy_pass http://erp;
          proxy_set_header X-Client-DN $ssl_client_s_dn; } }
        """
      func plain(_ lines: String, port: Int = 8080) -> String {
        "server { listen 127.0.0.1:\(port); location / { \(lines) } }"
      }
      let told = "  it is told who a client is in X-Client-DN: no client's own field goes there"
      #expect(try doors(mutual) == [])
      #expect(try doors(plain("proxy_pass http://erp;")) == [])
      #expect(
        try doors(mutual + plain("proxy_pass http://erp;")) == [
          "upstream erp is reached without a certificate by 127.0.0.1:8080", told,
        ])
      #expect(
        try doors(mutual + plain("proxy_pass http://10.0.0.1:9000;")) == [
          "upstream erp is reached without a certificate by 127.0.0.1:8080", told,
          "upstream 10.0.0.1:9000 is reached without a certificate by 127.0.0.1:8080", told,
        ])
      #expect(try doors(mutual + plain("proxy_pass http://127.0.0.1:9001;")).count == 1)
      #expect(
        try doors(mutual + plain("proxy_pass http://$host;")) == [
          "upstream erp is reached without a certificate by 127.0.0.1:8080 (if its variables name it)", told,
        ])
      let optional = """
        server { listen 127.0.0.1:8443 ssl; server_name b.example; \(tls) ssl_verify_client optional;
          location / { proxy_pass http://erp; } location /in/ { proxy_pass http://10.0.0.2; ssl_client_allow cn=a; } }
        """
      #expect(
        try doors(mutual + optional) == [
          "upstream erp is reached without a certificate by 127.0.0.1:8443 (b.example)", told,
        ])
      #expect(
        try doors(mutual, "stream { server { listen 127.0.0.1:8081; proxy_pass 127.0.0.1:9000; } }") == [
          "upstream erp is reached without a certificate by 127.0.0.1:8081 (stream)", told,
          "upstream 127.0.0.1:9000 is reached without a certificate by 127.0.0.1:8081 (stream)", told,
        ])
    }
  }

  @Test func `the policy names the locations between which other readings of a path count`() throws {
    try withScene { scene in
      func lines(_ locations: String) throws -> [String] {
        let path = try scene.write(
          "test.conf", text: "events {} http { server { listen 127.0.0.1:8080; \(locations) } }")
        let check = Check(path)
        #expect(check.count(.error) == 0, "\(check.diagnostics)")
        return check.policy.filter { $0.contains("path readings") }.map { $0.trimmingPrefix { $0 == " " }.description }
      }
      let pass = "proxy_pass http://127.0.0.1:9;"
      let admin = "location /admin/ { \(pass) deny all; }"
      let both = try lines("location / { \(pass) } location /shop/ { \(pass) } \(admin)")
      #expect(
        both == ["path readings   a path in /, /shop/ that can be read as one in /admin/ needs its admission, too"])
      let open = try lines("location / { \(pass) } location /admin/ { \(pass) }")
      #expect(open == [])
      let off = try lines("path_readings off; location / { \(pass) } \(admin)")
      #expect(off == [])
      let one = try lines("location / { \(pass) } location /a/ { \(pass) path_readings off; } \(admin)")
      #expect(one == ["path readings   a path in / that can be read as one in /admin/ needs its admission, too"])
    }
  }

  @Test func `the policy says whose word about certificates is taken, and that the front has seen the proof`() throws {
    try withScene { scene in
      try scene.serverFiles()
      let fronts = "real_client_cert_from 10.0.0.0/8; real_client_cert_header X-C pem;"
      let path = try scene.write(
        "test.conf",
        text: """
          events {}
          http { ssl_client_certificate ca.pem; ssl_verify_client on; ssl_verify_depth 3;
          server { listen 127.0.0.1:8443 ssl; ssl_certificate server.pem; ssl_certificate_key server.key; \(fronts)
          real_client_cert_from dns=lb.example; return 204; }
          server { listen 127.0.0.1:8080; \(fronts) return 204; } }
          """)
      let check = Check(path)
      #expect(check.count(.error) == 0, "\(check.diagnostics)")
      let lines = check.policy.map { $0.split(separator: " ").joined(separator: " ") }
      for (expected, count) in [
        ("fronts 10.0.0.0/8, dns=lb.example (real_client_cert_from)", 1),
        ("fronts 10.0.0.0/8 (real_client_cert_from)", 1), ("depth 3", 2),
        ("they send the client's certificate in X-C (pem), judged as above;", 2),
        ("the front, and NOT sallyport, has seen the proof of its key", 2),
        ("clients only with a certificate of these CAs (ssl_verify_client on)", 2),
        ("others are clients without a certificate", 1),
      ] { #expect(lines.count { $0 == expected } == count, "\(expected) in \(lines)") }
      #expect(lines.count { $0.hasPrefix("CA CN=Test Root, until ") } == 2)
      #expect(check.diagnostics.map(\.message).contains { $0.hasPrefix("clients' certificates come without TLS") })
    }
  }

  @Test func `the policy says of stream who gets in, how TLS begins, and where connections go`() throws {
    try withScene { scene in
      try scene.serverFiles()
      let path = try scene.write(
        "test.conf",
        text: """
          events {}
          stream {
          upstream db { server 127.0.0.1:5432; server 127.0.0.1:5433 backup; }
          map $ssl_preread_server_name $backend { default db; }
          server { listen 127.0.0.1:6432 ssl proxy_protocol; server_name db.example; starttls postgres;
          set_real_ip_from 10.0.0.1; allow 10.0.0.0/8; deny all;
          ssl_certificate server.pem; ssl_certificate_key server.key; ssl_client_certificate ca.pem;
          ssl_verify_client on; ssl_client_allow cn=alice; connection_max_time 12h;
          proxy_pass db; proxy_ssl on; proxy_starttls postgres; proxy_ssl_trusted_certificate ca.pem;
          proxy_ssl_name db.internal; proxy_protocol v2; }
          server { listen 127.0.0.1:6433; ssl_preread on; proxy_pass $backend; }
          server { listen 127.0.0.1:6434; return "$remote_addr\n"; }
          server { listen 127.0.0.1:6435; connection_max_time 90s; pass 127.0.0.1:6434; } }
          """)
      let check = Check(path)
      #expect(check.count(.error) == 0, "\(check.diagnostics)")
      let lines = check.policy.map { $0.split(separator: " ").joined(separator: " ") }
      for expected in [
        "listen 127.0.0.1:6432 ssl proxy_protocol",
        "client address that of the PROXY header, from 10.0.0.1 (set_real_ip_from)",
        "addresses allow 10.0.0.0/8, deny all",
        "starttls clients ask for TLS in the words of postgres; nobody goes on without it",
        "ALPN postgresql, if a client offers any", "refused by a TLS alert",
        "clients only with a certificate of these CAs (ssl_verify_client on)", "deny all others",
        "lifetime 12 h at most (connection_max_time)", "upstream db: 127.0.0.1:5432, 127.0.0.1:5433 (backup)",
        "connection TLS, asked for in the words of postgres (proxy_starttls)",
        "tells the upstream who the client is, by a PROXY header (version 2)", "name must be db.internal",
        "clients anybody, without TLS here",
        "ssl_preread the name of a ClientHello selects the server block; nothing of it is verified",
        "upstream $backend", "connection without TLS (proxy_ssl off)", "content returns \"$remote_addr\\x0A\"",
        "lifetime 90 s at most (connection_max_time)", "content passes to the listener 127.0.0.1:6434",
      ] { #expect(lines.contains(expected), "\(expected) in \(lines)") }
      #expect(lines.contains { $0.hasPrefix("stream server db.example ") })
      #expect(lines.contains { $0.hasPrefix("anchor CN=Test Root, until ") })
      #expect(!lines.contains { $0.hasPrefix("location") || $0.contains("http") })
    }
  }

  @Test func `the policy says how servers are checked`() throws {
    try withScene { scene in
      let path = try scene.write(
        "test.conf",
        text: """
          events {}
          http { match m { status 200; } upstream u { server 127.0.0.1:1; }
          server { listen 127.0.0.1:8080;
          location /a { proxy_pass http://u; health_check; }
          location /b { proxy_pass http://u; health_check interval=500ms fails=2 passes=3 uri=/x match=m port=7 mandatory; }
          location /c { grpc_pass grpc://u; health_check type=grpc; }
          location /d { grpc_pass grpc://u; health_check type=grpc grpc_service=a.B grpc_status=12; } } }
          """)
      let check = Check(path)
      #expect(check.count(.error) == 0, "\(check.diagnostics)")
      let lines = check.policy.map { $0.split(separator: " ").joined(separator: " ") }.filter { $0.hasPrefix("health") }
      #expect(
        lines == [
          "health GET /, every 5 s; down after failures: 1, up after passes: 1",
          "health GET /x, judged by a match block at port 7, every 500 ms; down after failures: 2, up after passes: 3, down until the first pass",
          "health gRPC health of the server, every 5 s; down after failures: 1, up after passes: 1",
          "health gRPC health of a.B, or status 12, every 5 s; down after failures: 1, up after passes: 1",
        ])
    }
  }

  @Test func `the policy says what is pinned, what is excused and what is only reported`() throws {
    try withScene { scene in
      let authority = try scene.serverFiles()
      let leaf = try authority.server()
      try scene.write("leaf.pem", text: leaf.certificate.pem)
      let key = "sha256//47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
      let path = try scene.write(
        "test.conf",
        text: """
          events {}
          http { server { listen 127.0.0.1:8080; proxy_ssl_trusted_certificate ca.pem; proxy_ssl_name up.example;
          location /allowed { proxy_pass https://127.0.0.1:1; proxy_ssl_pin \(key); proxy_ssl_allow_invalid on; }
          location /chain { proxy_pass https://127.0.0.1:1; proxy_ssl_pin chain \(key); proxy_ssl_pin_report_only on; }
          location /file { proxy_pass https://127.0.0.1:1; proxy_ssl_pinning certificate; proxy_ssl_pin leaf.pem;
          proxy_ssl_certificate $host.pem; proxy_ssl_certificate_key $host.key; }
          } server { listen 127.0.0.1:8081;
          location / { proxy_pass https://127.0.0.1:1; proxy_ssl_pin \(key); proxy_ssl_verify off; } } }
          """)
      let check = Check(path)
      #expect(check.count(.error) == 0, "\(check.diagnostics)")
      let lines = check.policy.map { $0.split(separator: " ").joined(separator: " ") }
      for expected in [
        "chain need NOT verify where a pin matches (proxy_ssl_allow_invalid on)",
        "pinned the upstream's own key, whatever its chain", "pin \(key)", "pin chain \(key)",
        "pinned a mismatch is only REPORTED (proxy_ssl_pin_report_only on)",
        "pinned a certificate of the verified chain, byte for byte", "chain NOT verified", "name NOT checked",
        "pin \(Pin.spelling(certificateDigest: leaf.certificate.sha256))",
        "anchor the pinned \(leaf.certificate.summary)",
        "presents what $host.pem names, loaded when a request needs it; 502 without it",
      ] { #expect(lines.contains(expected), "\(expected) in \(lines)") }
      #expect(!lines.contains { $0.hasPrefix("WARNING") })
    }
  }

  @Test func `the policy says what is taken by default, and warns of whom nobody knows`() throws {
    try withScene { scene in
      let authority = try scene.serverFiles()
      try scene.write("other.pem", text: TestAuthority("Other").root.certificate.pem)
      try scene.write("crl.pem", text: RevocationListBuilder(revoking: []).pem(signedBy: authority.root))
      let key = "sha256//47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
      let path = try scene.write(
        "test.conf",
        text: """
          events {}
          http { ssl_certificate server.pem; ssl_certificate_key server.key;
          upstream group { server 127.0.0.1:1; server 127.0.0.1:2 backup; server 127.0.0.1:9 down; }
          server { listen 127.0.0.1:8443 ssl; ssl_client_certificate ca.pem; ssl_trusted_certificate other.pem;
          ssl_verify_client optional; ssl_crl crl.pem; ssl_client_deny cn=eve;
          location /group { proxy_pass https://group; proxy_ssl_trusted_certificate ca.pem; proxy_ssl_trust_system on;
          proxy_ssl_name up.example; proxy_ssl_crl crl.pem; proxy_ssl_pin \(key);
          proxy_ssl_certificate server.pem; proxy_ssl_certificate_key server.key; }
          location /plain { proxy_pass http://127.0.0.1:3; }
          location /host { proxy_pass https://$host; proxy_ssl_verify off; }
          location /any { proxy_pass https://127.0.0.1:4; proxy_ssl_verify off; } }
          server { listen 127.0.0.1:8443 ssl; server_name closed.example; ssl_reject_handshake on; }
          server { listen 127.0.0.1:8444 ssl; ssl_verify_client optional_no_ca; return 204; }
          server { listen 127.0.0.1:8446 ssl; return 204; }
          server { listen 127.0.0.1:8445; http2 on; location /g { grpc_pass 127.0.0.1:5; }
          location /2 { proxy_pass http://127.0.0.1:6; proxy_http_version 2; } } }
          """)
      let check = Check(path)
      #expect(check.count(.error) == 0, "\(check.diagnostics)")
      let lines = check.policy.map { $0.split(separator: " ").joined(separator: " ") }
      for expected in [
        "listen 127.0.0.1:8443 ssl default_server", "listen 127.0.0.1:8443 ssl", "listen 127.0.0.1:8444 ssl",
        "clients with a certificate of these CAs, or with none (ssl_verify_client optional)",
        "CA \(authority.root.certificate.summary)", "allow all others",
        "upstream https://group: 127.0.0.1:1, 127.0.0.1:2 (backup), 127.0.0.1:9 (down)",
        "anchor \(authority.root.certificate.summary)",
        "anchor those of the system", "pinned the upstream's key; for a chain pin any key of the verified chain",
        "upstream http://127.0.0.1:3", "upstream https://$host", "listen 127.0.0.1:8445 http2",
        "upstream http://127.0.0.1:5, HTTP/2", "upstream http://127.0.0.1:6, HTTP/2",
        "WARNING the upstream is not authenticated: an attacker on the path can take its place",
        "handshake rejected (ssl_reject_handshake)",
        "clients anybody: no certificate is asked for (ssl_verify_client off)",
        "clients anybody; a certificate is asked for but NOT judged (ssl_verify_client optional_no_ca)",
      ] { #expect(lines.contains(expected), "\(expected) in \(lines)") }
      // What is plain HTTP says so by its scheme, and a server that lets nobody in judges nobody.
      #expect(!lines.contains { $0.hasPrefix("TLS ") })
      #expect(lines.count { $0.hasPrefix("clients ") } == 3)
      #expect(lines.contains { $0.hasPrefix("server (no name) \(path):4:") })
      #expect(lines.contains { $0.hasPrefix("CA, not named CN=Other Root, until ") })
      #expect(lines.contains { $0.hasPrefix("presents CN=localhost (localhost, 127.0.0.1), until ") })
      #expect(lines.count { $0.hasPrefix("CRL CN=Test Root, 0 revoked, until ") } == 2)
    }
  }

  @Test func `names that are not known here and missing files are errors, and files alone are judged without names`()
    throws
  {
    try withScene { scene in
      let path = try scene.write(
        "test.conf",
        text: """
          events {}
          http { server { listen 1 ssl; ssl_certificate missing.pem; ssl_certificate_key missing.key;
          location / { proxy_pass http://no-such-host.invalid; } } }
          """)
      let check = Check(path)
      #expect(check.diagnostics.contains { $0.severity == .error && $0.message.contains("missing.pem") })
      #expect(check.diagnostics.contains { $0.severity == .error && $0.message.contains("no-such-host.invalid") })
      #expect(!check.policy.isEmpty)
      #expect(Check(path, .files).count(.error) == 1)
    }
  }

  @Test func `faults of the language and of the files it names are told together, by check and by a start`() throws {
    try withScene { scene in
      try scene.serverFiles()
      let path = try scene.write(
        "test.conf",
        text: """
          events {}
          http { keepalive_timeout never;
          server { listen 1 ssl; ssl_certificate missing.pem; ssl_certificate_key missing.key;
          ssl_client_certificate ca.pem; ssl_verify_client on; ssl_verify_depth many;
          location / { proxy_pass https://127.0.0.1:2; proxy_ssl_pin sha256//short;
          proxy_ssl_trusted_certificate none.pem; } } }
          """)
      let told = Check(path).diagnostics.filter { $0.severity == .error }.map { $0.short(in: scene) }
      for fault in [
        "2: error: ", "4: error: ", "5: error: ", "3: error: \"missing.pem\"", "6: error: \"none.pem\"",
      ] { #expect(told.count { $0.hasPrefix(fault) } == 1, "\(fault) in \(told)") }
      #expect(told.count == 5, "\(told)")
      do throws(Refusal) {
        _ = try Preparation.read(path, sharing: SharedState(features: Features.all))
        Issue.record("it was read")
      } catch {
        #expect(error.errors.count == 5)
      }
    }
  }

  @Test func `what is wrong with a log or the pid file is told at its line`() throws {
    try withScene { scene in
      let path = try scene.write(
        "test.conf",
        text: """
          pid nowhere/a.pid;
          error_log nowhere/error.log;
          events {}
          http { server { listen 127.0.0.1:8080;
          access_log nowhere/access.log; location / { error_log nowhere/other.log; return 200; }
          location /again { access_log nowhere/access.log; return 200; } } }
          """)
      let told = Check(path).diagnostics.filter { $0.severity == .error }.map { $0.short(in: scene) }
      #expect(
        told.compactMap { $0.split(separator: ":").first.map(String.init) }.sorted() == ["1", "2", "5", "5"],
        "\(told)")
    }
  }

  @Test func `a configuration that can't be read has no policy`() throws {
    try withScene { scene in
      let check = Check(try scene.write("test.conf", text: "bogus;"))
      #expect(check.policy.isEmpty)
      #expect(check.count(.error) > 0)
    }
  }
}

@testable import Loading
@testable import Review
@testable import Traffic
@testable import Forward
@testable import Features
import ConfigurationSupport
import Crypto
import TestSupport
import Testing

/// `sallyport check --diff`: single changes, and what an auditor reads of each.
@Suite struct TrustDifferenceTests {
  private static let pin = "sha256//47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
  private static let otherPin = "sha256//AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="

  private static let base = """
    events {}
    http {
      limit_req_zone $remote_addr zone=r:1m rate=5r/s;
      limit_conn_zone $remote_addr zone=c:1m;
      map $http_x $mapped { a 1; default 0; } geo $near { proxy 127.0.0.1; 192.0.2.0/24 1; default 0; }
      upstream app { server 127.0.0.1:9001; }
      server {
        listen 127.0.0.1:8443 ssl;
        server_name a.example;
        ssl_certificate server.pem; ssl_certificate_key server.key;
        ssl_client_certificate ca.pem;
        ssl_verify_client on;
        ssl_verify_depth 2;
        ssl_crl crl.pem;
        ssl_client_allow cn=alice;
        ssl_client_deny cn=eve;
        location / {
          proxy_pass https://app;
          proxy_ssl_trusted_certificate ca.pem;
          proxy_ssl_name up.example;
          proxy_ssl_pin \(pin);
          proxy_ssl_certificate alice.pem; proxy_ssl_certificate_key alice.key;
          proxy_set_header X-Client $ssl_client_s_dn;
          limit_req zone=r burst=5;
          limit_conn c 4;
          client_max_body_size 2m;
          set $team red;
        }
        location /admin/ {
          proxy_pass https://app;
          proxy_ssl_trusted_certificate ca.pem;
          proxy_ssl_name up.example;
          allow 10.0.0.0/8; deny all;
          auth_basic r; auth_basic_user_file users;
          proxy_auth basic; proxy_auth_user_file logins;
          if ($arg_x) { return 403; }
        }
        location = /page { internal; return 200 x; } location /php/ { fastcgi_pass 127.0.0.1:9003; fastcgi_param A b;
          fastcgi_param HTTP_X_CLIENT $ssl_client_s_dn; fastcgi_param REMOTE_USER $remote_user; }
        location ~ [.]a { return 200 a; } location ~ [.]b { return 200 b; }
      }
      server {
        listen 127.0.0.1:8080;
        server_name plain.example;
        set_real_ip_from 10.0.0.1;
        location / { proxy_pass http://127.0.0.1:9002; }
      }
    }
    """

  private static let streams = """
    events {}
    stream {
      upstream db { server 127.0.0.1:9003; }
      server {
        listen 127.0.0.1:5432 ssl; ssl_certificate server.pem; ssl_certificate_key server.key;
        server_name db.example;
        allow 10.0.0.0/8; deny all;
        starttls postgres;
        proxy_pass db; proxy_ssl on; proxy_ssl_trusted_certificate ca.pem; proxy_ssl_name up.example;
      }
      server { listen 127.0.0.1:7000; server_name tcp.example; set $word a; return $word; }
    }
    """

  private static let casesOfStreams: [(from: String, to: String, direction: TrustChange.Direction, words: String)] = [
    ("starttls postgres;", "", .other, "server db.example (CONF:4:3): clients begin with TLS at once (no starttls)"),
    ("starttls postgres;", "starttls ldap;", .other, "clients ask for TLS in the words of ldap (starttls)"),
    (
      "proxy_ssl on;", "proxy_ssl on; proxy_starttls postgres;", .other,
      "the upstream is asked for TLS in the words of postgres (proxy_starttls)"
    ),
    (
      "proxy_pass db; proxy_ssl on;", "proxy_pass db; proxy_ssl off;", .opens,
      "server db.example (CONF:4:3): connections go to the upstream in plaintext"
    ),
    ("proxy_pass db;", "proxy_pass 127.0.0.1:9004;", .opens, "connections go to 127.0.0.1:9004"),
    (
      "listen 127.0.0.1:7000;", "listen 127.0.0.1:7000; ssl_preread on;", .other,
      "the name of a ClientHello selects the server block, unverified (ssl_preread)"
    ),
    (
      "return $word;", "pass 127.0.0.1:5432;", .opens,
      "server tcp.example (CONF:11:3): passes to the listener 127.0.0.1:5432"
    ),
    ("return $word;", "return b;", .other, "return sends another text"),
    ("return $word;", "proxy_pass db;", .opens, "forwards to db"),
    (
      "return $word;", "proxy_pass db; proxy_ssl on; proxy_ssl_trusted_certificate ca.pem; proxy_ssl_name up.example;",
      .opens, "forwards to db"
    ),
    ("set $word a;", "set $word b;", .other, "set has other values: b"),
  ]

  /// What is replaced by what, the direction, and words of the sentence.
  private static let cases: [(from: String, to: String, direction: TrustChange.Direction, words: String)] = [
    (
      "location ~ [.]a { return 200 a; } location ~ [.]b { return 200 b; }",
      "location ~ [.]b { return 200 b; } location ~ [.]a { return 200 a; }", .other,
      "its locations with regular expressions come in another order"
    ),
    (
      "server_name a.example;", "server_name a.example; underscores_in_headers on;", .opens,
      "with underscores in their names go"
    ),
    ("server_name a.example;", "server_name a.example; ignore_invalid_headers off;", .opens, "with invalid names go"),
    (
      "server_name a.example;", "server_name a.example; merge_slashes off;", .other,
      "slashes in a path are no longer merged"
    ),
    (
      "listen 127.0.0.1:8080;",
      "listen 127.0.0.1:8080; listen 127.0.0.1:8443 ssl default_server; ssl_reject_handshake on;",
      .other, "requests for other names on 127.0.0.1:8443 go to server plain.example (was a.example)"
    ),
    (
      "ssl_verify_client on;\n    ssl_verify_depth 2;\n    ssl_crl crl.pem;\n    ssl_client_allow cn=alice;\n    ssl_client_deny cn=eve;",
      "ssl_verify_client off;", .opens,
      "server a.example (CONF:7:3): clients are no longer asked for a certificate"
    ),
    (
      "ssl_verify_client on;", "ssl_verify_client optional;", .opens,
      "clients get in with a certificate of its CAs, or with none"
    ),
    ("ssl_verify_client on;", "ssl_verify_client optional_no_ca;", .opens, "no CA has to have issued it"),
    ("ssl_verify_client on;", "ssl_verify_client on; ssl_verify_report_only on;", .opens, "refuses no client any more"),
    ("ssl_verify_depth 2;", "ssl_verify_depth 3;", .opens, "chains of clients may have depth 3 (was 2)"),
    ("ssl_verify_depth 2;", "ssl_verify_depth 1;", .closes, "chains of clients may have only depth 1 (was 2)"),
    ("ssl_crl crl.pem;", "", .opens, "the revocation list of CN=Test Root no longer counts for clients"),
    ("ssl_crl crl.pem;", "ssl_crl more.pem;", .closes, "the revocation list of CN=Test Root revokes 1 (was 0)"),
    (
      "ssl_client_certificate ca.pem;", "ssl_client_certificate ca.pem; ssl_trusted_certificate other.pem;", .opens,
      "clients of one more CA get in: CN=Other"
    ),
    ("ssl_client_allow cn=alice;", "", .opens, "ssl_client_allow no longer limits which clients get in (was cn=alice)"),
    (
      "ssl_client_allow cn=alice;", "ssl_client_allow cn=alice; ssl_client_allow cn=bob;", .opens,
      "clients that match cn=bob get in"
    ),
    ("ssl_client_deny cn=eve;", "", .opens, "clients that match cn=eve are no longer denied"),
    (
      "ssl_client_deny cn=eve;", "ssl_client_deny cn=eve; ssl_client_deny cn=mallory;", .closes,
      "clients that match cn=mallory are denied"
    ),
    (
      "server_name a.example;", "server_name a.example; ssl_protocols TLSv1.1 TLSv1.2 TLSv1.3;", .opens,
      "TLSv1.1 is allowed with clients"
    ),
    (
      "server_name a.example;", "server_name a.example; ssl_early_data on;", .opens,
      "early data, which an attacker can replay"
    ),
    (
      "server_name a.example;", "server_name a.example; ssl_ciphers HIGH;", .other,
      "the cipher list towards clients is HIGH (was the default)"
    ),
    ("server_name a.example;", "server_name a.example b.example;", .opens, "also serves the name b.example"),
    (
      "listen 127.0.0.1:8443 ssl;", "listen 127.0.0.1:8443 ssl; listen 127.0.0.1:8081;", .opens,
      "listens on 127.0.0.1:8081 without TLS"
    ),
    (
      "listen 127.0.0.1:8080;", "listen 127.0.0.1:8080 proxy_protocol;", .opens,
      "the PROXY header on 127.0.0.1:8080 says who the client is"
    ),
    (
      "allow 10.0.0.0/8; deny all;", "", .opens,
      "location /admin/ of server a.example (CONF:29:5): clients from all other addresses are no longer denied"
    ),
    (
      "allow 10.0.0.0/8; deny all;", "allow 10.0.0.0/8; allow 192.0.2.7; deny all;", .opens,
      "clients from 192.0.2.7 are allowed"
    ),
    (
      "allow 10.0.0.0/8; deny all;", "deny all; allow 10.0.0.0/8;", .other,
      "allow and deny come in another order: deny all, allow 10.0.0.0/8"
    ),
    (
      "auth_basic_user_file users;", "auth_basic_user_file users; path_readings parameters;", .opens,
      "other readings of a path are no longer judged: case (path_readings)"
    ),
    ("auth_basic r; auth_basic_user_file users;", "", .opens, "no password is asked for any more"),
    ("auth_basic r;", "auth_basic r; satisfy any;", .opens, "an address or a password is enough (satisfy any)"),
    (
      "auth_basic_user_file users;", "auth_basic_user_file logins;", .other,
      "passwords are those of logins (were those of users)"
    ),
    ("if ($arg_x) { return 403; }", "", .other, "its rewrite directives differ: without `if ($arg_x)`"),
    ("internal; return 200 x;", "return 200 x;", .opens, "clients may ask for it directly (no longer internal)"),
    ("proxy_ssl_pin \(pin);", "", .opens, "the upstream's key is no longer pinned (was \(pin))"),
    (
      "proxy_ssl_pin \(pin);", "proxy_ssl_pin \(pin); proxy_ssl_pin \(otherPin);", .opens,
      "one more pin counts: \(otherPin)"
    ),
    (
      "proxy_ssl_pin \(pin);", "proxy_ssl_pin \(pin); proxy_ssl_pin_report_only on;", .opens,
      "a pin that does not match is only reported"
    ),
    (
      "proxy_ssl_pin \(pin);", "proxy_ssl_pin \(pin); proxy_ssl_allow_invalid on;", .opens,
      "a chain that does not verify is accepted where a pin matches"
    ),
    (
      "proxy_ssl_trusted_certificate ca.pem;\n      proxy_ssl_name up.example;\n      proxy_ssl_pin \(pin);",
      "proxy_ssl_verify off;", .opens, "the upstream is no longer verified: anybody can take its place"
    ),
    (
      "proxy_ssl_trusted_certificate ca.pem;\n      proxy_ssl_name up.example;\n      proxy_ssl_pin",
      "proxy_ssl_trusted_certificate other.pem;\n      proxy_ssl_name up.example;\n      proxy_ssl_pin", .opens,
      "the upstream's certificate may come from the CA CN=Other"
    ),
    (
      "proxy_ssl_trusted_certificate ca.pem;\n      proxy_ssl_name up.example;\n      proxy_ssl_pin \(pin);",
      "proxy_ssl_trusted_certificate spiffe:; proxy_ssl_spiffe_id spiffe://a/b;", .other,
      "the upstream must have a SPIFFE ID, spiffe://a/b, verified by the bundle of each SVID's own trust domain"
    ),
    (
      "ssl_client_certificate ca.pem;\n    ssl_verify_client on;\n    ssl_verify_depth 2;\n    ssl_crl crl.pem;",
      "ssl_client_certificate spiffe://a;\n    ssl_verify_client on;\n    ssl_verify_depth 2;", .opens,
      "clients may have an SVID that the bundle of spiffe://a alone verifies (SPIFFE)"
    ),
    (
      "proxy_ssl_name up.example;\n      proxy_ssl_pin", "proxy_ssl_name else.example;\n      proxy_ssl_pin",
      .other, "must have the name else.example (was up.example)"
    ),
    (
      "proxy_ssl_name up.example;\n      proxy_ssl_pin", "proxy_ssl_verify_name off;\n      proxy_ssl_pin",
      .opens, "the name in the upstream's certificate is not checked"
    ),
    (
      "proxy_ssl_certificate alice.pem; proxy_ssl_certificate_key alice.key;", "", .other,
      "shows the upstream no client certificate any more (was CN="
    ),
    (
      "proxy_pass https://app;\n      proxy_ssl_trusted_certificate ca.pem;\n      proxy_ssl_name up.example;\n      proxy_ssl_pin \(pin);\n      proxy_ssl_certificate alice.pem; proxy_ssl_certificate_key alice.key;",
      "proxy_pass http://app;", .opens, "requests go to the upstream in plaintext"
    ),
    (
      "upstream app { server 127.0.0.1:9001; }", "upstream app { server 127.0.0.1:9001; server 127.0.0.1:9009; }",
      .opens, "requests go to 127.0.0.1:9009"
    ),
    (
      "proxy_set_header X-Client $ssl_client_s_dn;", "", .opens,
      "the field X-Client is no longer set (was \"$ssl_client_s_dn\")"
    ),
    (
      "proxy_set_header X-Client $ssl_client_s_dn;", "proxy_set_header X-Client $remote_addr;", .other,
      "the field X-Client is \"$remote_addr\""
    ),
    (
      "fastcgi_param HTTP_X_CLIENT $ssl_client_s_dn;", "", .opens,
      "the parameter HTTP_X_CLIENT is no longer set (was \"$ssl_client_s_dn\"): a client's own field goes to the upstream"
    ),
    (
      "fastcgi_param REMOTE_USER $remote_user;", "", .opens,
      "the parameter REMOTE_USER no longer tells the upstream who the client is (was \"$remote_user\")"
    ),
    (
      "fastcgi_param A b;", "fastcgi_param A b; fastcgi_allow_upstream $arg_x;", .closes,
      "requests go to the upstream only under the conditions $arg_x"
    ),
    ("fastcgi_param A b;", "fastcgi_param A c;", .other, "the parameter A is \"c\" (was \"b\")"),
    ("fastcgi_param A b;", "fastcgi_param A b; fastcgi_param B c;", .other, "the parameter B is set to \"c\""),
    ("fastcgi_pass 127.0.0.1:9003;", "fastcgi_pass 127.0.0.1:9009;", .opens, "127.0.0.1:9009"),
    ("proxy_auth basic; proxy_auth_user_file logins;", "", .closes, "a 401 of the upstream is no longer answered"),
    ("limit_req zone=r burst=5;", "", .opens, "limit_req of zone r is gone"),
    (
      "rate=5r/s;", "rate=50r/s;", .opens,
      "limit_req of zone r allows 50 requests per second (was 5 requests per second)"
    ),
    ("limit_conn c 4;", "limit_conn c 40;", .opens, "by limit_conn of zone c may be 40 (was 4)"),
    (
      "client_max_body_size 2m;", "client_max_body_size 0;", .opens,
      "the body of a request is no longer limited (was 2097152 bytes)"
    ),
    (
      "client_max_body_size 2m;", "client_max_body_size 1m;", .closes, "the body of a request may be only 1048576 bytes"
    ),
    (
      "set_real_ip_from 10.0.0.1;", "set_real_ip_from 10.0.0.1; set_real_ip_from 0.0.0.0/0;", .opens,
      "0.0.0.0/0 may say which address a client has"
    ),
    (
      "ssl_verify_depth 2;",
      "ssl_verify_depth 2; real_client_cert_from 10.0.0.1; real_client_cert_header Client-Cert rfc9440;", .opens,
      "10.0.0.1 may say which certificate a client has (real_client_cert_from)"
    ),
    (
      "listen 127.0.0.1:8080;",
      "listen 127.0.0.1:8080; real_client_cert_from 10.0.0.0/8; real_client_cert_header X-C pem;\n    ssl_client_certificate ca.pem; ssl_verify_client on;",
      .opens, "10.0.0.0/8 may say which certificate a client has (real_client_cert_from)"
    ),
    (
      "location = /page", "location /new { proxy_pass http://127.0.0.1:9002; }\n    location = /page", .other,
      "location /new of server a.example (CONF:38:5): is new: forwards to http://127.0.0.1:9002"
    ),
    (
      "server_name plain.example;", "server_name plain.example;\n location /new { return 200 x; }", .opens,
      "location /new of server plain.example"
    ),
    ("location ~ [.]a {", "location ~* [.]a {", .other, "~"),
    ("auth_basic_user_file users;", "auth_basic_user_file users/$host;", .other, "passwords are those of"),
    (
      "set $team red;", "set $team red; auth_request /page;", .closes,
      "/page is asked whether a request is admitted (auth_request)"
    ),
    ("set $team red;", "set $team red; mirror /page;", .opens, "copies of its requests go to /page (mirror)"),
    (
      "set $team red;", "set $team red; message_signature verify; message_signature_key k hmac-sha256 hmac.key;",
      .closes, "requests must be signed (message_signature verify)"
    ),
    (
      "set $team red;", "set $team red; client_identity signed;", .closes,
      "the upstream gets a proof of who the client is (client_identity signed)"
    ),
    (
      "set $team red;", "set $team red; client_token jwks=keys.json;", .closes,
      "requests need a bearer token (client_token)"
    ),
    ("set $team red;", "set $team red; proxy_protocol v2;", .other, "told the client by a PROXY header (version 2)"),
    (
      "set $team red;", "set $team red; proxy_bind 127.0.0.1;", .other,
      "connections to the upstream come from the address 127.0.0.1"
    ),
    (
      "set $team red;", "set $team red; proxy_via http://127.0.0.1:3128;", .other,
      "connections to the upstream go through the proxy 127.0.0.1:3128 (proxy_via; were made directly)"
    ),
    ("set $team red;", "set $team red; proxy_set_body x;", .other, "the upstream gets another body (proxy_set_body)"),
    (
      "set $team red;", "set $team red; proxy_ignore_headers X-Accel-Redirect;", .closes,
      "the upstream can't lead a request to another location"
    ),
    (
      "location = /page", "root /srv/www;\n    location = /page", .opens, "serves files of /srv/www"
    ),
    (
      "set $team red;", "set $team red; add_header X y; valid_referers server_names;", .other,
      "doesn't compare these directives, which differ: add_header, valid_referers"
    ),
    (
      "set $team red;", "set $team red; set $ssl_client_s_dn_cn x;", .other,
      "$ssl_client_s_dn_cn is the configuration's own (was sallyport's)"
    ),
    (
      "set $team red;", "set $team red; set $trace_id x;", .other,
      "$trace_id is the configuration's own (was sallyport's)"
    ),
    (
      "map $http_x $mapped { a 1;", "map $http_x $mapped { a 2;", .other, "a map, geo or split_clients has other values"
    ),
    (
      "map $http_x $mapped { a 1;", "map $http_x $mapped { volatile; a 1;", .other,
      "a map, geo or split_clients has other values"
    ),
    (
      "geo $near {", "geo $near { proxy_recursive;", .other, "a map, geo or split_clients has other values"
    ),
  ]

  private func stage(_ scene: Scene) throws {
    let authority = try scene.serverFiles()
    _ = try scene.identity("alice", authority.client())
    try scene.anchors("other", TestAuthority("Other"))
    try scene.write("crl.pem", text: RevocationListBuilder(revoking: []).pem(signedBy: authority.root))
    let bob = try authority.client(commonName: "bob")
    try scene.write("more.pem", text: RevocationListBuilder(revoking: [bob.certificate]).pem(signedBy: authority.root))
    try scene.write("users", text: "a:{PLAIN}b\n")
    try scene.write("logins", text: "* a:b\n")
    try scene.write("hmac.key", text: String(repeating: "k", count: 32))
    try scene.write("keys.json", text: TokenIssuer().set)
  }

  @Test func `each change is told by its own sentence`() throws {
    try withScene { scene in
      try stage(scene)
      let all = Self.cases.map { (Self.base, $0) } + Self.casesOfStreams.map { (Self.streams, $0) }
      for (base, (from, to, direction, words)) in all {
        #expect(base.contains(from), "\(from)")
        let text = base.replacing(from, with: to, maxReplacements: 1)
        let (_, back) = try scene.expectChange(direction, words, from: base, to: text)
        // The change back is never one in the same direction of trust.
        if direction != .other {
          let expected = words.replacing("CONF", with: scene.path("new.conf"))
          #expect(!back.contains { $0.direction == direction && $0.sentence.contains(expected) }, "\(back)")
        }
      }
    }
  }

  @Test func `order, blanks, comments and included files are no change`() throws {
    try withScene { scene in
      try stage(scene)
      #expect(try scene.changes(from: Self.base, to: Self.base) == [])
      let end = Self.base.firstRange(of: "server {\n    listen 127.0.0.1:8080;")
      let start = try #require(end).lowerBound
      let last = try #require(Self.base.lastIndex(of: "}"))
      // The second server first, in a file of its own.
      try scene.write("plain.inc", text: "# moved\n" + String(Self.base[start..<last]))
      let head = String(Self.base[..<start]).replacing(
        "map $http_x $mapped", with: "include plain.inc; map $http_x $mapped")
      let moved = (head + "}").replacing("    ", with: "\t").replacing("ssl_client_deny cn=eve;", with: "")
        .replacing("ssl_verify_depth 2;", with: "ssl_client_deny \"cn=eve\"; ssl_verify_depth '2'; # two")
      #expect(try scene.changes(from: Self.base, to: moved).map(\.sentence) == [])
    }
  }

  @Test func `what opens comes first`() throws {
    try withScene { scene in
      try stage(scene)
      let text = Self.base.replacing("ssl_verify_depth 2;", with: "ssl_verify_depth 1;")
        .replacing("ssl_client_deny cn=eve;", with: "").replacing(
          "proxy_ssl_name up.example", with: "proxy_ssl_name v.example")
      let path = try scene.write("new.conf", text: text)
      let lines = try TrustDifference(from: scene.write("old.conf", text: Self.base), to: path).lines
      let headings = lines.filter { !$0.hasPrefix(" ") }
      #expect(headings == ["opens:", "closes:", "changes:"], "\(lines)")
    }
  }

  @Test func `a configuration that is not valid is refused by its name`() throws {
    try withScene { scene in
      try stage(scene)
      let good = try scene.write("good.conf", text: Self.base)
      let bad = try scene.write("bad.conf", text: Self.base.replacing("ca.pem", with: "missing.pem"))
      #expect(throws: TrustDifference.Refusal.self) { try TrustDifference(from: good, to: bad) }
      #expect(throws: TrustDifference.Refusal.self) { try TrustDifference(from: bad, to: good) }
    }
  }
}

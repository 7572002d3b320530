import ConfigurationSupport
import Observability
import Testing

/// What is valid, means what it means in nginx, and lets in or tells somebody whom its author hardly meant.
@Suite struct `A warning of policy` {
  private static let tls =
    "ssl_certificate s.pem; ssl_certificate_key s.key; ssl_client_certificate c.pem; ssl_verify_client on;"

  /// The messages of warnings, without places and hints.
  private func warnings(_ text: String) -> [String] {
    let loaded = LoadedText(text)
    #expect(loaded.errors == [], "\(text)")
    return loaded.diagnostics.filter { $0.severity == .warning }.map(\.message)
  }

  private func server(_ lines: String, http: String = "", listen: String = "listen 80;") -> [String] {
    warnings("http { \(http) server { \(listen) \(lines) } }")
  }

  @Test func `lost fields: what comes from the certificate is named first`() {
    let outer = "proxy_set_header X-Real-IP $remote_addr; proxy_set_header Host $host; proxy_set_header X-CN $cn;"
    let map = "map $ssl_client_s_dn_cn $cn { default -; a b; }"
    let found = server(
      "\(outer) location / { proxy_pass http://127.0.0.1:1; proxy_set_header Upgrade $http_upgrade; }", http: map)
    #expect(
      found == [
        "\"proxy_set_header\" replaces the lines around it, so the upstream isn't told who the client is: X-CN, X-Real-IP, Host"
      ])
    let all = "proxy_set_header X-Real-IP $remote_addr; proxy_set_header X-CN $cn; proxy_set_header Connection \"\";"
    for lines in [
      // All are repeated; nothing is of the client; the level passes nothing on; there is no own line.
      "\(outer) location / { proxy_pass http://127.0.0.1:1; \(all) }",
      "proxy_set_header Host $host; location / { proxy_pass http://127.0.0.1:1; proxy_set_header Connection \"\"; }",
      "\(outer) location / { proxy_set_header A b; return 204; }",
      "\(outer) location / { proxy_pass http://127.0.0.1:1; }",
    ] { #expect(server(lines, http: map) == [], "\(lines)") }
    let pass = "proxy_pass http://127.0.0.1:1;"
    for lines in [
      // The same is told under another name; another identity is told; nothing of clients is meant for the upstream; a Host
      // names the server.
      "proxy_set_header X-CN $cn; location / { \(pass) proxy_set_header X-User $cn; }",
      "proxy_set_header X-CN $cn; location / { \(pass) proxy_set_header X-S $ssl_client_serial; }",
      "proxy_set_header X-Real-IP $remote_addr; location / { \(pass) proxy_set_header X-For $proxy_add_x_forwarded_for; }",
      "\(outer) location / { \(pass) proxy_set_header A b; proxy_pass_request_headers off; }",
      "proxy_set_header Host $cn; location / { \(pass) proxy_set_header A b; }",
    ] { #expect(server(lines, http: map) == [], "\(lines)") }
    for lines in [
      // An address is not the certificate, and the verdict alone is nobody.
      "\(outer) location / { \(pass) proxy_set_header X-Real-IP $remote_addr; }",
      "\(outer) location / { \(pass) proxy_set_header X-Verify $ssl_client_verify; }",
    ] { #expect(server(lines, http: map).count == 1, "\(lines)") }
    let grpc = server(
      "grpc_set_header X-DN $ssl_client_s_dn; location / { grpc_pass grpc://127.0.0.1:1; grpc_set_header A b; }",
      listen: "listen 80; http2 on;")
    #expect(grpc.count == 1 && grpc[0].hasPrefix("\"grpc_set_header\" replaces"), "\(grpc)")
  }

  @Test(
    arguments: [
      ("$ssl_client_s_dn", "CN=admin", "begin and end"), ("$ssl_client_s_dn", "^CN=admin", "end"),
      ("$ssl_client_i_dn", "CN=(?<cn>[^,]+)", "begin"), ("$ssl_client_s_dn", "(^|,)CN=admin(,|$)", nil),
      ("$ssl_client_s_dn_cn", "^admin", "end"), ("$ssl_client_s_dn_cn", "^admin$", nil), ("$ssl_client_s_dn", ".", nil),
      ("$http_origin", #"example\.com"#, "begin and end"), ("$http_origin", #"^https://.*\.example\.com$"#, nil),
      ("$http_origin", #"\.example\.com$"#, nil), ("$http_origin", #"https?://(.+\.)?example\.com(:[0-9]+)?$"#, nil),
      ("$http_origin", #"^https://example\.com"#, "end"), ("$http_origin", #"example\.com$"#, "begin"),
      ("$uri", "admin", nil), ("$http_user_agent", "bot", nil),
    ] as [(String, String, String?)]) func `an open pattern on the name of a client or a site`(
      variable: String, pattern: String, place: String?
    )
  {
    let expected = place.map {
      ["the pattern \"\(pattern)\" has no anchor at its \($0): it matches other names that contain it"]
    }
    #expect(server("return 204;", http: "map \(variable) $x { \"~\(pattern)\" 1; }") == expected ?? [])
    #expect(server("if (\(variable) ~* \"\(pattern)\") { return 403; } return 204;") == expected ?? [])
  }

  /// The text between two variables divides their values.
  @Test(
    arguments: [
      ("$ssl_client_s_dn_cn:$uri", "^alice:/admin", nil), ("$ssl_client_s_dn_cn:$uri", "^alice:", nil),
      ("$ssl_client_s_dn_cn:$uri", "/admin$", nil), ("$ssl_client_s_dn_cn:$uri", "^alice", "end"),
      ("$ssl_client_s_dn_cn:$uri", "alice:/admin", "begin"), ("$ssl_client_s_dn_cn:$uri", "^alice.*/admin$", nil),
      ("$uri:$ssl_client_s_dn_cn", "^/admin", nil), ("$uri:$ssl_client_s_dn_cn", ":alice$", nil),
      ("$uri:$ssl_client_s_dn_cn", "^/admin:alice", "end"), ("$uri:$ssl_client_s_dn_cn", "^/admin.*alice", "end"),
      ("$uri:$ssl_client_s_dn_cn", "alice$", "begin"), ("$request_method|$http_origin|$uri", "GET", "begin and end"),
      ("$request_method|$http_origin|$uri", #"^GET\|https://a\.test\|/x"#, nil),
      ("$request_method|$http_origin|$uri", #"^GET\|https://a\.test"#, "end"),
    ] as [(String, String, String?)]) func `an open pattern on several variables`(
      subject: String, pattern: String, place: String?
    )
  {
    let expected = place.map {
      ["the pattern \"\(pattern)\" has no anchor at its \($0): it matches other names that contain it"]
    }
    #expect(server("return 204;", http: "map \"\(subject)\" $x { \"~\(pattern)\" 1; }") == expected ?? [])
  }

  @Test func `allow without deny`() {
    let words = ["\"allow\" without \"deny\" keeps nobody out: every other address gets in, too"]
    #expect(server("location / { allow 10.0.0.0/8; proxy_pass http://127.0.0.1:1; }") == words)
    #expect(server("allow 10.0.0.0/8; allow 127.0.0.1; location / { proxy_pass http://127.0.0.1:1; }") == words)
    for lines in [
      "allow 10.0.0.0/8; deny all;", "allow all;", "deny 10.0.0.1; allow 10.0.0.0/8;",
      "satisfy any; allow 10.0.0.0/8; auth_basic a; auth_basic_user_file u;",
      "satisfy any; allow 10.0.0.0/8; auth_request /a;",
    ] { #expect(server("location / { \(lines) proxy_pass http://127.0.0.1:1; }") == [], "\(lines)") }
    for lines in [
      "satisfy any; allow 10.0.0.0/8;", "satisfy any; allow 10.0.0.0/8; auth_basic off;",
      "satisfy all; allow 10.0.0.0/8; auth_basic a; auth_basic_user_file u;",
    ] { #expect(server("location / { \(lines) proxy_pass http://127.0.0.1:1; }") == words, "\(lines)") }
    #expect(warnings("stream { server { listen 81; allow 10.0.0.0/8; proxy_pass 127.0.0.1:1; } }") == words)
  }

  @Test func `a server that a request chooses`() {
    func chosen(_ name: String) -> [String] {
      ["a request chooses the server: \"proxy_pass\" takes it from \(name)"]
    }
    let resolver = "resolver 127.0.0.1;"
    for (lines, name) in [
      ("location / { proxy_pass http://$arg_url; }", "$arg_url"),
      ("location / { proxy_pass http://$http_host; }", "$http_host"),
      ("location / { proxy_pass http://$cookie_to$request_uri; }", "$cookie_to"),
      ("location / { set $to $arg_to; proxy_pass http://$to/; }", "$to"),
      ("location / { proxy_pass http://$host; }", "$host"),
      ("location ~ ^/p/(.*)$ { proxy_pass http://$1; }", "$1"),
      ("location ~ ^/p/(.*)/(.*)$ { set $to $1; proxy_pass http://$to/$2; }", "$to"),
      (
        "location ~ ^/p/(http)/(.*?)/ { proxy_ssl_verify off; set $kind $1; set $to $2; proxy_pass $kind://$to/; }",
        "$to"
      ),
      ("location / { proxy_pass http://app${arg_a}.test; }", "$arg_a"),
      ("location / { proxy_pass http://$of; }", "$of"),
      ("location ~ ^/p/(?<to>[^/]+)/ { proxy_pass http://$to.example.com; }", "$to"),
      // The only server of an address gets the requests for any name.
      ("server_name a.test; location / { proxy_pass http://$host; }", "$host"),
      // The capture may be empty, or begin otherwise.
      ("location ~ ^/p(/.*)?x(.*)$ { proxy_pass http://app$1$2; }", "$1"),
      ("location ~ ^/p(/a|.*)$ { proxy_pass http://app$1; }", "$1"),
      ("location ~ ^/p/(.*)$ { set $rest $1; proxy_pass http://app$rest; }", "$rest"),
    ] {
      let map = "map $uri $of { ~^/api/(.*)$ $1; default a; }"
      #expect(server(lines, http: "\(resolver) \(map)") == chosen(name), "\(lines)")
    }
    #expect(
      server("location / { set $to http://$arg_to; proxy_pass $to; }", http: resolver).contains { $0.contains("$to") })
    #expect(
      server(
        "server_name ~^(?<to>.+)$; location / { proxy_pass http://$to:8080; }", http: resolver) == chosen("$to"))
    for lines in [
      "location / { proxy_pass http://127.0.0.1:1$request_uri; }",
      "location / { proxy_pass http://127.0.0.1:1/$arg_a; }",
      "server_name a.test; if ($host !~ \\.a\\.test$) { return 403; } location / { proxy_pass http://$host; }",
      "location ~ ^(/.*)$ { proxy_pass http://app$1; }", "location ~ ^/p(/.*)$ { proxy_pass http://app:8080$1?$args; }",
      "location ~ ^/p(?<rest>/.*)$ { proxy_pass http://app$rest$is_args$args; }",
      "location ~ ^/p(/.*)$ { set $rest $1; proxy_pass http://app$rest; }",
      "location / { set $to app; proxy_pass http://$to; }", "location ~ ^/([a-z]+)/ { proxy_pass http://$1:8080; }",
      "server_name ~^(?<to>[a-z]+)\\.a\\.test$; location / { proxy_pass http://$to.internal; }",
      "location ~ ^/p/(.*)$ { internal; proxy_pass http://$1; }", "location / { proxy_pass http://$to; }",
    ] { #expect(server(lines, http: "\(resolver) map $arg_to $to { default a; b c; }") == [], "\(lines)") }
    let other = "server { listen 80 default_server; return 444; }"
    #expect(server("server_name a.test; location / { proxy_pass http://$host; }", http: "\(resolver) \(other)") == [])
    #expect(
      server("location / { proxy_pass $to; }", http: "\(resolver) map $uri $to { ~^/a(/.*)$ http://app$1; }") == [])
  }

  @Test func `a server of stream that a client chooses`() {
    func found(_ lines: String, _ stream: String = "") -> [String] {
      warnings("stream { resolver 127.0.0.1; \(stream) server { listen 443; ssl_preread on; \(lines) } }")
    }
    func chosen(_ name: String) -> [String] {
      ["a client chooses the server: \"proxy_pass\" takes it from \(name)"]
    }
    let name = "$ssl_preread_server_name"
    #expect(found("proxy_pass \(name):443;") == chosen(name))
    #expect(found("proxy_pass \(name):443;", "server { listen 444; return x; }") == chosen(name))
    #expect(found("set $to \(name); proxy_pass $to:443;") == chosen("$to"))
    let open = "map \(name) $to { default \(name):443; }",
      closed = "map \(name) $to { a.test 127.0.0.1:1; default 127.0.0.1:2; }"
    #expect(found("proxy_pass $to;", open) == chosen("$to"))
    #expect(found("proxy_pass $to;", closed) == [])
    #expect(
      found("proxy_pass $to;", "map \(name) $to { ~^([a-z]+)\\.a\\.test$ $1.internal:443; default 127.0.0.1:1; }") == []
    )
    #expect(
      found("proxy_pass $to;", "map \(name) $to { ~^(.+)\\.a\\.test$ $1:443; default 127.0.0.1:1; }") == chosen("$to"))
    // Another server block takes all other names.
    let other = "server { listen 443 default_server; ssl_preread on; return x; }"
    #expect(found("server_name a.test b.test; proxy_pass \(name):443;", other) == [])
  }

  @Test func `a Referer that may be missing`() {
    let words = ["\"valid_referers none\" admits every request without Referer, and any client can leave it out"]
    func lines(_ referers: String) -> String {
      "location / { valid_referers \(referers); if ($invalid_referer) { return 403; } proxy_pass http://127.0.0.1:1; }"
    }
    #expect(server(lines("none blocked a.test")) == words)
    #expect(server(lines("blocked a.test")) == [])
    // For mere files, it is only noted.
    let files = "location /i/ { root /srv/www; valid_referers none a.test; if ($invalid_referer) { return 403; } }"
    #expect(server(files) == [])
    #expect(LoadedText.server(files).diagnostics.map(\.message) == words)
    #expect(server("valid_referers none a.test; location / { proxy_pass http://127.0.0.1:1; }") == words)
  }

  @Test func `an address that a client chooses, and rules about addresses`() {
    let words = ["everybody's word about the client's address is taken, and \"allow\" or \"deny\" judges by it"]
    let rules = "location / { allow 10.0.0.0/8; deny all; proxy_pass http://127.0.0.1:1; }"
    #expect(server(rules, http: "set_real_ip_from 0.0.0.0/0;") == words)
    #expect(server(rules, http: "set_real_ip_from ::/0;") == words)
    #expect(server(rules, http: "set_real_ip_from 10.0.0.0/8;") == [])
    #expect(server("location / { proxy_pass http://127.0.0.1:1; }", http: "set_real_ip_from 0.0.0.0/0;") == [])
    // Nobody's address decides there.
    for lines in [
      "location ~ /\\.ht { deny all; } location / { proxy_pass http://127.0.0.1:1; }",
      "location /x { deny all; return 403; }", "location ^~ /kept/ { internal; }",
    ] { #expect(server(lines, http: "set_real_ip_from 0.0.0.0/0;") == [], "\(lines)") }
  }

  @Test(arguments: [
    ("status;", "the status page"), ("metrics;", "the metrics"), ("stub_status;", "the counts of stub_status"),
    ("api;", "the API"),
  ]) func `a page about the process for anybody`(line: String, what: String) {
    let words = ["anybody may read \(what): nothing here keeps clients out"]
    let page = "location /x/ { \(line) }"
    #expect(server(page) == words)
    for guarded in [
      "location /x/ { allow 127.0.0.1; deny all; \(line) }", "auth_basic a; auth_basic_user_file u; \(page)",
      "location /x/ { internal; \(line) }", "location /x/ { if ($arg_a) { return 403; } \(line) }",
    ] { #expect(server(guarded) == [], "\(guarded)") }
    for open in [
      "location /x/ { satisfy any; allow all; auth_basic a; auth_basic_user_file u; \(line) }",
      "location /x/ { allow all; deny all; \(line) }",
      "location /x/ { allow 10.0.0.0/8; allow all; deny all; \(line) }",
      "auth_basic a; auth_basic_user_file u; location /x/ { auth_basic off; \(line) }",
    ] { #expect(server(open) == words, "\(open)") }
    #expect(server("\(Self.tls) \(page)", listen: "listen 443 ssl;") == [])
    #expect(server(page, listen: "listen 127.0.0.1:80; listen unix:/run/a.sock; listen [::1]:80;") == [])
    #expect(server(page, listen: "listen 127.0.0.1:80; listen 10.0.0.1:80;") == words)
  }

  @Test func `protecting fields that a location loses`() {
    let outer = "add_header Strict-Transport-Security x always; add_header X-Frame-Options DENY; add_header X-Other y;"
    #expect(
      server("\(outer) location / { add_header A b; return 204; }") == [
        "\"add_header\" replaces the lines around it: the responses here lack Strict-Transport-Security, X-Frame-Options"
      ])
    let pass = "proxy_pass http://127.0.0.1:1;"
    for lines in [
      "\(outer) location / { return 204; }",
      "\(outer) location / { add_header_inherit merge; add_header A b; return 204; }",
      "add_header X-Other y; location / { add_header A b; return 204; }",
      "\(outer) location / { add_header x-frame-options a; add_header Strict-Transport-Security z; return 204; }",
      "\(outer) location / { if ($request_method = OPTIONS) { add_header A b; return 204; } return 200; }",
      // A redirect, and the responses of subrequests, are no page.
      "\(outer) location / { add_header A b; return 301 https://a.test$request_uri; }",
      "\(outer) location / { add_header A b; return https://a.test/; }",
      "\(outer) location / { add_header A b; rewrite ^/(.*)$ https://a.test/$1 permanent; }",
      "\(outer) location = /ask { internal; add_header A b; return 204; } location / { auth_request /ask; \(pass) }",
      "\(outer) location /ask/ { internal; add_header A b; return 204; } location / { mirror /ask/x; \(pass) }",
    ] { #expect(server(lines) == [], "\(lines)") }
    for lines in [
      "\(outer) location = /x { internal; add_header A b; return 204; } location / { auth_request /ask; \(pass) }",
      "\(outer) location = /ask { add_header A b; return 204; } location / { auth_request /ask; \(pass) }",
      "\(outer) location / { add_header A b; rewrite ^/old/ https://a.test/ permanent; return 200; }",
    ] { #expect(server(lines).count == 1, "\(lines)") }
  }

  @Test func `slashes that lead past a location's rules`() {
    let rules =
      "location /admin/ { deny all; proxy_pass http://127.0.0.1:1; } location / { proxy_pass http://127.0.0.1:1; }"
    let words = ["with \"merge_slashes off\", a request for \"//admin/\" escapes the rules of location \"/admin/\""]
    #expect(server("merge_slashes off; path_readings off; \(rules)") == words)
    #expect(server("merge_slashes off; path_readings case; \(rules)") == words)
    // `path_readings` looks up paths with fewer slashes, unless it is told not to.
    #expect(server("merge_slashes off; \(rules)") == [])
    #expect(server("path_readings off; \(rules)") == [])
    let same = "deny 10.0.0.1; location /a { proxy_pass http://127.0.0.1:1; }"
    #expect(server("merge_slashes off; path_readings off; \(same)") == [])
  }

  @Test func `a folder with files that are for nobody`() {
    func words(_ line: String, _ what: String) -> [String] { ["\"\(line)\" serves \(what)"] }
    #expect(server("location / { root /etc; }") == words("root /etc", "a folder of the system"))
    #expect(server("location /a/ { alias /proc/; }") == words("alias /proc/", "a folder of the system"))
    #expect(server("root /var; location / { }") == words("root /var", "a folder of the system"))
    // The configuration is /etc/x.conf.
    #expect(server("location / { root /etc/$host; }") == words("root /etc/$host", "a folder of the system"))
    #expect(
      server(
        "\(Self.tls.replacing("s.key", with: "/srv/www/tls/s.key")) location / { root /srv/www; }",
        listen: "listen 443 ssl;")
        == words("root /srv/www", "the key \"/srv/www/tls/s.key\", too"))
    for lines in [
      "location / { root /var/www; }", "location = /favicon.ico { root /etc; }", "location / { root /etc/html; }",
      "location /a/ { alias /srv/$host/; }", "location /munin/ { root /var; }",
      "location /.well-known/acme-challenge/ { root /etc/letsencrypt; }",
      // No request gets a file of it: each location has something else, or a folder inside.
      "root /var; location / { proxy_pass http://127.0.0.1:1; }", "root /var; location / { return 204; }",
      "root /var; location / { root /srv/www; } location /lib/ { deny all; } location /kept/ { internal; }",
      "root /var; location / { proxy_pass http://127.0.0.1:1; } location /munin/ { }", "root /var; return 404;",
      // A few names.
      #"location ~* \.(css|jpe?g|png)$ { root /var; }"#, "location ~ ^/(static|media)/ { root /var; }",
      #"root /var; location / { return 204; } location ~ ^/(favicon\.ico|robots\.txt)$ { }"#,
    ] { #expect(server(lines) == [], "\(lines)") }
    for lines in [
      "root /var; location /a/ { proxy_pass http://127.0.0.1:1; }",
      "root /var; location / { proxy_pass http://127.0.0.1:1; location /a/ { } } location ~ x { }",
      "root /var; location / { return 204; } location ~ ^/(.*)$ { }",
    ] { #expect(server(lines) == words("root /var", "a folder of the system"), "\(lines)") }
    // A pattern that matches the name of a key.
    let tls = Self.tls.replacing("s.key", with: "/srv/www/tls/s.key")
    func key(_ pattern: String) -> [String] {
      server("\(tls) location ~ \(pattern) { root /srv/www; }", listen: "listen 443 ssl;")
    }
    #expect(key(#"\.(key|crt)$"#) == words("root /srv/www", "the key \"/srv/www/tls/s.key\", too"))
    #expect(key(#"\.(css|js)$"#) == [])
  }

  /// gixy's class `alias_traversal`.
  @Test func `an alias, or its location, without a slash at its end`() {
    #expect(server("location /a { alias /srv/a/; }").count == 1)
    #expect(
      server("location /a { alias /srv/b; }") == [
        "location \"/a\" also matches \"/a-old/x\", which is the file \"/srv/b-old/x\""
      ])
    for lines in [
      "location /a/ { alias /srv/a/; }", "location /robots.txt { alias /srv/robots.txt; }",
      "location = /a { alias /srv/a; }", "location /robots { alias /srv/robots.txt; }",
      "location /a { internal; alias /srv/a/; }", "location /a { internal; alias /srv/b; }",
    ] { #expect(server(lines) == [], "\(lines)") }
    #expect(LoadedText.server("location /a/ { alias /srv/a; }").errors.count == 1)
  }
}

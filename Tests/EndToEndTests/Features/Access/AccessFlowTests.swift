import TestSupport
import Testing

@Suite(.staged) struct `Methods, referers and error pages, beside nginx` {
  @Test func `an error page's status, and error pages of error pages, are nginx's`() async throws {
    let both = try await NginxComparison(
      Scene.ofTest(),
      #"""
      server { listen PORT; absolute_redirect off;
      location /er1 { error_page 404 =200 /e404; return 404; }
      location /e404 { return 404; }
      location /er2 { error_page 404 /e200; return 404; }
      location /e200 { return 200; }
      location /er3 { error_page 404 /e405; return 404; }
      location /e405 { return 405; }
      location /er4 { error_page 302 /e2; return 302 /foo; }
      location /e2 { return 200 "e2 $uri\n"; }
      location /er5 { error_page 404 /e204; return 404; }
      location /e204 { return 204; }
      location /er6 { error_page 404 = /e6; return 404; }
      location /e6 { return 301 /zzz; }
      location /er8 { error_page 404 @n; return 404; }
      location @n { return 200 "$uri named\n"; }
      location /rec1 { recursive_error_pages on; error_page 404 /rec2; return 404; }
      location /rec2 { recursive_error_pages on; error_page 403 /rec3; return 403; }
      location /rec3 { error_page 410 /rec4; return 410; }
      location /rec4 { error_page 411 /e200; return 411; }
      location /reccyc { recursive_error_pages on; error_page 404 /reccyc; return 404; }
      location /nrec { error_page 404 /nrec2; return 404; }
      location /nrec2 { error_page 403 /e2; return 403; }
      location /ervar { set $t /e2; error_page 404 $t; return 404; }
      location /ervarn { set $t @n; error_page 404 = $t; return 404; }
      }
      """#)
    try await both.expectSame([
      "/er1", "/er2", "/er3", "/er4", "/er5", "/er6", "/er8", "/rec1", "/rec3", "/reccyc", "/nrec", "/ervar",
      "/ervarn", NginxComparison.Request("/er2", "-d", "abc"), NginxComparison.Request("/er8", "-d", "abc"),
    ])
  }

  @Test func `limit_except, satisfy and auth_delay let in whom nginx lets in`() async throws {
    let scene = try Scene.ofTest()
    // al:secret
    try scene.write("users", text: "al:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n")
    let both = try await NginxComparison(
      scene,
      #"""
      server { listen PORT;
      location /lim { limit_except GET POST { deny all; } return 200 "lim\n"; }
      location /limp { limit_except GET { deny all; } proxy_pass http://UPSTREAM; }
      location /limp2 { limit_except PUT { proxy_pass http://UPSTREAM2; } proxy_pass http://UPSTREAM; }
      location /sat { satisfy any; deny all; auth_basic r; auth_basic_user_file FOLDER/users; proxy_pass http://UPSTREAM; }
      location /sata { satisfy all; allow all; auth_basic r; auth_basic_user_file FOLDER/users; proxy_pass http://UPSTREAM; }
      location /sato { satisfy any; allow all; auth_basic r; auth_basic_user_file FOLDER/users; proxy_pass http://UPSTREAM; }
      location /limauth { limit_except GET { auth_basic r; auth_basic_user_file FOLDER/users; } proxy_pass http://UPSTREAM; }
      location /dly { auth_delay 300ms; auth_basic r; auth_basic_user_file FOLDER/users; proxy_pass http://UPSTREAM; }
      }
      """#)
    for path in ["/lim", "/limp", "/limp2", "/limauth"] {
      try await both.expectSame([.init(path), .init(path, "-I"), .init(path, "-X", "POST", "-u", "al:secret")])
      try await both.expectSame(["POST", "PUT", "DELETE", "OPTIONS", "FOO"].map { .init(path, "-X", $0) })
    }
    for path in ["/sat", "/sata", "/sato", "/dly"] {
      try await both.expectSame([.init(path), .init(path, "-u", "al:secret"), .init(path, "-u", "al:wrong")])
    }
    try await both.daemon.logged("[info]", "delaying unauthorized request")
  }

  @Test func `valid_referers takes the Referers that nginx takes`() async throws {
    let both = try await NginxComparison(
      Scene.ofTest(),
      #"""
      server { listen PORT; server_name sn.test ~^re\.(?<rn>.*)$;
      location /ref { valid_referers none blocked server_names *.example.com example.* www.ok.org/path ~\.google\.; if ($invalid_referer) { return 403 "inv $invalid_referer\n"; } return 200 "val\n"; }
      location /ref2 { valid_referers good.com; return 200 "[$invalid_referer]\n"; }
      location /ref3 { return 200 "[$invalid_referer]\n"; }
      }
      """#)
    let referers = [
      "http://sn.test/", "https://SN.test/x", "http://a.example.com/", "http://example.net/",
      "http://www.ok.org/path/x", "http://www.ok.org/other", "http://www.ok.org", "http://www.ok.org:80/path",
      "http://x.google.com/", "x.google.com/long", "ftp://abcdefgh", "http://re.foo/", "http://other.com",
      "http://good.com/", "http://good.com.evil/", "http://a", "blockedblocked",
    ]
    for path in ["/ref", "/ref2", "/ref3"] {
      try await both.expectSame([.init(path), .init(path, "-H", "Referer;")])
      try await both.expectSame(referers.map { .init(path, "-e", $0) })
    }
  }
}

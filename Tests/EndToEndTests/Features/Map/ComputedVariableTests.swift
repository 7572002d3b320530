import Foundation
import TestSupport
import Testing

@Suite(.staged) struct `Computed variables, beside nginx` {
  private func both() async throws -> NginxComparison {
    let scene = try Scene.ofTest()
    try scene.write("inc.map", text: #"key1 v1; default vd; ~^re(.)$ "r$1";"#)
    return try await NginxComparison(
      scene,
      #"""
      map $arg_m $m1 { default "def"; abc "ABC"; "" empty; ~^(x.)(?<mrest>.*)$ "[$1|$mrest]"; ~*^CASE "case"; \~tilde lit; "two words" tw; }
      map $http_host $m2 { hostnames; default none; .example.com dot; *.wild.org wild; www.tail.* tail; exact.net exact; }
      map "$arg_a:$arg_b" $m3 { "1:2" "one-two $arg_c"; default $m1; }
      map $arg_n $m4 { include FOLDER/inc.map; }
      map $uri $m5 { /map "is map"; }
      map $k $mv { volatile; 1 one; 2 two; }
      map $k $mk { 1 one; 2 two; }
      geo $g1 { default d; 127.0.0.0/8 loop; 127.0.0.1 me; 10.0.0.0/8 ten; }
      geo $arg_ip $g2 { default d; 10.0.0.0/8 ten; 10.1.0.0/16 tenone; 10.1.2.0/24 tentwo; delete 10.1.2.0/24; 192.168.1.1 host; 2001:db8::/32 six; 2001:db8:1::/48 sixone; ::1 v6me; 255.255.255.255 none; }
      geo $arg_ip $g3 { ranges; default d; 10.0.0.0-10.0.0.255 a; 10.0.0.10-10.0.0.20 b; 10.0.1.0-10.0.1.0 c; }
      geo $g4 { default d; proxy 127.0.0.1; 1.2.3.4 xff; 5.6.7.8 xff2; }
      geo $g5 { default d; proxy 127.0.0.1; proxy 5.6.7.0/24; proxy_recursive; 1.2.3.4 xff; 5.6.7.8 xff2; }
      split_clients "${arg_id}AAA" $s1 { 0.5% a; 20% b; 33.33% c; * d; }
      split_clients $arg_id $s2 { 50% x; 50% y; }
      server { listen PORT; server_name sn.test;
      location /out { return 200 "$uri|$args|$request_uri|$is_args\n"; }
      location /rwm/ { rewrite ^/rwm/(.*)$ /out/$m1/$1 last; }
      location /map { return 200 "$m1|$m2|$m3|$m4|$m5\n"; }
      location /vol { set $k 1; set $p1 $mv; set $k 2; set $p2 $mv; set $k 1; set $q1 $mk; set $k 2; set $q2 $mk; return 200 "$p1 $p2 $q1 $q2\n"; }
      location /geo { return 200 "$g1|$g2|$g3|$g4|$g5\n"; }
      location /split { return 200 "$s1|$s2\n"; }
        location ~ ^/capm/(\w+)$ { return 200 "$m1 $1\n"; }
      }
      """#)
  }

  @Test func `map, geo and split_clients have nginx's values`() async throws {
    let both = try await both()
    try await both.expectSame([
      "/capm/ab?m=xyzz", "/capm/ab?m=abc", "/rwm/ab?m=xyzz", "/rwm/ab?m=q", "/map?m=abc", "/map?m=ABC", "/map",
      "/map?m=xyrest", "/map?m=caseXX", "/map?m=~tilde", "/map?m=two%20words&a=1&b=2&c=cc", "/map?a=1&b=2&c=cc",
      "/map?n=key1", "/map?n=reZ", "/map?n=other", "/vol", "/geo", "/geo?ip=10.1.2.3", "/geo?ip=10.1.255.1",
      "/geo?ip=10.2.0.1", "/geo?ip=11.0.0.0", "/geo?ip=192.168.1.1", "/geo?ip=2001:db8::5", "/geo?ip=2001:db8:1::5",
      "/geo?ip=::1", "/geo?ip=::ffff:10.1.1.1", "/geo?ip=10.0.0.15", "/geo?ip=10.0.0.21", "/geo?ip=10.0.0.9",
      "/geo?ip=10.0.1.0", "/geo?ip=10.0.1.1", "/geo?ip=nonsense", "/geo?ip=10.1.2.3:80",
    ])
    let hosts = [
      "example.com", "www.example.com", "a.b.EXAMPLE.com", "x.wild.org", "wild.org", "www.tail.net", "exact.net",
      "exact.net.", "other",
    ]
    try await both.expectSame(hosts.map { .init("/map", "-H", "Host: \($0)") })
    let lists = [
      "1.2.3.4", "1.2.3.4, 5.6.7.8", "9.9.9.9", "1.2.3.4, 127.0.0.1", "bad", "1.2.3.4,5.6.7.9", "1.2.3.4:80",
      "1.2.3.4, bad", " 5.6.7.8 , ",
    ]
    try await both.expectSame(lists.map { .init("/geo", "-H", "X-Forwarded-For: \($0)") })
    try await both.expectSame([.init("/geo", "-H", "X-Forwarded-For: 1.2.3.4", "-H", "X-Forwarded-For: 5.6.7.8")])
  }

  @Test func `a name that only sallyport has is the configuration's where it defines it`() async throws {
    let scene = try Scene.ofTest()
    let both = try await NginxComparison(
      scene,
      #"""
      map $arg_a $ssl_client_s_dn_cn { default "of map $arg_a"; }
      geo $arg_ip $ssl_client_spki { default none; 10.0.0.0/8 ten; }
      split_clients $arg_a $span_id { * split; }
      server { listen PORT;
        location /all { return 200 "$ssl_client_s_dn_cn|${SSL_CLIENT_SPKI}|$span_id|$ssl_client_verdict|$trace_id\n"; }
        location ~ ^/captured/(?<upstream_ssl_spki>.*)$ { return 200 "$upstream_ssl_spki\n"; }
        location /set { set $ssl_client_verdict "set $ssl_client_s_dn_cn"; set $trace_id mine;
          rewrite ^ /all last; }
        location /up { set $proxy_host own.example; proxy_set_header X-Name "$ssl_client_s_dn_cn $proxy_host";
          proxy_pass http://UPSTREAM; }
        location / { proxy_set_header X-Name "$proxy_host"; proxy_pass http://UPSTREAM; }
      }
      """#)
    try await both.expectSame([
      "/all?a=1&ip=10.1.1.1", "/all", "/captured/x", "/set?a=2", "/up?a=3", "/other",
    ])
  }

  @Test func `a field's, an argument's and the proxy's variables can be computed and captured`() async throws {
    let scene = try Scene.ofTest()
    let both = try await NginxComparison(
      scene,
      #"""
      map $arg_a $http_x_mapped { default "of map $arg_a"; none ""; }
      map $arg_a $proxy_port { default "port of $arg_a"; }
      geo $arg_ip $arg_geo { default none; 10.0.0.0/8 ten; }
      split_clients $arg_a $cookie_part { * split; }
      server { listen PORT;
        location /all { return 200 "$http_x_mapped|$arg_geo|$cookie_part|$http_x_captured|$http_x_asked|$http_x_set\n"; }
        location ~ ^/captured/(?<http_x_captured>.*)$ { return 200 "$http_x_captured|$http_x_mapped\n"; }
        location /set { set $http_x_mapped set; set $http_x_set set; rewrite ^ /all last; }
        location /asked { auth_request /yes; auth_request_set $http_x_asked asked; error_page 404 = /all; }
        location /yes { return 204; }
        location /up { proxy_set_header X-Port "$proxy_port"; proxy_pass http://UPSTREAM; }
      }
      """#)
    let own = ["Mapped", "Captured", "Asked", "Set"].flatMap { ["-H", "X-\($0): own"] } + ["-H", "Cookie: part=own"]
    try await both.expectSame([
      .init("/all?a=1&ip=10.1.1.1&geo=own", own), .init("/all?a=none", own), .init("/captured/x", own),
      .init("/set", own), .init("/asked", own), .init("/up?a=1", own),
    ])
  }

  @Test func `check says which names are the configuration's, once each, and the format json keeps its own`()
    async throws
  {
    let scene = try Scene.ofTest()
    let port = try scene.port()
    let text = """
      map $arg_a $ssl_client_verdict { default mine; }
      server { listen 127.0.0.1:\(port); access_log json.log json;
        set $trace_id 1; set $trace_id 2; return 200 "$ssl_client_verdict";
      }
      """
    _ = try await Sallyport.start(scene, configuration(text))
    let found = try scene.check(configuration(text))
    #expect(found.isValid)
    for name in ["ssl_client_verdict", "trace_id"] {
      let words = "notice: \"$\(name)\" is the variable that this configuration defines"
      #expect(found.description.components(separatedBy: words).count == 2, "\(found)")
    }
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/"]).text == "mine")
    try await until("a line") { scene.text("json.log").contains("client_verdict") }
    #expect(scene.text("json.log").contains("\"client_verdict\":\"\""), "\(scene.text("json.log"))")
  }

  @Test func `the same client is in the same share as with nginx`() async throws {
    let texts = ["", "a", "ab", "abc"] + (0..<60).map { "u\($0 * 7919)" }
    try await both().expectSame(texts.map { .init("/split?id=\($0)") })
  }
}

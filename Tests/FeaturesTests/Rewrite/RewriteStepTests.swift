import Bytes
@testable import Features
@testable import Forward
import TestSupport
import Testing
@testable import Traffic
import Transport

@Suite struct `Rewriting and captures` {
  /// The body of the response to a request.
  private func body(_ rig: Rig, _ path: String) throws -> String {
    let answer = try rig.answer("GET \(path) HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    return String(answer.split(separator: "\r\n\r\n", maxSplits: 1).last ?? "")
  }

  private func status(_ rig: Rig, _ path: String) throws -> Substring {
    try rig.answer("GET \(path) HTTP/1.1\r\nHost: a\r\n\r\n").dropFirst(9).prefix(3)
  }

  /// `set` and `return` of `stream` are other directives of the same name.
  @Test func `directives of stream do nothing in http`() throws {
    let rig = try Rig(
      """
      server { listen 1080;
        location /a { set $x "1$x"; error_page 403 = @b; deny all; }
        location @b { return 200 "$x"; }
        location /c/ { rewrite ^ /d break; return 200 x; } }
      """)
    #expect(try body(rig, "/a") == "1")
    #expect(try status(rig, "/c/") == "404")
  }

  @Test(arguments: ["%0d%0aX-Evil:1", "%0a", "%01", "%7f"])
  func `a redirect whose address would have a control character is the client's fault`(text: String) throws {
    let scene = try Scene()
    defer { scene.end() }
    let rig = try Rig(
      """
      error_log \(scene.path("error.log")) info;
      server { listen 1080; absolute_redirect off;
        location ~ "(?s)^/r/(.*)$" { return 302 http://h/$1; }
        location ~ "(?s)^/p/(.*)$" { return 301 /$1; }
        location ~ "(?s)^/e/(.*)$" { error_page 404 = http://h/$1; return 404; }
        location ~ "(?s)^/l/(.*)$" { recursive_error_pages on; error_page 400 404 http://h/$1; return 404; }
        location ~ "(?s)^/o/(.*)$" { error_page 400 = @own; return 302 http://h/$1; }
        location @own { return 400 own; } }
      """)
    for place in ["r", "p", "e", "l", "o"] {
      let answer = try rig.answer("GET /\(place)/a\(text) HTTP/1.1\r\nHost: a\r\n\r\n")
      #expect(answer.hasPrefix("HTTP/1.1 400 ") && !answer.contains("Evil"), "\(place): \(answer)")
      #expect(answer.hasSuffix("own") == (place == "o"))
      #expect(try status(rig, "/\(place)/a%C3%A9") != "400")
    }
    let log = scene.text("error.log")
    #expect(log.contains("[info]") && log.contains("control characters that the address of a redirect would have"))
    #expect(!log.contains("[error]") && !log.contains("[warn]"))
  }

  @Test func `CVE-2026-42945: a capture after a rewrite with a question mark is as long as it is`() throws {
    let rig = try Rig(
      """
      server { listen 1080; location /a/ { rewrite ^/a/(.*)$ /b?c=1; set $x $1; if ($x = $1) { set $y same; }
        return 200 "$x|$args|$y"; } }
      """)
    let plus = String(repeating: "+", count: 2000)
    #expect(try body(rig, "/a/\(plus)%26") == "\(plus)&|c=1|same")
  }

  @Test func `CVE-2026-9256: overlapping captures are escaped each by itself`() throws {
    let rig = try Rig(
      """
      server { listen 1080; location /o/ { rewrite ^/o/((.*))$ /out?a=$1&b=$2 last; } location /out { return 200 $args; }
        location /r/ { rewrite ^/r/((.*))$ http://h/$1?$2 redirect; } }
      """)
    let (plus, escaped) = (String(repeating: "+&", count: 1000), String(repeating: "%2B%26", count: 1000))
    #expect(try body(rig, "/o/\(plus)") == "a=\(escaped)&b=\(escaped)")
    #expect(
      try rig.answer("GET /r/\(plus) HTTP/1.1\r\nHost: a\r\n\r\n").contains("Location: http://h/\(plus)?\(escaped)"))
  }

  @Test func `CVE-2026-42533: a map's captures in a longer string belong to the map's own text`() throws {
    let rig = try Rig(
      """
      map $arg_m $m { ~^(.*)z$ "[$1]"; }
      server { listen 1080; location ~ ^/(x)$ { return 200 "$1$m$1"; } }
      """)
    let long = String(repeating: "y", count: 3000)
    #expect(try body(rig, "/x?m=\(long)z") == "x[\(long)]\(long)")
    #expect(try body(rig, "/x?m=nothing") == "xx")
  }

  @Test func `CVE-2026-60005: unnamed captures of an earlier match, text or request are never read`() throws {
    let rig = try Rig(
      """
      server { listen 1080;
        location ~ ^/three/(.)(.)(.)$ { if ($arg_a ~ ^(one)$) { set $n 1; } return 200 "$1,$2,$3"; }
        location /none { return 200 "$1,$2,$3"; }
        location /miss { if ($arg_a ~ (x)) { set $n 1; } if ($arg_a ~ y) { set $n 2; } return 200 "[$1]"; }
        location ~ ^/opt/(a)?(b)?(c)?$ { return 200 "$1,$2,$3,$4"; } }
      """)
    #expect(try body(rig, "/three/abc?a=one") == "one,,")
    #expect(try body(rig, "/three/abc?a=two") == ",,")
    #expect(try body(rig, "/none") == ",,")
    #expect(try body(rig, "/miss?a=x") == "[]")
    #expect(try body(rig, "/opt/ac") == "a,,c,")
  }

  /// As in nginx, `$http_` is all lines, joined: no line hides another one, whichever of them the upstream reads.
  @Test func `CVE-2026-26308: a rule by a field sees all its lines`() throws {
    let rig = try Rig(
      """
      map $http_x_role $role { default other; "~*(^|, *)admin( *,|$)" admin; }
      server { listen 1080; location /map { if ($role = admin) { return 403; } return 200 "$http_x_role"; }
        location /if { if ($http_x_role ~* "(^|, *)admin( *,|$)") { return 403; } return 200 "$http_x_role"; } }
      """)
    for path in ["/map", "/if"] {
      for (lines, status) in [
        (["X-Role: admin"], 403), (["X-Role: user", "x-role: ADMIN"], 403), (["X-ROLE: admin", "X-Role: user"], 403),
        (["X-Role: user, admin", "X-Role: user"], 403), (["X-Role: user", "X-Role: admins"], 200), ([], 200),
      ] {
        let client = try rig.ask(["GET \(path) HTTP/1.1", "Host: a"] + lines)
        #expect(client.status == UInt16(status), "\(path) \(lines)")
        if status == 200 { #expect(client.body == lines.map { $0.dropFirst(8) }.joined(separator: ", ")) }
      }
    }
  }

  @Test func `a decision that rests on a regular expression which gave up is none: the answer is 500`() throws {
    let rig = try Rig(
      #"""
      map $arg_m $denied { "~^(a+)+$" 0; default 0; }
      server { listen 1080; location / { if ($denied) { return 403; } return 200 in; }
        location /say { return 302 /$denied; } location /re { if ($arg_m ~ "^(a+)+$") { return 403; } return 200 in; }
        location /pass { proxy_pass http://127.0.0.1:9; proxy_set_header X $denied; } }
      """#)
    let heavy = String(repeating: "a", count: 60) + "c"
    for path in ["/", "/say", "/re"] {
      #expect(try status(rig, "\(path)?m=\(heavy)") == "500", "\(path)")
    }
    let client = try rig.ask("GET /pass?m=\(heavy) HTTP/1.1", "Host: a")
    try rig.upstream.open()
    #expect(try rig.upstream.sent.isEmpty && client.status == 500)
    #expect(try status(rig, "/?m=x") == "200")
  }

  @Test func `an address of a redirect loses the escapes that it needs not`() {
    for (text, expected) in [
      ("/a", "/a"), ("/%41%2f%20", "/A/%20"), ("/%3Fx%41", "/?x%41"), ("/a?%41", "/a?%41"),
      ("/%25%7f%80", "/%25%7f%80"),
      ("/%", "/"), ("/%4", "/"), ("/%zz", "/zz"), ("/%4z", "/"), ("", ""),
    ] {
      let unescaped = RedirectAddress.unescape(Array(text.utf8))
      #expect(String(decoding: unescaped, as: UTF8.self) == expected, "\(text)")
    }
  }
}

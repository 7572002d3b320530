import TestSupport
import Testing

@Suite(.staged) struct `Rewriting, beside nginx` {
  @Test func `rewrite changes paths and queries, and redirects, as nginx does it`() async throws {
    let both = try await NginxComparison(
      Scene.ofTest(),
      #"""
      server { listen PORT; server_name sn.test; absolute_redirect off;
      rewrite ^/srv/(.*)$ /fromserver/$1 last;
      rewrite ^/srvbreak/(.*)$ /pass/$1 break;
      rewrite ^/srvred/(.*)$ /x$1 redirect;
      rewrite ^/a\+b/(.*)$ /out/$1?x=$1;
      location /fromserver { return 200 "$uri|$args|$1\n"; }
      location /pass/ { proxy_pass http://UPSTREAM/other/; }
      location /out { return 200 "$uri|$args|$request_uri|$is_args\n"; }
      location /last/ { rewrite ^/last/(.*)$ /out/$1 last; return 200 "not reached"; }
      location /noflag/ { rewrite ^/noflag/(.*)$ /one/$1; rewrite ^/one/(.*)$ /out/two/$1; set $z $1; }
      location /brk/ { rewrite ^/brk/(.*)$ /out/$1 break; return 200 "x"; }
      location /brkp/ { rewrite ^/brkp/(.*)$ /newpath/$1 break; proxy_pass http://UPSTREAM; }
      location /brkpu/ { rewrite ^/brkpu/(.*)$ /newpath/$1 break; proxy_pass http://UPSTREAM/uri/; }
      location /brkdir/ { rewrite ^/brkdir/(.*)$ /newpath/$1; break; proxy_pass http://UPSTREAM/uri/; }
      location /red/ { rewrite ^/red/(.*)$ /out/$1 redirect; }
      location /perm/ { rewrite ^/perm/(.*)$ https://example.com/$1 permanent; }
      location /http/ { rewrite ^/http/(.*)$ http://example.com/$1; }
      location /scheme/ { rewrite ^/scheme/(.*)$ $scheme://example.com/$1?a=$1; }
      location /drop/ { rewrite ^/drop/(.*)$ /out/$1? last; }
      location /dropred/ { rewrite ^/dropred/(.*)$ /out/$1? redirect; }
      location /args/ { rewrite ^/args/(.*)$ /out?x=$1 last; }
      location /argsdrop/ { rewrite ^/argsdrop/(.*)$ /out?x=$1&y=$uri? last; }
      location /redargs/ { rewrite ^/redargs/(.*)$ /out?x=$1 redirect; }
      location /cyc/ { rewrite ^/cyc/(.*)$ /cyc/$1x last; }
      location /named/ { rewrite ^/named/(?<first>[^/]*)/(?<second>.*)$ /out/$second/$first last; }
      location /opt/ { rewrite ^/opt/(a)?(b)?$ /out/1=$1,2=$2,3=$3 last; }
      location /zero { rewrite ^/zero $arg_nothing last; }
      location /int { internal; return 200 "internal $uri\n"; }
      location /toint { rewrite ^ /int last; }
      location /setargs { set $args "new=$arg_old&$args"; return 200 "$args|$arg_new|$uri|$request_uri\n"; }
      location /setargsp { set $args "p=1"; proxy_pass http://UPSTREAM; }
      location /e2 { return 200 "e2 $uri\n"; }
      location /rwred302 { error_page 302 /e2; rewrite ^ /foo redirect; }
      }
      """#)
    try await both.expectSame([
      "/srv/abc?x=1", "/srvbreak/abc/d%20e?x=1", "/srvred/abc?x=1", "/a+b/c+d%26e", "/a+b/c?y=2", "/last/a?b=c",
      "/last/a%20b%3Fc?d", "/noflag/x/y?z=1", "/brk/x", "/brkp/x%20y?q=1", "/brkp/x", "/brkp/x?", "/brkpu/x?q=1",
      "/brkdir/x%2F?q=1", "/red/x%20y?q=1", "/red/x%25y", "/red/%D0%B0/x", "/red/x%3Fy%23z%26", "/red/a+b",
      "/perm/x?q=1", "/perm/x%20y", "/http/x", "/scheme/x%20y?q=1", "/scheme/a&b", "/drop/x?q=1", "/dropred/x?q=1",
      "/args/x%20y&z%26?q=1", "/args/x%2By%3D%3B%22%3C%3E%5C%5E%60%7B%7C%7D%C3%A9", "/args/x&y?q=1",
      "/argsdrop/a%20b?q=1", "/redargs/a%20b?q=1", "/redargs/ab", "/cyc/a", "/named/one/two?x",
      "/named/one%20z/two%20y", "/opt/ab", "/opt/b", "/opt/", "/zero", "/int", "/toint", "/setargs?old=1&b=2",
      "/setargs", "/setargsp/x%20y?old=1", "/rwred302", NginxComparison.Request("/brkp/x", "-d", "abc"),
      NginxComparison.Request("/last/x", "-d", "abc"),
    ])
  }

  @Test func `if has nginx's operators, and nginx's ways with the locations that it makes`() async throws {
    let scene = try Scene.ofTest()
    try scene.write("a.txt", text: "a")
    let both = try await NginxComparison(
      scene,
      #"""
      server { listen PORT; server_name sn.test; absolute_redirect off;
      if ($arg_block) { return 403 "blocked $arg_block\n"; }
      if ($http_user_agent ~* "badbot(?<botver>\d*)") { set $bot "bot$botver"; }
      set $sv "server";
      location /out { return 200 "$uri|$args|$request_uri|$is_args\n"; }
      location /sets { set $a "1"; set $b "$a-2"; set $a "3"; return 200 "$a $b $sv $bot $botver\n"; }
      location /ifvar { if ($arg_v) { return 200 "true\n"; } return 200 "false\n"; }
      location /ifeq { if ($arg_v = "a b") { return 200 "eq\n"; } if ($arg_v != x) { return 200 "ne\n"; } return 200 "x\n"; }
      location /ifre { if ($arg_v ~ ^(x+)(y)?) { set $got "$1-$2"; } if ($arg_v !~ ^x) { set $got "none $1"; } return 200 "$got\n"; }
      location /ifrei { if ($arg_v ~* ^ABC$) { return 200 "i\n"; } if ($arg_v !~* "^xyz") { return 200 "noti\n"; } return 200 "xyz\n"; }
      location /iff { if (-f FOLDER/a.txt) { set $f "f"; } if (-d FOLDER) { set $f "${f}d"; } if (-e FOLDER/$arg_f) { set $f "${f}e"; } if (!-f /nonexistent) { set $f "${f}!"; } if (-x FOLDER) { set $f "${f}x"; } if (-e /dev/null) { set $f "${f}N"; } if (!-x FOLDER/a.txt) { set $f "${f}n"; } return 200 "$f\n"; }
      location /ifloc { add_header X-Outer o; set $i 0; if ($arg_a) { add_header X-A a; set $i 1; } if ($arg_b) { add_header X-B b; set $i "${i}2"; } proxy_pass http://UPSTREAM; }
      location /ifstick { if ($arg_a) { proxy_pass http://UPSTREAM; } if ($arg_b) { add_header X-B b; } }
      location /iftwo { proxy_pass http://UPSTREAM; if ($arg_a) { proxy_pass http://UPSTREAM2; } if ($arg_b) { set $q 1; } }
      location /ifbreak { if ($arg_a) { set $w a; break; } set $w "${w}b"; proxy_pass http://UPSTREAM; add_header X-W $w; }
      location /ifrw { if ($arg_a) { rewrite ^ /out/ifrw last; } return 200 "no\n"; }
      location /ifret { add_header X-O o always; if ($arg_a) { add_header X-I i always; return 403; } return 200 "ok\n"; }
      location /retcap { if ($request_uri ~ ^/retcap/([^?]*)) { return 302 /out/$1; } }
      }
      """#)
    try await both.expectSame([
      "/anything?block=1", "/sets", "/ifvar", "/ifvar?v=0", "/ifvar?v=", "/ifvar?v=00", "/ifvar?v=1",
      "/ifeq?v=a%20b", "/ifeq?v=x", "/ifeq?v=y", "/ifre?v=xxy", "/ifre?v=xx", "/ifre?v=z", "/ifrei?v=abc",
      "/ifrei?v=XYZ", "/ifrei?v=q", "/ifloc", "/ifloc?a=1", "/ifloc?b=1", "/ifloc?a=1&b=1", "/ifstick?a=1",
      "/ifstick?a=1&b=1", "/ifstick?b=1", "/iftwo/x%20y", "/iftwo?a=1", "/iftwo?b=1", "/iftwo?a=1&b=1", "/ifbreak",
      "/ifbreak?a=1", "/ifrw?a=1", "/ifrw", "/ifret", "/ifret?a=1", "/retcap/x%20y?z", "/iff?f=a.txt",
      "/iff?f=nope", "/iff", NginxComparison.Request("/sets", "-A", "BadBot77"),
    ])
  }

  @Test func `rewrite_log says what matched, and an unset variable is told once in a request`() async throws {
    let both = try await NginxComparison(
      Scene.ofTest(),
      #"""
      server { listen PORT; rewrite_log on;
        location / { rewrite ^/a/(.*)$ /b/$1; if ($uri ~ x) { set $seen 1; } return 200 "$seen$seen"; }
        location /quiet { uninitialized_variable_warn off; rewrite_log off; if ($arg_q) { set $unsaid 1; } return 200 "$unsaid."; }
        location /url { rewrite ^/url/(.*)$ http://other.test/$1 permanent; }
      }
      """#)
    try await both.expectSame(["/a/y?q", "/quiet", "/url/x"])
    try await both.daemon.logged("[notice]", #""^/a/(.*)$" matches "/a/y""#)
    try await both.daemon.logged("[notice]", #"rewritten data: "/b/y", args: "q""#)
    try await both.daemon.logged("[notice]", #""x" does not match "/b/y""#)
    try await both.daemon.logged("[notice]", #"rewritten redirect: "http://other.test/x""#)
    try await both.daemon.logged("[warn]", #"using uninitialized "seen" variable"#)
    #expect(both.daemon.errorLog.split(separator: "\n").count { $0.contains("uninitialized") } == 1)
  }
}

@testable import Traffic
@testable import Forward
@testable import Features
import ConfigurationSupport
import Testing

@testable import Configuration
@testable import Language

@Suite struct DirectiveCheckerTests {
  private func problems(_ text: String) -> [String] { ParsedText(text).tableProblems }

  @Test func `an unknown directive suggests the nearest one of its context`() {
    #expect(
      problems("http {\n  server { lisen 80; }\n}")
        == ["2:12 unknown directive \"lisen\" | did you mean \"listen\"?"])
    #expect(problems("http { xyzzyplugh 1; }") == ["1:8 unknown directive \"xyzzyplugh\""])
  }

  @Test func `nginx's directive that is not ours is refused by name`() {
    #expect(
      problems("http { ssi on; }")
        == [
          "1:8 `ssi` is nginx's, but not supported here: sallyport has no such filter; let the upstream do it"
        ])
    for name in ["dav_methods", "memcached_pass", "perl_modules", "proxy_store", "uwsgi_cache_purge", "ssi"] {
      #expect(problems("http { \(name) x; }").first?.contains("`\(name)` is nginx's, but not supported here: ") == true)
    }
  }

  @Test func `a block of a refused directive is not looked into`() {
    #expect(problems("stream { server { whatever; } }").count == 1)
  }

  @Test func `a directive of the plan says that it is not there yet`() {
    for entry in plannedDirectives {
      #expect(problems("http { server { \(entry.name); } }").first?.contains("is not supported yet") == true)
    }
  }

  @Test func `a directive without effect is taken and listed`() {
    #expect(
      problems("http { tcp_nodelay on; }") == [
        "1:8 notice: \"tcp_nodelay\" is taken and has no effect: it is always on"
      ])
  }

  @Test func `a directive without effect whose value would have one is refused with the reason`() {
    #expect(problems("stream { ssl_verify_reject handshake; }").allSatisfy { $0.contains("notice: ") })
    #expect(
      problems("stream { ssl_verify_reject response; }") == [
        "1:28 invalid value \"response\" in \"ssl_verify_reject\" directive | it must be \"handshake\": a client of stream that is refused gets a TLS alert: its protocol has no page for that"
      ])
  }

  @Test func `a directive in the wrong place says where it belongs`() {
    #expect(
      problems("http { listen 80; }")
        == ["1:8 \"listen\" directive is not allowed here | this is http; it belongs in server, server in stream"])
    #expect(
      problems("server { }") == [
        "1:1 \"server\" directive is not allowed here | this is main; it belongs in http, upstream, stream, upstream in stream"
      ])
  }

  @Test func `a second line of a directive that stands once is a duplicate`() {
    #expect(
      problems("pid a;\npid b;") == ["2:1 \"pid\" directive is duplicate | the first is at /etc/x.conf:1:1"])
  }

  @Test func `what is missing or too much is told with the expected form`() {
    #expect(
      problems("http { server { ssl on off; } }")
        == ["1:17 invalid number of arguments in \"ssl\" directive | expected: ssl on | off;"])
    #expect(problems("http;") == ["1:1 directive \"http\" has no opening \"{\" | expected: http { … }"])
    #expect(
      problems("pid x { }") == ["1:1 directive \"pid\" is not terminated by \";\" | expected: pid FILE | off;"])
  }

  @Test func `a missing semicolon is recognised by the directive that was swallowed`() {
    #expect(
      problems("http { server {\n  ssl_certificate a.pem\n  ssl_certificate_key a.key;\n} }")
        == [
          "2:3 invalid number of arguments in \"ssl_certificate\" directive | is a \";\" missing before "
            + "\"ssl_certificate_key\" in line 3? expected: ssl_certificate MATERIAL;"
        ])
  }

  @Test func `a swallowed directive is told where the statement takes it`() {
    #expect(
      problems("http { server {\n  listen 80\n  location / { return 204; }\n} }").first?.contains(
        "directive \"listen\" is not terminated by \";\" | is a \";\" missing before \"location\" in line 3? expected: listen"
      )
        == true)
    #expect(
      problems("http { server {\n  server_name a\n  root /srv;\n} }") == [
        "3:3 warning: \"root\" is taken as an argument of \"server_name\" | is a \";\" missing before \"root\" in line 3? "
          + "To mean the argument, put it into quotes"
      ])
    for sound in ["server_name a\n  \"root\";", "server_name a root;", "server_name a\n  b\n  c;"] {
      #expect(problems("http { server {\n  \(sound)\n} }") == [], "\(sound)")
    }
  }

  @Test(arguments: [
    ("ssl yes;", "1:21 invalid value \"yes\" in \"ssl\" directive | it must be \"on\" or \"off\""),
    (
      "ssl_verify_depth x;",
      "1:34 invalid value \"x\" in \"ssl_verify_depth\" directive | it must be a number from 0 to 100"
    ),
    (
      "client_max_body_size 1t;",
      "1:38 invalid value \"1t\" in \"client_max_body_size\" directive | it must be a size in bytes, with \"k\", \"m\" or \"g\" for more: 512, 16k, 1m"
    ),
    (
      "send_timeout 1 hour;",
      "1:17 invalid number of arguments in \"send_timeout\" directive | expected: send_timeout TIME;"
    ),
    (
      "ssl_session_timeout 5ms;",
      "1:37 invalid value \"5ms\" in \"ssl_session_timeout\" directive | it must be a time in whole seconds: 30s, 5m, 1h 30m, 1d; a bare number is seconds"
    ),
    (
      "ssl_verify_client optionl;",
      "1:35 invalid value \"optionl\" in \"ssl_verify_client\" directive | it must be one of \"on\", \"off\", \"optional\", \"optional_no_ca\"; did you mean \"optional\"?"
    ),
    ("proxy_buffers 0 8k;", "1:31 invalid value \"0\" in \"proxy_buffers\" directive | it must be a number above 0"),
  ])
  func `a wrong value is told with what was expected`(line: String, problem: String) {
    #expect(problems("http { server { \(line) } }") == [problem])
  }

  @Test func `all problems are found at once`() {
    #expect(problems("pid;\nhttp { ssi on; server { lisen 1; ssl maybe; } }").count == 4)
  }

  @Test func `every stock directive of the reference page has a row`() {
    let names = """
      absolute_redirect aio alias auth_basic auth_request autoindex break charset daemon dav_methods empty_gif expires
      fastcgi_param flv geo geoip_country gzip_static health_check hls http2 if image_filter index ip_hash js_content
      limit_req limit_except log_not_found mail map memcached_pass mirror mp4 perl proxy_cache_path proxy_store
      random_index real_ip_header resolver return rewrite root satisfy scgi_pass secure_link slice split_clients ssi
      stream sub_filter try_files userid uwsgi_pass valid_referers worker_priority xslt_stylesheet
      ssl_stapling ssl_ocsp ssl_dhparam ssl_crl proxy_ssl_crl proxy_bind proxy_set_body proxy_ignore_headers
      """
    for name in names.split(whereSeparator: { $0 == " " || $0 == "\n" }) {
      #expect(!Features.all.directives.table.entries(named: String(name)).isEmpty, "\(name)")
    }
  }
}

@testable import Traffic
@testable import Forward
@testable import Features
import ConfigurationSupport
import Testing

@testable import Language

/// Directives and variables of modules that aren't nginx's, and nginx's own of 1.29 to 1.31.
@Suite struct ForeignModuleTests {
  private func problems(_ line: String, main: String = "") -> [String] {
    LoadedText("\(main) events {} http { server { listen 1; location / {\n\(line)\n} } }").problems.filter {
      !$0.contains("responds to every request with 404")
    }
  }

  @Test(arguments: [
    ("more_set_headers 'X: y';", "2:1 `more_set_headers` is of headers-more, not of nginx, and not supported here: "),
    ("content_by_lua_file x.lua;", "2:1 `content_by_lua_file` is of lua-nginx-module (OpenResty), not of nginx, and"),
    ("access_by_lua_block { ngx.exit(403) }", "2:1 `access_by_lua_block` is of lua-nginx-module (OpenResty), not of"),
    (
      "brotli on;",
      "2:1 notice: \"brotli\" is taken and has no effect: it is of ngx_brotli; gzip compresses, and upstreams may"
    ),
    ("zstd_static on;", "2:1 notice: \"zstd_static\" is taken and has no effect: it is of zstd-nginx-module; "),
    (
      "opentelemetry on;",
      "2:1 `opentelemetry` is of opentelemetry's module, not of nginx, and not supported here: otel_exp"
    ),
    ("redis2_pass a;", "2:1 `redis2_pass` is of redis2-nginx-module, not of nginx, and not supported here: stream { "),
    ("ajp_pass a;", "2:1 `ajp_pass` is of nginx-ajp-module, not of nginx, and not supported here: stream { server { "),
    ("return 200 $best_http_host;", "2:12 `$best_http_host` is of ingress-nginx's template, not of nginx, and not"),
    ("return 200 $voms_fqans;", "2:12 `$voms_fqans` is of ngx_http_voms_module, not of nginx, and not supported here"),
  ]) func `a name of a module that isn't nginx's is told as such`(line: String, beginning: String) {
    let found = problems(line)
    #expect(found.count == 1 && found.first?.hasPrefix(beginning) == true, "\(found)")
  }

  @Test func `a block of Lua is one problem, whatever is in it`() {
    let lua = """
      content_by_lua_block {
        -- it's a comment }
        local x = { "}", '{', [[ } ]], "\\"}" }
        if x then ngx.say("hello; world") end
      }
      echo on;
      """
    let found = problems(lua)
    #expect(found.count == 2, "\(found)")
    #expect(found.first?.hasPrefix("2:1 `content_by_lua_block` is of") == true)
    #expect(found.last?.hasPrefix("7:1 `echo` is of") == true)
  }

  @Test func `a variable of such a name that the configuration defines is its own`() {
    #expect(problems("set $best_http_host $http_host; return 200 $best_http_host;") == [])
  }

  @Test func `no pattern of a module has a name of nginx's`() {
    for entry in Features.all.directives.table.families.flatMap(\.entries) + foreignDirectives {
      #expect(ForeignModule.ofDirective(entry.name) == nil, "\(entry.name)")
    }
    for name in Features.all.directives.variables.all(of: .http) {
      #expect(ForeignModule.ofVariable(name) == nil, "\(name)")
    }
  }

  @Test func `nginx's directives of 1_29 to 1_31 are taken, or refused by name`() {
    #expect(problems("proxy_pass http://127.0.0.1:1; proxy_pass_trailers on;") == [])
    #expect(
      problems(
        "client_body_early_read off; open_file_cache_events on; return 204;", main: "ssl_object_cache_inheritable off;"
      )
      .allSatisfy { $0.contains("notice: ") && $0.contains("is taken and has no effect") })
    let ech = problems("ssl_ech_file x;")
    #expect(
      ech.count == 1 && ech.first?.contains("`ssl_ech_file` is nginx's, but not supported here") == true, "\(ech)")
  }

  @Test func `proxy_ssl_certificate_cache is read as ssl_certificate_cache is`() {
    let pass = "proxy_pass https://127.0.0.1:1; proxy_ssl_trusted_certificate ca; "
    let named = pass + "proxy_ssl_certificate c/$arg_a.pem; "
    #expect(problems(named + "proxy_ssl_certificate_cache max=5 inactive=1m valid=10s;") == [])
    #expect(problems(named + "proxy_ssl_certificate_cache off;") == [])
    #expect(
      problems(named + "proxy_ssl_certificate_cache valid=10s;").first?
        .contains("\"proxy_ssl_certificate_cache\" must have the \"max\" parameter") == true)
    #expect(
      problems(pass + "proxy_ssl_certificate_cache max=5;").first?
        .contains("\"proxy_ssl_certificate_cache\" has no effect: no certificate here has variables") == true)
  }
}

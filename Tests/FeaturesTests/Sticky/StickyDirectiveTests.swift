import ConfigurationSupport
@testable import Features
@testable import Forward
import Testing
@testable import Traffic

@Suite struct `Sessions that stick, as configured` {
  @Test func `sticky is read in its three forms`() throws {
    func sticky(_ lines: String) throws -> StickySettings? {
      try #require(
        LoadedText(
          "http { upstream g {\nserver a; server b;\n\(lines) } server { listen 80; location / { proxy_pass http://g; } } }"
        ).settings
      ).http[Balance.Block.self].balances[0]?.sticky
    }
    guard
      case .cookie(let cookie) = try sticky(
        "sticky cookie srv expires=1h domain=.$host httponly samesite=Lax secure path=/a;")
    else { Issue.record("no cookie"); return }
    #expect(cookie.name == Array("srv".utf8) && cookie.lifetime == .seconds(3600) && cookie.isHTTPOnly)
    #expect(cookie.isSecure && cookie.path == Array("/a".utf8) && cookie.sameSite?.constant == Array("Lax".utf8))
    #expect(cookie.domain != nil)
    guard case .route(let routes) = try sticky("sticky route $cookie_a $arg_b;") else {
      Issue.record("no route"); return
    }
    #expect(routes.count == 2)
    guard
      case .learn(let learn) = try sticky(
        "sticky learn create=$upstream_cookie_a create=$upstream_http_b lookup=$cookie_a zone=s:1m timeout=1h header;")
    else { Issue.record("no learn"); return }
    #expect(learn.creates.count == 2 && learn.lookups.count == 1 && learn.zone == "s" && learn.size == 1 << 20)
    #expect(learn.timeout == 3_600_000 && learn.isEarly)
  }
}

import TestSupport
import Testing

/// `try_files` without `root`, beside nginx.
@Suite(.staged) struct `A location that tries files without a root` {
  @Test func `goes to the last word`() async throws {
    let same = try await NginxComparison(
      .ofTest(),
      """
      server { listen PORT;
        location / { try_files /absent$uri @app; }
        location @app { return 200 "app $uri"; }
        location /code/ { try_files $uri $uri/ =404; }
        location /path/ { try_files $uri /last; }
        location = /last { return 200 "last $uri"; }
        location /proxied/ { try_files $uri @upstream; }
        location @upstream { proxy_pass http://UPSTREAM; }
      }
      """)
    try await same.expectSame(["/", "/a", "/code/a", "/path/a", "/proxied/a?b"])
    #expect(try await same.ask("/a").text == "app /a")
  }
}

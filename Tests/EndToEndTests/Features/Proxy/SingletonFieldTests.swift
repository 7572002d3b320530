import TestSupport
import Testing

/// Lines of `proxy_set_header` for one field of which a request has a value for one, beside nginx.
@Suite(.staged) struct `A field that one of several lines sets` {
  @Test func `has that line's value`() async throws {
    let scene = try Scene.ofTest()
    let twin = try await NginxTwin(
      scene,
      """
      server { listen LISTEN;
        location = /shown { return 200 "$http_host|$http_authorization|$http_x_then"; }
        location = /host { proxy_pass http://LISTEN/shown; proxy_set_header Host ""; proxy_set_header host h; }
        location = /first { proxy_pass http://LISTEN/shown; proxy_set_header HOST h; proxy_set_header Host ""; }
        location = /asked { proxy_pass http://LISTEN/shown; proxy_set_header Host $arg_a; proxy_set_header Host $arg_b;
          proxy_set_header Authorization $arg_a; proxy_set_header X-Then then; proxy_set_header authorization $arg_b; }
      }
      """)
    for path in ["/host", "/first", "/asked?a=one", "/asked?b=two"] { try await twin.compare(NginxTwin.get(path)) }
  }
}

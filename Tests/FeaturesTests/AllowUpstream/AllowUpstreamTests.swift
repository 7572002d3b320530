@testable import Features
@testable import Forward
import Testing
@testable import Traffic

@Suite struct `Conditions for an upstream` {
  @Test(arguments: [
    "proxy_pass http://h", "fastcgi_pass h:1", "scgi_pass h:1", "uwsgi_pass h:1", "grpc_pass grpc://h:1",
  ])
  func `keep a request from it unless all hold`(pass: String) throws {
    let prefix = pass.prefix { $0 != "_" }
    func isAsked(_ query: String) throws -> Bool {
      let rig = try Rig(
        "server { listen 80; location / { \(pass); \(prefix)_allow_upstream $arg_a x$arg_b $arg_c; } }")
      let stream = try rig.ask("GET /?\(query) HTTP/1.1", "Host: h")
      #expect((stream.status == 502) == rig.upstreams.isEmpty)
      return !rig.upstreams.isEmpty
    }
    #expect(try isAsked("a=1&c=1"))
    #expect(try isAsked("a=00&c=no"))
    #expect(try !isAsked("a=1"))
    #expect(try !isAsked("a=0&c=1"))
    #expect(try !isAsked("c=1"))
  }
}

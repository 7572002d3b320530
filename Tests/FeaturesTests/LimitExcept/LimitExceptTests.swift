import ConfigurationSupport
@testable import Features
@testable import Forward
import Testing
@testable import Traffic

@Suite struct `Limits of methods` {
  @Test(arguments: [("GET", 200), ("HEAD", 200), ("POST", 403), ("DELETE", 403)])
  func `other methods have other settings, and HEAD goes with GET`(method: String, status: UInt16) throws {
    let rig = try Rig("server { listen 80; location / { limit_except GET { deny all; } return 200 in; } }")
    #expect(try rig.ask("\(method) / HTTP/1.1", "Host: h", "Content-Length: 0").status == status)
  }

  @Test func `an error page is fetched by GET, whatever the method of the request`() throws {
    let rig = try Rig(
      """
      server { listen 80; error_page 403 =200 /page; location / { deny all; stub_status; }
        location /page { limit_except GET { deny all; } return 200 "page"; } }
      """)
    let client = try rig.ask("POST / HTTP/1.1", "Host: h", "Content-Length: 0")
    #expect(client.status == 200 && client.body == "page", "\(client.head)")
  }

  @Test func `methods are read in any case`() throws {
    let http = try #require(LoadedText.location("limit_except get Put { deny all; }").settings?.http)
    #expect(http.servers.first?.root.locations.first?[LimitExcept.self]?.methods == ["GET", "PUT", "HEAD"])
  }

  @Test(arguments: [
    (
      "limit_except GET { proxy_pass http://127.0.0.1/x; }",
      "2:31 \"proxy_pass\" cannot have URI part inside \"limit_except\" block | "
    ),
    ("limit_except GTE { deny all; }", "2:14 invalid method \"GTE\" | "),
  ])
  func `what can't be meant is told at its place`(lines: String, problem: String) {
    let problems = LoadedText.location(lines).errors
    #expect(problems.contains { $0.hasPrefix(problem) }, "\(problems)")
  }
}

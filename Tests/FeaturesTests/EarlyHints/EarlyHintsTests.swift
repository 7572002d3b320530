@testable import Features
@testable import Forward
import HTTP
import Testing
@testable import Traffic

@Suite struct `Early hints` {
  @Test func `early hints are passed on where a condition holds, without what is hidden`() throws {
    let rig = try Rig.passing("early_hints $http_x; proxy_hide_header X-Secret;")
    let hints = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\nX-Secret: s\r\nConnection: x\r\n\r\n"
    for (field, shown) in [("X: 1", "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n"), ("X: 0", ""), ("Y: 1", "")] {
      let client = try rig.asked(Rig.get + [field])
      try rig.upstream.answer(hints)
      #expect(client.hints == shown && client.status == nil)
      try rig.upstream.answer("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
      #expect(client.status == 200 && !client.head.contains("Link"))
    }
  }
}

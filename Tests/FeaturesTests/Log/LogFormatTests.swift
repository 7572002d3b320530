@testable import Features
@testable import Forward
import TestSupport
import Testing
@testable import Traffic

@Suite struct `Formats of access logs` {
  @Test func `a line of the access log is what its format says, escaped`() async throws {
    let scene = try Scene()
    defer { scene.end() }
    let rig = try Rig(
      """
      log_format mine '$remote_addr [$status] "$http_user_agent" $upstream_addr $body_bytes_sent';
      log_format js escape=json '{"agent":"$http_user_agent"}';
      server { listen 1080; access_log \(scene.path("a.log")) mine; access_log \(scene.path("b.log")) js if=$arg_log;
        location / { return 200 four; } }
      """)
    _ = try rig.answer("GET / HTTP/1.1\r\nHost: a\r\nUser-Agent: a\"b\\\r\n\r\n")
    _ = try rig.answer("GET /?log=1 HTTP/1.1\r\nHost: a\r\nUser-Agent: a\"b\\\r\n\r\n")
    _ = try rig.answer("GET /?log=0 HTTP/1.1\r\nHost: a\r\n\r\n")
    rig.flushLogs()
    let lines = scene.text("a.log").split(separator: "\n")
    #expect(lines.first == #"192.0.2.1 [200] "a\x22b\x5C" - 4"#)
    #expect(lines.last == #"192.0.2.1 [200] "-" - 4"#)
    #expect(scene.text("b.log") == #"{"agent":"a\"b\\"}"# + "\n")
  }
}

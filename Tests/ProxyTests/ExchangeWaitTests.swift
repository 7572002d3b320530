@testable import Proxy
import Testing

/// What an exchange waits for ends with it.
@Suite struct `Waits of an exchange` {
  @Test func `a delayed 401 ends with its client`() throws {
    let rig = try Rig(
      "server { listen 80; location / { auth_delay 60s; auth_basic x; auth_basic_user_file /nowhere; metrics; } }")
    for _ in 0..<3 {
      let client = try rig.ask("GET / HTTP/1.1", "Host: h")
      let waiting = rig.loop.deadlineTargets
      #expect(client.status == nil)
      client.exchange?.clientDidLeave()
      #expect(rig.loop.deadlineTargets < waiting)
    }
  }
}

import Glibc
@testable import Proxy
import TestSupport
import Testing
import Transport

/// What an exchange waits for ends with it, and a wait for a file is no offence.
@Suite struct `Waits of an exchange` {
  private static let address = "192.0.2.1"

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

  @Test func `however many clients of one address wait for files, none is refused`() async throws {
    let rig = try Rig("server { listen 80; root /nowhere; location /t { if (-f /nowhere/x) { return 204; } } }")
    let pool = rig.worker.shared.pool
    for (work, path) in [(BlockingWork.files, "/a"), (.fileTests, "/t")] {
      let held = Flag(), begun = (0..<work.limits.lanes).map { _ in Flag() }
      defer { held.raise() }
      for flag in begun {
        _ = pool.run(work, for: "held") {
          flag.raise()
          held.wait()
        }
      }
      try await until("the lanes to be taken") { begun.allSatisfy(\.isRaised) }
      let clients = try (0..<5000).map { _ in try rig.ask("GET \(path) HTTP/1.1", "Host: h") }
      #expect(clients.allSatisfy { $0.status == nil })
      #expect(pool.waiting(work, for: Self.address) == 5000)
      for client in clients { client.exchange?.clientDidLeave() }
      #expect(pool.waiting(work, for: Self.address) == 0)
    }
  }
}

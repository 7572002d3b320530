@testable import Features
import Glibc
import Testing
@testable import Traffic
import Transport

/// Whoever has to find out why no connection is left must get in.
@Suite struct `Places for operators` {
  private static let text = """
    server { listen 80; location / { proxy_pass http://127.0.0.1:9; } location /status { status; } }
    server { listen 81; location /status { status; } location /metrics { metrics; } }
    server { listen 82; location /api { api; } }
    server { listen 83; return 204; }
    server { listen 84; location = /m { metrics; } location / { empty_gif; } }
    """

  @Test func `a listener is for operators if it has their pages and no other content`() throws {
    #expect(try Rig(Self.text).live.listeners.map(\.isForOperators) == [false, true, true, false, false])
  }

  @Test func `a full worker takes a few more clients of such a listener, and none of another`() throws {
    let rig = try Rig(Self.text)
    var peers: [Int32] = []
    defer { for peer in peers { close(peer) } }
    func isTaken(_ listener: Int) -> Bool {
      var both: [Int32] = [-1, -1]
      guard socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue), 0, &both) == 0 else {
        return false
      }
      peers.append(both[1])
      return rig.worker.accepted(both[0], Rig.client, listener: listener)
    }
    for _ in 0..<rig.worker.budget.limit { #expect(isTaken(0)) }
    #expect(!isTaken(0) && !isTaken(4))
    rig.worker.sample(dueAt: rig.loop.now)
    let shortage = try #require(rig.worker.counters.shortage)
    #expect(shortage.hasPrefix("worker 0 has no connection left, all 16 are taken"))
    for _ in 0..<ConnectionBudget.reserve { #expect(isTaken(2)) }
    #expect(!isTaken(2) && !isTaken(1) && !isTaken(0))
  }
}

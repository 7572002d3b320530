import Glibc
import Testing
@testable import Traffic
import Transport

@Suite struct `A rig` {
  @Test func `is gone with its loop`() throws {
    weak var loop: EventLoop?
    do { loop = try Rig("server { listen 80; return 204; }").loop }
    #expect(loop == nil)
  }
}

@Suite struct `A generation` {
  /// With features that keep something over generations: zones, groups, counters.
  private static let text = """
    limit_req_zone $uri zone=r:1m rate=9r/s; limit_conn_zone $uri zone=c:1m;
    keyval_zone zone=k:1m; keyval $uri $v zone=k;
    upstream u { zone u 64k; server 127.0.0.1:9; keepalive 4; }
    server { listen 80;
      location / { limit_req zone=r; limit_conn c 9; mirror /m; health_check; proxy_pass http://u; }
      location /m { internal; return 204; }
      location /v { return 200 "$v"; } }
    """

  @Test func `is gone once the next one serves, with all that was made of it`() async throws {
    let rig = try Rig(Self.text)
    var silent: [Int32] = []
    defer { for client in silent { close(client) } }
    weak var generation: Generation?
    weak var live: LiveGeneration?
    for number in 2...4 {
      rig.worker.serve(rig.live.generation.again(number), sockets: []) { error in Issue.record("\(error)") }
      try await rig.turn(until: "the end of generation \(number - 1)") { generation == nil && live == nil }
      generation = rig.worker.live?.generation
      live = rig.worker.live
      #expect(generation?.number == number)
      #expect(try rig.answer("GET /v HTTP/1.1\r\nHost: h\r\n\r\n").hasPrefix("HTTP/1.1 200"))
      // A client that has said nothing yet goes over to the next generation.
      var ends: [Int32] = [-1, -1]
      let type = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
      try #require(socketpair(AF_UNIX, type, 0, &ends) == 0)
      silent.append(ends[1])
      #expect(rig.worker.accepted(ends[0], Rig.client, listener: 0))
    }
  }
}

extension Generation {
  /// The same once more, as a reload without a change makes it.
  fileprivate func again(_ number: Int) -> Generation {
    Generation(
      number: number, http: http, serverContexts: serverContexts, upstreamContexts: upstreamContexts, groups: groups,
      errorLog: errorLog, errorLogs: errorLogs, accessLogs: accessLogs, parts: parts)
  }
}

import TestSupport
import Testing

/// Malformed and ambiguous requests, given to sallyport, to nginx and to HAProxy, each in front of an upstream that keeps
/// what reaches it.
@Suite(.staged) struct `Framing beside nginx and HAProxy` {
  @Test func `what nginx or HAProxy refuses is refused, and no upstream sees a request that nobody sent`() async throws
  {
    #expect(FramingCases.all.count > 300)
    try await compare(FramingCases.all, passing: 100)
  }

  @Test func `a PROXY header that nginx or HAProxy refuses is refused`() async throws {
    try await compare(ProxyHeaderCases.all, listen: "proxy_protocol", bind: "accept-proxy", passing: 5)
  }

  /// `listen` and `bind`: parameters of the listeners; `passing`: how many cases sallyport must pass on at least.
  private func compare(
    _ cases: [FramingCase], listen: String = "", bind: String = "", passing least: Int
  ) async throws {
    let scene = try Scene.ofTest()
    let upstreams = try (0..<3).map { _ in try FramingRecorder(scene) }
    let ports = try (0..<3).map { _ in try scene.port() }
    func server(_ index: Int, _ version: String) -> String {
      """
      client_header_timeout 2s; client_body_timeout 2s; keepalive_timeout 2s; send_timeout 2s;
      server { listen 127.0.0.1:\(ports[index]) \(listen); server_name h;
        location / { proxy_http_version \(version); proxy_pass http://127.0.0.1:\(upstreams[index].port); } }
      """
    }
    let daemon = try await Sallyport.start(scene, configuration(server(0, "1.1")))
    _ = try await NginxUpstream.start(scene, ports: [ports[1]], server(1, "1.1"))
    try await HAProxy.start(scene, port: ports[2], to: upstreams[2].port, bind: bind)

    let numbered = Array(cases.enumerated()), senders = 12
    try await withThrowingTaskGroup(of: Void.self) { group in
      for sender in 0..<senders {
        group.addTask {
          for (number, framing) in numbered where number % senders == sender {
            try await offPool {
              for port in ports { try Self.send(framing.bytes(number), number, to: port) }
            }
          }
        }
      }
      try await group.waitForAll()
    }

    var passed = 0
    for (number, framing) in numbered {
      let seen = upstreams.map { $0.requests(of: number) }
      let marks = seen.map { $0.map(\.mark) }
      #expect(!marks[0].contains("s"), "smuggled by \(framing.shown)")
      #expect(marks[0].count { $0 == "c" } <= 1, "twice at the upstream: \(framing.shown)")
      guard let ours = seen[0].first(where: { $0.mark == "c" }) else { continue }
      passed += 1
      if let theirs = seen[1].first(where: { $0.mark == "c" }) {
        #expect(ours.body == theirs.body, "another body than nginx's: \(framing.shown)")
      }
      if FramingDifferences.isMeant(framing) { continue }
      #expect(marks[1].contains("c"), "nginx refuses \(framing.shown)")
      #expect(marks[2].contains("c"), "HAProxy refuses \(framing.shown)")
    }
    #expect(passed >= least, "\(passed)")
    #expect(upstreams[0].faults.isEmpty, "\(upstreams[0].faults)")
    #expect(daemon.process.ending == nil)
  }

  /// Sends the case and a plain request after it, and reads until the proxy closes.
  private static func send(_ bytes: [UInt8], _ number: Int, to port: UInt16) throws {
    let wire = try Wire.dial(port: port)
    // A proxy that refuses may have closed already.
    try? wire.write(bytes + Array("GET /k\(number). HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".utf8))
    while let some = try? wire.readSome(), !some.isEmpty {}
    wire.close()
  }
}

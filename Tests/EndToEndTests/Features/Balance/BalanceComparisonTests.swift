import TestSupport
import Testing

/// Which server a request gets, beside a real nginx with the same groups.
@Suite(.staged) struct `The choice of a server beside nginx` {
  /// Four servers that answer, and one address at which nobody listens.
  private struct Servers {
    let living: [UInt16]
    let dead: UInt16

    init(_ scene: Scene) async throws {
      living = try (0..<4).map { _ in try scene.port() }
      dead = try scene.port()
      let blocks = living.map { "server { listen 127.0.0.1:\($0); location / { return 200 \"$server_port\"; } }" }
      _ = try await NginxUpstream.start(scene, name: "servers", ports: living, blocks.joined(separator: "\n"))
    }

    /// A group: A to D are the servers, X is the one where nobody listens.
    func group(_ name: String, _ lines: String) -> String {
      let addresses = zip(["A", "B", "C", "D", "X"], living + [dead])
      return addresses.reduce("upstream \(name) { \(lines) }") { $0.replacing("@\($1.0)", with: "127.0.0.1:\($1.1)") }
        + "\n"
    }
  }

  private static let groups: [(name: String, lines: String)] = [
    ("turns", "server @A weight=5; server @B; server @C weight=3;"),
    ("failing", "server @A weight=5; server @X weight=4 max_fails=2; server @B; server @D down;"),
    ("spare", "server @X max_fails=3; server @A backup weight=2; server @B backup;"),
    ("least", "least_conn; server @A weight=4; server @B; server @C weight=2; server @D backup;"),
    ("hash", "hash $arg_k; server @A weight=3; server @B; server @C weight=2; server @D;"),
    ("hashfail", "hash $arg_k; server @A; server @X weight=3; server @C weight=2; server @D down;"),
    ("hashpath", "hash $uri$is_args$args; server @A; server @B; server @C; server @D;"),
    ("ring", "hash $arg_k consistent; server @A weight=3; server @B; server @C weight=2; server @D;"),
    ("ringfail", "hash $arg_k consistent; server @A; server @X weight=2; server @C; server @D down;"),
    ("ringname", "hash $arg_k consistent; server localhost:@P weight=2; server @B; server @C; server @D;"),
    ("ringsame", "hash $arg_k consistent; server @A; server @A weight=2; server @B;"),
    ("address", "ip_hash; server @A weight=2; server @B; server @C; server @D;"),
    ("addressfail", "ip_hash; server @A; server @X weight=2; server @C; server @D down;"),
    ("alone", "hash $arg_k; server @A;"),
    ("zoned", "zone z 64k; server @A weight=5; server @X weight=2; server @C;"),
    ("zonedhash", "hash $arg_k consistent; zone y 64k; server @A; server @B; server @C;"),
  ]

  private func requests(_ name: String, _ range: Range<Int>) -> String {
    range.map { number in
      // Every tenth has no key, and the turns decide.
      let key = number % 10 == 9 ? "" : "k=key\(number &* 7919)&"
      let client = number % 3 == 0 ? "2001:db8::\(number)" : "\(number % 200 + 1).\(number % 7).\(number % 50).9"
      let end = number == range.upperBound - 1 ? "Connection: close\r\n" : ""
      return "GET /\(name)/\(number)?\(key)n=\(number) HTTP/1.1\r\nHost: h\r\nX-Real-IP: \(client)\r\n\(end)\r\n"
    }.joined()
  }

  @Test func `is the same for hundreds of keys, clients and turns, also with servers that fail`() async throws {
    let scene = try Scene.ofTest()
    let servers = try await Servers(scene)
    let groups = Self.groups.map { servers.group($0.name, $0.lines) }.joined()
      .replacing("localhost:@P", with: "localhost:\(servers.living[0])")
    let locations = Self.groups.map { "location /\($0.name)/ { proxy_pass http://\($0.name); }" }.joined(
      separator: "\n")
    let twin = try await NginxTwin(
      scene,
      """
      \(groups)
      server { listen LISTEN; keepalive_requests 10000; set_real_ip_from 127.0.0.1;
        add_header X-Up "$upstream_addr $upstream_status" always;
        \(locations) }
      """)
    for (name, _) in Self.groups {
      for start in stride(from: 0, to: 300, by: 60) {
        try await twin.compare(requests(name, start..<(start + 60)))
      }
    }
    // The comparison is not one of empty answers, nor of one server.
    let answer = try await twin.ask(requests("ring", 0..<60))
    #expect(Set(servers.living.filter { answer.contains("X-Up: 127.0.0.1:\($0) 200") }).count == 4)
    let failed = try await twin.ask(requests("spare", 0..<3))
    #expect(failed.contains("X-Up: 127.0.0.1:"))
    #expect(try await twin.ask(requests("hashfail", 0..<60)).contains("200"))
    #expect(scene.text("error.log").contains("127.0.0.1:\(servers.dead)"))
  }

  @Test func `random goes to all servers that may be used, two by connections too`() async throws {
    let scene = try Scene.ofTest()
    let servers = try await Servers(scene)
    let port = try scene.port()
    let groups =
      servers.group("one", "random; server @A weight=3; server @B; server @X;")
      + servers.group("two", "random two least_conn; server @A; server @B; server @C; server @D down;")
      + servers.group("three", "random two least_time=last_byte; server @A; server @B;")
      + servers.group("four", "least_time header inflight; server @A; server @B; server @X;")
      + servers.group("five", "zone f; least_time last_byte; server @A; server @B slow_start=10s; server @C backup;")
    let names = ["one", "two", "three", "four", "five"]
    let locations = names.map { "location /\($0)/ { proxy_pass http://\($0); }" }.joined()
    _ = try await Sallyport.start(
      scene, configuration("\(groups) server { listen 127.0.0.1:\(port); keepalive_requests 1000; \(locations) }"))
    for (name, count) in zip(names, [2, 3, 2, 2, 2]) {
      let wire = try Wire.dial(port: port)
      try wire.write(requests(name, 0..<60))
      let text = String(decoding: try wire.readToEnd(), as: UTF8.self)
      #expect(text.split(separator: "200 OK").count == 61 && !text.contains(" 502 "), "\(name)")
      #expect(servers.living.filter { text.contains("\r\n\r\n\($0)") }.count == count, "\(name)")
    }
  }
}

import Foundation
import TestSupport
import Testing

@Suite(.staged) struct `Groups whose servers DNS says` {
  /// Three upstreams on one port of 127.0.0.1, 127.0.0.2 and 127.0.0.3, which say who they are.
  private func upstreams(_ scene: Scene) async throws -> UInt16 {
    let port = try scene.port()
    let servers = ["one", "two", "three"].enumerated().map { index, name in
      "server { listen 127.0.0.\(index + 1):\(port); location / { return 200 \(name); } }"
    }
    _ = try await NginxUpstream.start(scene, ports: [port], servers.joined(separator: "\n"))
    return port
  }

  private func http(_ dns: NameServer, _ port: UInt16, _ server: String, _ more: String = "") -> String {
    """
    resolver 127.0.0.1:\(dns.port) ipv6=off; resolver_timeout 1s;
    upstream g { zone g 64k; \(server) \(more) }
    server { listen 127.0.0.1:\(port);
      location / { proxy_pass http://g; add_header X-Upstream $upstream_addr always; }
      location /variable { set $g G; proxy_pass http://$g; } }
    """
  }

  private func body(_ scene: Scene, _ port: UInt16, _ path: String = "/") async throws -> String {
    let result = try await scene.page(port, path)
    return result.status == 200 ? result.text : "\(result.status)"
  }

  private func all(_ scene: Scene, _ port: UInt16) async throws -> Set<String> {
    var found: Set<String> = []
    for _ in 0..<6 { found.insert(try await body(scene, port)) }
    return found
  }

  @Test func `resolve: an empty group responds with 502, and each answer replaces the list as a whole`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try await upstreams(scene)
    let dns = try await NameServer(scene, #"{"a.test": {"rcode": 3}}"#)
    let port = try scene.port()
    func zone(_ addresses: String) -> String { "{\"a.test\": {\"a\": [\(addresses)], \"ttl\": 1}}" }
    let daemon = try await Sallyport.start(
      scene, configuration(http(dns, port, "server A.test:\(upstream) resolve;")))
    #expect(try await body(scene, port) == "502")
    try await daemon.logged("a.test could not be resolved (3: Host not found) in upstream \"g\"")
    try dns.write(zone("\"127.0.0.1\""))
    try await until("the first server") { try await body(scene, port) == "one" }
    #expect(try await body(scene, port, "/variable") == "one")
    try dns.write(zone("\"127.0.0.3\", \"127.0.0.2\""))
    try await until("the others") { try await all(scene, port) == ["two", "three"] }
    #expect(try await body(scene, port, "/variable") != "one")
    // The server fails, or is silent: the list stays.
    let before = dns.count("udp", "a.test")
    try dns.write(#"{"a.test": {"rcode": 2}}"#)
    try await daemon.logged("a.test could not be resolved (2: Server failure) in upstream \"g\"")
    #expect(try await all(scene, port) == ["two", "three"])
    try dns.write(#"{"a.test": {"how": "silent"}}"#)
    try await daemon.logged("a.test could not be resolved (110: Operation timed out) in upstream \"g\"")
    #expect(try await all(scene, port) == ["two", "three"])
    #expect(dns.count("udp", "a.test") > before)
    // A reload asks anew, and keeps the list until an answer comes.
    daemon.signal(SIGHUP)
    try await daemon.logged("generation 2")
    #expect(try await all(scene, port) == ["two", "three"])
    try dns.write(#"{"a.test": {"rcode": 3}}"#)
    try await until("the group to be empty") { try await body(scene, port) == "502" }
    try dns.write(zone("\"127.0.0.1\""))
    try await until("the server to be back") { try await body(scene, port) == "one" }
    try await daemon.logged("the servers of upstream \"g\" are now: 127.0.0.1:\(upstream)")
  }

  @Test func `service: SRV records give ports, weights and backup servers`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try await upstreams(scene)
    func zone(_ services: String) -> String {
      """
      {"_http._tcp.a.test": {"srv": [\(services)], "ttl": 1}, "one.test": {"a": ["127.0.0.1"], "ttl": 1},
       "two.test": {"a": ["127.0.0.2"], "ttl": 1}, "three.test": {"a": ["127.0.0.3"], "ttl": 1}}
      """.replacing("\n", with: " ")
    }
    let first = "[10, 3, \(upstream), \"one.test\"], [10, 1, \(upstream), \"two.test\"]"
    let dns = try await NameServer(scene, zone("\(first), [20, 1, \(upstream), \"three.test\"]"))
    let port = try scene.port()
    _ = try await Sallyport.start(
      scene,
      configuration(http(dns, port, "server a.test service=http resolve;")).replacing(
        "worker_processes 2", with: "worker_processes 1"))
    try await until("the first servers") { try await body(scene, port) != "502" }
    var counts: [String: Int] = [:]
    for _ in 0..<16 { counts[try await body(scene, port), default: 0] += 1 }
    #expect((11...13).contains(counts["one"] ?? 0) && counts["three"] == nil, "\(counts)")
    try dns.write(zone("[10, 3, 1, \"one.test\"], [20, 1, \(upstream), \"three.test\"]"))
    try await until("the backup server") { try await body(scene, port) == "three" }
    try dns.write(zone("[10, 3, \(upstream), \"nowhere.test\"], [20, 1, \(upstream), \"three.test\"]"))
    try await until("the server that is left") { try await all(scene, port) == ["three"] }
    try dns.write(zone("[0, 0, 0, \".\"]"))
    try await until("no server") { try await body(scene, port) == "502" }
  }

  @Test func `a response of a server that DNS no longer names goes on to its end`() async throws {
    let scene = try Scene.ofTest()
    let isAsked = Flag(), mayEnd = Flag()
    let old = try ScriptedUpstream(scene) { wire, _ in
      guard try wire.request() != nil else { return }
      try wire.write(Array("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf".utf8))
      isAsked.raise()
      mayEnd.wait()
      try wire.write(Array("half".utf8))
    }
    let new = try await NginxUpstream.start(
      scene, ports: [old.port], "server { listen 127.0.0.2:\(old.port); location / { return 200 new; } }")
    _ = new
    let dns = try await NameServer(scene, #"{"a.test": {"a": ["127.0.0.1"], "ttl": 1}}"#)
    let port = try scene.port()
    let daemon = try await Sallyport.start(
      scene, configuration(http(dns, port, "server a.test:\(old.port) resolve;")))
    try await daemon.logged("the servers of upstream \"g\" are now: 127.0.0.1")
    let running = Task { try await body(scene, port) }
    try await until("the request") { isAsked.isRaised }
    try dns.write(#"{"a.test": {"a": ["127.0.0.2"], "ttl": 1}}"#)
    try await daemon.logged("the servers of upstream \"g\" are now: 127.0.0.2")
    for _ in 0..<4 { #expect(try await body(scene, port) == "new") }
    mayEnd.raise()
    #expect(try await running.value == "halfhalf")
    #expect(old.requests("GET") == 1)
  }

  @Test func `the name in the configuration is verified, whatever name DNS gives`() async throws {
    let scene = try Scene.ofTest()
    let authority = try TestAuthority("Upstream")
    try scene.anchors("anchors", authority)
    let right = try await OpenSSLServer.start(
      scene, scene.identity("right", authority.server(names: ["g"])), "-www")
    let wrong = try await OpenSSLServer.start(
      scene, scene.identity("wrong", authority.server(names: ["evil.test"])), "-www")
    func zone(_ port: UInt16, _ target: String) -> String {
      """
      {"_https._tcp.a.test": {"srv": [[1, 1, \(port), "\(target)"]], "ttl": 1}, "\(target)": {"a": ["127.0.0.1"]}}
      """.trimmingCharacters(in: .whitespacesAndNewlines)
    }
    let dns = try await NameServer(scene, zone(right.port, "x.test"))
    let port = try scene.port()
    let text = http(dns, port, "server a.test service=https resolve;").replacing(
      "proxy_pass http://g;", with: "proxy_pass https://g; proxy_ssl_trusted_certificate anchors.pem;")
    let daemon = try await Sallyport.start(scene, configuration(text))
    try await until("the server") { try await scene.curl(["http://127.0.0.1:\(port)/"]).status == 200 }
    try dns.write(zone(wrong.port, "evil.test"))
    try await until("the other server") { try await scene.curl(["http://127.0.0.1:\(port)/"]).status == 502 }
    try await daemon.logged("upstream SSL certificate does not match \"g\"")
  }
}

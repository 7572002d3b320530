import Foundation
import TestSupport
import Testing

@Suite(.staged) struct `Names that resolver asks DNS servers for` {
  /// An upstream on a free port that says who it is, and a daemon whose target is `http://$arg_h` and that port.
  private struct Setting {
    let scene: Scene
    let upstream: ScriptedUpstream
    let dns: NameServer
    let daemon: Sallyport
    let port: UInt16

    func ask(_ host: String, _ words: [String] = []) async throws -> CurlResult {
      try await scene.curl(words + ["http://127.0.0.1:\(port)/?h=\(host)"])
    }
  }

  @Test func `are counted by what came of the questions, and not where the answer was known`() async throws {
    let zone =
      #"{"a.test/a": {"a": ["127.0.0.1"], "ttl": 3600}, "a.test": {}, "nx.test": {"rcode": 3}, "bad.test": {"rcode": 2}}"#
    let setting = try await setting(zone, more: "location /api/ { api; } location = /metrics { metrics; }")
    for host in ["a.test", "a.test", "nx.test", "bad.test"] { _ = try await setting.ask(host) }
    func get(_ path: String) async throws -> String {
      try await setting.scene.curl(["http://127.0.0.1:\(setting.port)\(path)"]).text
    }
    let name = "127.0.0.1:\(setting.dns.port)"
    let counts =
      #"{"requests":{"name":3,"srv":0,"addr":0},"responses":{"noerror":1,"formerr":0,"servfail":1,"nxdomain":1,"#
      + #""notimp":0,"refused":0,"timedout":0,"unknown":0}}"#
    #expect(try await get("/api/9/resolvers") == "{\"\(name)\":\(counts)}\n")
    #expect(try await get("/api/9/resolvers/\(name)/") == "\(counts)\n")
    #expect(try await get("/api/9/resolvers/x").contains("ResolverZoneNotFound"))
    let line = "sallyport_resolver_responses_total{resolver=\"\(name)\",result=\"servfail\"} 1\n"
    #expect(try await get("/metrics").contains(line))
    setting.daemon.signal(SIGHUP)
    try await setting.daemon.logged("reconfigured: generation 2")
    #expect(try await get("/api/9/resolvers") == "{\"\(name)\":\(counts)}\n")
  }

  private func setting(
    _ zone: String, resolver: String = "", workers: Int = 1, more: String = ""
  ) async throws -> Setting {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.echo(scene)
    let dns = try await NameServer(scene, zone)
    let port = try scene.port()
    let text = configuration(
      "resolver 127.0.0.1:\(dns.port) \(resolver); server { listen 127.0.0.1:\(port);"
        + " location / { proxy_pass http://$arg_h:\(upstream.port); } \(more) }"
    ).replacing("worker_processes 2", with: "worker_processes \(workers)")
    let daemon = try await Sallyport.start(scene, text)
    return Setting(scene: scene, upstream: upstream, dns: dns, daemon: daemon, port: port)
  }

  /// nginx makes a group for each request, so that no earlier failure counts.
  @Test func `are tried again at once after all their addresses failed`() async throws {
    let scene = try Scene.ofTest()
    let dns = try await NameServer(scene, #"{"two.test/a": {"a": ["127.0.0.1", "127.0.0.2"]}, "two.test": {}}"#)
    let (port, up) = try (scene.port(), scene.port())
    let daemon = try await Sallyport.start(
      scene,
      configuration(
        """
        resolver 127.0.0.1:\(dns.port); server { listen 127.0.0.1:\(port); set $u two.test:\(up);
          location / { proxy_pass http://$u; } }
        """
      ).replacing("worker_processes 2", with: "worker_processes 1"))
    func status() async throws -> Int { try await scene.curl(["http://127.0.0.1:\(port)/"]).status }
    for _ in 0..<3 { #expect(try await status() == 502) }
    #expect(!daemon.errorLog.contains("no live upstreams"))
    let upstream = try ScriptedUpstream(scene, port: up) { wire, _ in try wire.serve { _ in try wire.answer("ok") } }
    for _ in 0..<4 { #expect(try await status() == 200) }
    #expect(upstream.connections > 0)
  }

  @Test func `get nginx's responses and nginx's lines in the log`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.echo(scene)
    let dns = try await NameServer(
      scene,
      """
      {"a.test/a": {"a": ["127.0.0.1"]}, "a.test": {}, "c.test/a": {"cname": ["d.test", "e.test"], "a": ["127.0.0.1"]},
       "c.test": {}, "f.test": {"cname": "a.test"}, "nx.test": {"rcode": 3}, "none.test": {},
       "failed.test": {"rcode": 2}, "refused.test": {"rcode": 5}, "never.test": {"how": "silent"},
       "cut.test/a": {"a": ["127.0.0.1"], "how": "truncated"}, "cut.test": {}}
      """)
    let (port, nginx) = try (scene.port(), scene.port())
    func http(_ port: UInt16) -> String {
      """
      resolver 127.0.0.1:\(dns.port); resolver_timeout 2s;
      upstream named { server 127.0.0.1:\(upstream.port); }
      server { listen 127.0.0.1:\(port);
        location / { proxy_pass http://$arg_h:\(upstream.port); }
        location /group { proxy_pass http://$arg_h; } }
      """
    }
    let reference = try await NginxUpstream.start(scene, ports: [nginx], http(nginx))
    _ = try await Sallyport.start(scene, configuration(http(port)))
    for path in [
      "/?h=a.test", "/?h=A.TEST", "/?h=c.test", "/?h=f.test", "/?h=cut.test", "/?h=nx.test", "/?h=none.test",
      "/?h=failed.test", "/?h=refused.test", "/?h=never.test", "/?h=127.0.0.1", "/group?h=named",
    ] {
      let ours = try await scene.curl(["http://127.0.0.1:\(port)\(path)"])
      let theirs = try await scene.curl(["http://127.0.0.1:\(nginx)\(path)"])
      #expect(ours.status == theirs.status, "\(path)")
    }
    func lines(_ log: String) -> [String] {
      log.split(separator: "\n").compactMap { line -> String? in
        guard let end = line.firstRange(of: " could not be resolved"), let start = line.firstRange(of: "[error]"),
          let comma = line[end.upperBound...].firstIndex(of: ",")
        else { return nil }
        let name = line[start.upperBound..<end.lowerBound].split(separator: " ").last ?? ""
        return String(name + line[end.lowerBound..<comma])
      }
    }
    let theirs = lines(reference.errorLog)
    #expect(theirs.count == 5)
    #expect(lines(scene.text("error.log")) == theirs)
  }

  @Test func `are asked again when their TTL has ended, and not before; valid= has precedence`() async throws {
    let zone = #"{"a.test/a": {"a": ["127.0.0.1"], "ttl": TTL}, "a.test": {}}"#
    let kept = try await setting(zone.replacing("TTL", with: "3600"))
    for _ in 0..<5 { #expect(try await kept.ask("a.test").status == 200) }
    #expect(kept.dns.count("udp", "a.test") == 1)
    try kept.dns.write(#"{"a.test": {"rcode": 3}}"#)
    #expect(try await kept.ask("a.test").status == 200)
    #expect(kept.dns.count("udp", "a.test") == 1)
  }

  @Test func `whose answers have ended get the addresses of the new answer, and nothing stale`() async throws {
    let zone = #"{"a.test/a": {"a": ["127.0.0.1"], "ttl": 3600}, "a.test": {}}"#
    let setting = try await setting(zone, resolver: "valid=1s ipv6=off")
    #expect(try await setting.ask("a.test").status == 200)
    try setting.dns.write(#"{"a.test": {"rcode": 3}}"#)
    try await until("the name to be gone") { try await setting.ask("a.test").status == 502 }
    #expect(setting.dns.count("udp", "a.test") == 2)
    #expect(setting.dns.count("udp", "a.test", "aaaa") == 0)
    try setting.dns.write(zone)
    try await until("the name to be back") { try await setting.ask("a.test").status == 200 }
  }

  @Test func `share one question, and each question has an id and a port of its own`() async throws {
    let zone = #"{"a.test/a": {"a": ["127.0.0.1"], "until": "go"}, "a.test": {}, "b.test": {"rcode": 3}}"#
    let setting = try await setting(zone)
    try await withThrowingTaskGroup(of: Int.self) { group in
      for _ in 0..<20 { group.addTask { try await setting.ask("a.test").status } }
      try await until("the question") { setting.dns.count("udp", "a.test") >= 1 }
      try setting.scene.write("go", text: "")
      for try await status in group { #expect(status == 200) }
    }
    #expect(setting.dns.count("udp", "a.test") <= 2)
    for number in 0..<20 { #expect(try await setting.ask("n\(number).test").status == 502) }
    let questions = setting.dns.questions.filter { $0[1].hasPrefix("n") && $0[2] == "a" }
    #expect(questions.count == 20)
    #expect(Set(questions.map { $0[3] }).count >= 18)
    #expect(Set(questions.map { $0[4] }).count >= 18)
  }

  /// nginx touched a question's memory after its asker had gone.
  @Test(arguments: ["leaves", "reloads", "leaves and reloads", "is cut off"])
  func `CVE-2026-40701: an answer that comes after its asker has gone touches nothing`(how: String) async throws {
    let zone =
      #"{"a.test/a": {"a": ["127.0.0.1"], "until": "go"}, "a.test": {}, "b.test/a": {"a": ["127.0.0.1"]}, "b.test": {}}"#
    let setting = try await setting(zone, workers: 2)
    let requests = (0..<8).map { _ in
      Task { try await setting.ask("a.test", how == "reloads" ? [] : ["--max-time", "1"]) }
    }
    try await until("the questions") { setting.dns.count("udp", "a.test") >= 1 }
    if how.contains("reloads") {
      setting.daemon.signal(SIGHUP)
      try await setting.daemon.logged("generation 2")
    }
    if how.contains("leaves") { for request in requests { _ = await request.result } }
    if how == "is cut off" { setting.dns.stop() }
    try setting.scene.write("go", text: "")
    for request in requests {
      let result = await request.result
      if how == "reloads" { #expect(try result.get().status == 200) }
    }
    if how != "is cut off" { #expect(try await setting.ask("b.test").status == 200) }
    #expect(try await setting.ask("127.0.0.1").status == 200)
    setting.daemon.signal(SIGQUIT)
    #expect(try await setting.daemon.process.ended() == .exited(0))
  }

  @Test func `of a hostile server do no harm, and honest names resolve meanwhile`() async throws {
    let zone = """
      {"good.test/a": {"a": ["127.0.0.1"]}, "good.test": {},
       "garbage.test": {"how": "garbage", "a": ["127.0.0.1"]}, "noise.test": {"how": "noise", "a": ["127.0.0.1"]},
       "short.test": {"how": "short", "a": ["127.0.0.1"]}, "id.test": {"how": "wrong-id", "a": ["127.0.0.1"]},
       "question.test": {"how": "wrong-question", "a": ["127.0.0.1"]},
       "circle.test": {"cname": ["x.test", "y.test", "x.test"]}, "self.test": {"cname": "self.test"},
       "ping.test": {"cname": "pong.test"}, "pong.test": {"cname": "ping.test"},
       "forged.test": {"cname": "else.test", "forged": [["other.test", "127.0.0.1"]]},
       "cut.test": {"how": "truncated-twice", "a": ["127.0.0.1"]}, "closed.test": {"how": "truncated", "tcp": "close"},
       "silent.test": {"how": "silent"}, "two.test/a": {"how": "two", "a": ["127.0.0.1"]}, "two.test": {},
       "many.test/a": {"count": 2400}, "many.test": {},
       "pieces.test/a": {"count": 100, "tcp": "pieces"}, "pieces.test": {}}
      """
    let setting = try await setting(zone.replacing("\n", with: " "), resolver: "; resolver_timeout 3s")
    // What c-ares drops or nobody answers ends with the patience of the request.
    let late = ["garbage", "id", "closed", "silent"]
    let wrong = ["noise", "short", "question", "circle", "self", "ping", "forged", "cut"]
    try await withThrowingTaskGroup(of: (String, Int).self) { group in
      for name in late + wrong {
        group.addTask { (name, try await setting.ask("\(name).test").status) }
      }
      #expect(try await setting.ask("good.test").status == 200)
      #expect(try await setting.ask("two.test").status == 200)
      for try await (name, status) in group { #expect(status == 502, "\(name)") }
    }
    // The log gets a few of the lines that repeat.
    for reason in ["(110: Operation timed out)", "(1: Format error)"] {
      try await setting.daemon.logged("could not be resolved \(reason)")
    }
    // Many addresses come over TCP; nobody listens at the first of them.
    #expect(try await setting.ask("many.test", ["--max-time", "20"]).status >= 500)
    #expect(try await setting.ask("pieces.test", ["--max-time", "20"]).status >= 500)
    #expect(setting.dns.count("tcp", "many.test") == 1)
    #expect(try await setting.ask("good.test").status == 200)
  }

  @Test func `are asked of the next server when one is silent, and of one that starts late`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.echo(scene)
    let good = try await NameServer(scene, #"{"a.test/a": {"a": ["127.0.0.1"]}, "a.test": {}}"#, name: "good")
    let mute = try await NameServer(scene, #"{"a.test": {"how": "silent"}}"#, name: "mute")
    let (port, other, late) = try (scene.port(), scene.port(), scene.port())
    _ = try await Sallyport.serve(
      scene,
      """
      server { listen 127.0.0.1:\(port); resolver 127.0.0.1:\(mute.port) 127.0.0.1:\(good.port);
        location / { proxy_pass http://$arg_h:\(upstream.port); } }
      server { listen 127.0.0.1:\(other); resolver 127.0.0.1:\(late);
        location / { proxy_pass http://$arg_h:\(upstream.port); } }
      """)
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/?h=a.test"]).status == 200)
    #expect(good.count("udp", "a.test") >= 1)
    let waiting = Task { try await scene.curl(["http://127.0.0.1:\(other)/?h=a.test"]) }
    try await until("the request to arrive") { scene.text("error.log").contains("serves") }
    _ = try await NameServer(scene, #"{"a.test/a": {"a": ["127.0.0.1"]}, "a.test": {}}"#, name: "late", port: late)
    #expect(try await waiting.value.status == 200)
  }

  @Test func `that can't be names are never asked for`() async throws {
    let setting = try await setting("{}")
    for host in ["a%5C.b", "a..b", String(repeating: "a", count: 64), "a_%0A.test", "*.test", "a.onion"] {
      #expect(try await setting.ask(host).status == 502, "\(host)")
    }
    #expect(setting.dns.questions.isEmpty)
  }
}

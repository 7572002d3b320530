import Foundation
import Glibc
import TestSupport
import Testing

/// Access logs: the format `json`, and destinations that take no lines.
@Suite(.staged) struct `Where access lines go` {
  private func object(_ line: Substring) -> [String: Any]? {
    (try? JSONSerialization.jsonObject(with: Data(line.utf8))) as? [String: Any]
  }

  @Test func `a line of the format json is an object, whatever the client sends`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let front = try await MutualProxy(scene, server: "access_log json.log json;")
    let agent = #"a "quoted\" agent, {"status": 1}"#
    let answer = try await scene.curl(
      cast.to(front.port) + cast.alice.curl + ["-A", agent, "-H", "Referer: é\t", #"https://localhost/a"b\c?d=é"#])
    try await until("the line") { !scene.text("json.log").isEmpty }
    let lines = scene.text("json.log").split(separator: "\n")
    let line = try #require(lines.first.flatMap(object), "\(lines)")
    #expect(lines.count == 1 && line["status"] as? Int == answer.status)
    #expect(line["user_agent"] as? String == agent)
    #expect(line["uri"] as? String == #"/a"b\c?d=é"#)
    #expect(line["method"] as? String == "GET" && line["remote_addr"] as? String == "127.0.0.1")
    #expect(line["client_verify"] as? String == "SUCCESS" && line["client_verdict"] as? String == "admitted")
    #expect((line["client_subject"] as? String)?.contains("CN=alice") == true)
    #expect((line["client_fingerprint"] as? String)?.count == 40 && (line["request_id"] as? String)?.count == 32)
    #expect(line["sni"] as? String == "localhost" && (line["tls"] as? String)?.hasPrefix("TLSv1.") == true)
    #expect(line["request_time"] is Double && line["bytes"] is Int && line["upstream_status"] is String)
  }

  @Test func `a refused client's line has the rule`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let front = try await MutualProxy(scene, server: "access_log json.log json; ssl_client_allow cn=nobody;")
    _ = try await scene.curl(cast.to(front.port) + cast.alice.curl + ["https://localhost/"])
    try await until("the line") { !scene.text("json.log").isEmpty }
    let line = try #require(scene.text("json.log").split(separator: "\n").first.flatMap(object))
    #expect(line["status"] as? Int == 403)
    #expect((line["client_verdict"] as? String)?.contains("refused:access forbidden by rule at ") == true)
  }

  @Test func `requests go on while nobody reads the pipe of the log, and the lost lines are told`() async throws {
    let scene = try Scene.ofTest()
    #expect(mkfifo(scene.path("pipe"), 0o600) == 0)
    let port = try scene.port()
    let daemon = try await Sallyport.start(
      scene, configuration("server { listen 127.0.0.1:\(port); access_log pipe combined; return 204; }"))
    // 1,500 lines of 4 KiB: more than the pipe and what may wait for it.
    let path = String(repeating: "x", count: 4000)
    let result = try await scene.run(
      "curl", ["-s", "-o", "/dev/null", "-w", "%{http_code}\\n", "http://127.0.0.1:\(port)/\(path)/[1-1500]"])
    #expect(result.text.split(separator: "\n").count { $0 == "204" } == 1500)
    try await daemon.logged("[crit]", "the log ", "pipe loses lines: it takes them too slowly")
    // A reader comes, and gets whole lines.
    let reader = try #require(open(scene.path("pipe"), O_RDONLY | O_NONBLOCK) as Int32?)
    defer { close(reader) }
    var text: [UInt8] = [], room = [UInt8](repeating: 0, count: 65_536)
    try await until("the lines that waited") {
      let count = read(reader, &room, room.count)
      if count > 0 { text += room[..<count] }
      return count <= 0 && text.count > 4_000_000
    }
    #expect(String(decoding: text, as: UTF8.self).split(separator: "\n").allSatisfy { $0.hasPrefix("127.0.0.1 - ") })
    try await daemon.logged("[crit]", "the log ", "pipe takes lines again: ", " were lost in ")
    daemon.signal(SIGTERM)
    #expect(try await daemon.process.ended() == .exited(0))
  }

  @Test func `a disk that fills cuts no line of JSON`() async throws {
    let scene = try Scene.ofTest()
    let port = try scene.port()
    let daemon = try await Sallyport.start(
      scene, configuration("server { listen 127.0.0.1:\(port); access_log json.log json; return 204; }"))
    func limit(_ size: String) async throws {
      let result = try await scene.run("prlimit", ["--pid", "\(daemon.process.identifier)", "--fsize=\(size)"])
      #expect(result.status == 0, "\(result.everything)")
    }
    func ask(_ count: Int) async throws {
      let urls = "http://127.0.0.1:\(port)/[1-\(count)]"
      let result = try await scene.run("curl", ["-s", "-w", "%{http_code}\\n", urls])
      #expect(result.text.split(separator: "\n").count { $0 == "204" } == count)
    }
    // In the middle of a line: each has some hundred bytes. The error log has its own lines left out.
    try await limit("10001:unlimited")
    try await ask(200)
    try await until("lines up to the limit") { scene.bytes("json.log").count > 8000 }
    try await daemon.logged("[crit]", "json.log loses lines")
    let text = scene.text("json.log")
    #expect(text.hasSuffix("}\n") && text.utf8.count <= 10_001)
    try await limit("unlimited:unlimited")
    try await ask(20)
    try await until("further lines") { scene.bytes("json.log").count > 10_001 }
    let lines = scene.text("json.log").split(separator: "\n", omittingEmptySubsequences: false)
    #expect(lines.dropLast().allSatisfy { object($0) != nil } && lines.last == "")
  }

  @Test func `a full disk of the access log is one line in the error log`() async throws {
    let scene = try Scene.ofTest()
    let port = try scene.port()
    let daemon = try await Sallyport.start(
      scene, configuration("server { listen 127.0.0.1:\(port); access_log /dev/full combined; return 204; }"))
    let result = try await scene.run("curl", ["-s", "-w", "%{http_code}\\n", "http://127.0.0.1:\(port)/[1-200]"])
    #expect(result.text.split(separator: "\n").count { $0 == "204" } == 200)
    try await daemon.logged("[crit]", "the log /dev/full loses lines: (28: No space left on device)")
    let health = try await scene.sallyport("health", "--config", scene.path("sallyport.conf"))
    #expect(health.status == 3, "\(health.everything)")
    #expect(health.text.contains("WARN    log: the log /dev/full loses lines: (28: No space left"), "\(health.text)")
    let ready = try await scene.sallyport("health", "--config", scene.path("sallyport.conf"), "--ready")
    #expect(ready.status == 0)
    daemon.signal(SIGQUIT)
    _ = try await daemon.process.ended()
    #expect(daemon.errorLog.components(separatedBy: "loses lines").count == 2)
  }

  @Test func `buffer= and flush= hold lines back, and the end of the process writes them`() async throws {
    let scene = try Scene.ofTest()
    let port = try scene.port()
    let daemon = try await Sallyport.start(
      scene,
      configuration(
        """
        server { listen 127.0.0.1:\(port); access_log full.log combined buffer=1k; access_log old.log combined buffer=1m flush=1h;
          access_log soon.log combined; return 204; }
        """
      ).replacing("worker_processes 2", with: "worker_processes 1"))
    _ = try await scene.run("curl", ["-s", "http://127.0.0.1:\(port)/[1-20]"])
    try await until("the log without buffer") { scene.text("soon.log").split(separator: "\n").count == 20 }
    let full = scene.text("full.log").split(separator: "\n").count
    #expect(full > 0 && full < 20 && scene.text("old.log").isEmpty)
    daemon.signal(SIGQUIT)
    _ = try await daemon.process.ended()
    for log in ["full.log", "old.log"] { #expect(scene.text(log).split(separator: "\n").count == 20, "\(log)") }
  }
}

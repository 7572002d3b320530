import Crypto
import Glibc
import TestSupport
import Testing

@Suite(.staged) struct `Metrics of requests and upstreams` {
  private func page(_ scene: Scene, _ port: UInt16) async throws -> PrometheusPage {
    let result = try await scene.curl(["http://127.0.0.1:\(port)/metrics"])
    #expect(result.status == 200)
    return try PrometheusPage(result.text)
  }

  /// One server block with every kind of answer, and a group of which one server is dead.
  private func text(_ port: UInt16, _ upstream: UInt16, _ dead: UInt16, _ inside: UInt16, name: String = "front.test")
    -> String
  {
    configuration(
      """
      upstream app { server 127.0.0.1:\(upstream); keepalive 4; }
      upstream gone { server 127.0.0.1:\(dead) max_fails=0; }
      server {
        listen 127.0.0.1:\(port); server_name \(name);
        location / { proxy_pass http://app; proxy_http_version 1.1; proxy_set_header Connection ""; }
        location /gone { proxy_pass http://gone; }
        location /moved { return 301 /; }
        location /nothing { return 404; }
        location /silent { return 444; }
      }
      server { listen 127.0.0.1:\(inside); server_name inside; location = /metrics { metrics; } }
      """)
  }

  @Test func `requests and attempts are counted by what came of them, and a reload keeps the counts`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.echo(scene)
    let port = try scene.port(), dead = try scene.port(), inside = try scene.port()
    let daemon = try await Sallyport.start(scene, text(port, upstream.port, dead, inside))
    func ask(_ path: String, _ more: [String] = []) async throws -> Int {
      try await scene.curl(more + ["http://127.0.0.1:\(port)\(path)"]).status
    }
    #expect(try await ask("/") == 200)
    #expect(try await ask("/", ["--data-binary", String(repeating: "x", count: 5000)]) == 200)
    #expect(try await ask("/gone") == 502)
    #expect(try await ask("/moved") == 301)
    #expect(try await ask("/nothing") == 404)
    let ours = ["server": "front.test", "listen": "127.0.0.1:\(port)"]
    func counts(_ page: PrometheusPage) -> [Double?] {
      ["2xx", "3xx", "4xx", "5xx"].map {
        page.value("sallyport_requests_total", ours.merging(["code": $0]) { $1 })
      }
    }
    // The client has the response before the exchange ends.
    try await until("five requests") { try await page(scene, inside).value("sallyport_requests_total", ours) == 5 }
    let first = try await page(scene, inside)
    #expect(counts(first) == [2, 1, 1, 1])
    #expect(first.value("sallyport_request_duration_seconds_count", ours) == 5)
    #expect(first.value("sallyport_request_bytes_total", ours) ?? 0 > 5000)
    #expect(first.value("sallyport_response_bytes_total", ours) ?? 0 > 500)
    let app = ["upstream": "app", "server": "127.0.0.1:\(upstream.port)"]
    #expect(first.value("sallyport_upstream_attempts_total", app) == 2)
    #expect(first.value("sallyport_upstream_attempts_total", app.merging(["result": "2xx"]) { $1 }) == 2)
    #expect(first.value("sallyport_upstream_response_head_seconds_count", app) == 2)
    #expect(
      first.value("sallyport_upstream_attempts_total", ["upstream": "gone", "result": "connect"]) == 1)
    #expect(first.value("sallyport_build_info") == 1)
    #expect(first.value("sallyport_reload_last_successful") == 1)

    daemon.signal(SIGHUP)
    try await until("generation 2") { try await page(scene, inside).value("sallyport_generation") == 2 }
    let second = try await page(scene, inside)
    #expect(counts(second) == [2, 1, 1, 1])
    #expect(second.value("sallyport_upstream_attempts_total", app) == 2)
    #expect(second.value("sallyport_reloads_total", ["kind": "configuration", "result": "loaded"]) == 1)

    // A refused reload changes nothing but its own count.
    try daemon.rewrite("nonsense;")
    daemon.signal(SIGHUP)
    try await until("the refusal") {
      try await page(scene, inside).value("sallyport_reloads_total", ["result": "refused"]) == 1
    }
    let third = try await page(scene, inside)
    #expect(third.value("sallyport_reload_last_successful") == 0)
    #expect(counts(third) == [2, 1, 1, 1])

    // A server that is gone from the configuration has no series any more.
    try daemon.rewrite(text(port, upstream.port, dead, inside, name: "renamed.test"))
    daemon.signal(SIGHUP)
    try await until("generation 3") { try await page(scene, inside).value("sallyport_generation") == 3 }
    let fourth = try await page(scene, inside)
    #expect(fourth.value("sallyport_requests_total", ours) == nil)
    #expect(fourth.value("sallyport_requests_total", ["server": "renamed.test"]) == 0)
    #expect(fourth.value("sallyport_reload_last_successful") == 1)
  }

  @Test func `targets that clients choose make one series, and the samples of each second come`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.echo(scene)
    let port = try scene.port()
    _ = try await Sallyport.serve(
      scene,
      """
      upstream app { server 127.0.0.1:\(upstream.port); keepalive 4; }
      server { listen 127.0.0.1:\(port); server_name a;
        location = /metrics { metrics; }
        location /kept { proxy_pass http://app; proxy_http_version 1.1; proxy_set_header Connection ""; }
        location / { proxy_pass http://$arg_to; }
      }
      """)
    for host in ["127.0.0.1", "127.0.0.2", "127.0.0.3"] {
      _ = try await scene.curl(["http://127.0.0.1:\(port)/?to=\(host):\(upstream.port)"])
    }
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/kept"]).status == 200)
    let found = try await page(scene, port)
    #expect(Set(found.samples.compactMap { $0.labels["upstream"] }) == ["(variable)", "app"])
    #expect(found.value("sallyport_upstream_attempts_total", ["upstream": "(variable)"]) == 3)
    try await until("a sample of the pool") {
      try await page(scene, port).value("sallyport_upstream_connections_kept", ["upstream": "app"]) == 1
    }
    let later = try await page(scene, port)
    #expect(later.value("sallyport_upstream_connections_in_use", ["upstream": "app"]) == 0)
    #expect(later.value("sallyport_loop_lag_seconds_count") ?? 0 >= 1)
    #expect(later.value("process_open_fds") ?? 0 > 3)
    #expect(later.value("process_resident_memory_bytes") ?? 0 > 1_000_000)
    #expect(later.value("process_cpu_seconds_total") ?? -1 >= 0)
  }

  @Test func `without a location that shows them, requests are not counted, and with one from then on`() async throws {
    let scene = try Scene.ofTest()
    let port = try scene.port()
    func text(_ location: String) -> String {
      configuration("server { listen 127.0.0.1:\(port); server_name a; \(location) location / { return 200 ok; } }")
    }
    let daemon = try await Sallyport.start(scene, text(""))
    #expect(try await scene.curl(["http://127.0.0.1:\(port)/"]).status == 200)
    try daemon.rewrite(text("location = /metrics { metrics; }"))
    daemon.signal(SIGHUP)
    try await until("metrics") { try await scene.curl(["http://127.0.0.1:\(port)/metrics"]).text.hasPrefix("# HELP") }
    let before = try await page(scene, port).value("sallyport_requests_total", ["server": "a"]) ?? -1
    #expect(before >= 1)
    #expect(try await page(scene, port).value("sallyport_requests_total", ["server": "a"]) == before + 1)
  }
}

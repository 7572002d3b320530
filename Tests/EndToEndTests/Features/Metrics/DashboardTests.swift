import Crypto
import Foundation
import TestSupport
import Testing

/// The dashboard and the alert rules of deploy/ ask for metrics by name; a name that the daemon doesn't have would show
/// nothing, and alert nobody.
@Suite(.staged) struct `Dashboard and alerts` {
  private static let folder = "\(checkout)/deploy"

  /// The names in expressions of PromQL: of sallyport's metrics and of the process.
  private static func names(in text: String) -> Set<String> {
    Set(text.matches(of: /\b(sallyport|process)_[a-z0-9_]+/).map { String($0.output.0) })
  }

  /// The families that a literal of the sources names.
  private static func namesInSources() throws -> Set<String> {
    let paths = FileManager.default.enumerator(atPath: "\(checkout)/Sources")?.compactMap { $0 as? String } ?? []
    var names: Set<String> = []
    for path in paths where path.hasSuffix(".swift") {
      let text = try String(contentsOfFile: "\(checkout)/Sources/\(path)", encoding: .utf8)
      names.formUnion(text.matches(of: /"(sallyport_[a-z0-9_]+)"/).map { String($0.output.1) })
    }
    return names
  }

  private static func text(_ path: String) throws -> String {
    try String(contentsOfFile: "\(checkout)/\(path)", encoding: .utf8)
  }

  @Test func `each alert has a section of INCIDENTS, to which it leads, and a test of it firing and of it quiet`()
    throws
  {
    let rules = try Self.text("deploy/alerts/sallyport.rules.yml"),
      tests = try Self.text("deploy/alerts/sallyport.tests.yml")
    let alerts = rules.matches(of: /- alert: (\w+)\n/).map { String($0.output.1) }
    #expect(alerts.count > 30 && Set(alerts).count == alerts.count)
    let leads = rules.matches(of: /runbook_url: "file:\/\/\/usr\/share\/doc\/sallyport\/docs\/INCIDENTS\.md#(\w+)"/)
      .map { String($0.output.1) }
    #expect(leads == alerts.map { $0.lowercased() })
    let sections = try Self.text("docs/INCIDENTS.md").matches(of: /\n### (Sallyport\w+)\n\n\S/).map {
      String($0.output.1)
    }
    #expect(sections == alerts)
    for alert in alerts {
      #expect(tests.contains("- name: \(alert) fires\n") && tests.contains("- name: \(alert) is quiet\n"), "\(alert)")
      #expect(tests.contains("{ alertname: \(alert), eval_time: "), "\(alert) quiet")
    }
  }

  private static let promtool: String? = {
    let places: [String] = ["/usr/bin/promtool", "/usr/local/bin/promtool"]
    return places.first { FileManager.default.isExecutableFile(atPath: $0) }
  }()

  @Test(.enabled(if: promtool != nil, "promtool is not installed (Debian: prometheus)"))
  func `promtool finds each alert firing and quiet as its test says`() async throws {
    let scene = try Scene.ofTest()
    try await scene.succeed(
      try #require(Self.promtool), "test", "rules", "\(Self.folder)/alerts/sallyport.tests.yml")
  }

  private func page(_ scene: Scene) async throws -> PrometheusPage {
    let cast = try Cast(scene)
    var list = RevocationListBuilder(revoking: [cast.alice.certified.certificate])
    list.nextUpdate = Int64(time(nil)) + 86_400
    try scene.write("crl.pem", text: list.pem(signedBy: cast.authority.root))
    let upstream = try ScriptedUpstream.echo(scene)
    let port = try scene.port(), secure = try scene.port()
    _ = try await Sallyport.serve(
      scene,
      """
      limit_req_zone $arg_k zone=rate:1m rate=1r/s; limit_conn_zone $arg_k zone=count:1m;
      upstream app { server 127.0.0.1:\(upstream.port); }
      server { listen 127.0.0.1:\(port); server_name in; location = /metrics { metrics; }
        location / { limit_req zone=rate; limit_conn count 9; proxy_pass http://app; health_check interval=1s; } }
      server { listen 127.0.0.1:\(secure) ssl; server_name localhost; \(Cast.tls) ssl_crl crl.pem; return 204; }
      """)
    return try PrometheusPage(try await scene.page(port, "/metrics").text)
  }

  @Test func `every metric that they ask for is on the page of metrics`() async throws {
    let scene = try Scene.ofTest()
    let page = try await page(scene)
    // Features whose families need a peer, such as an agent, have their names in the sources.
    let known = try Set(page.samples.map(\.name)).union(Self.namesInSources())
    for file in ["alerts/sallyport.rules.yml", "grafana/sallyport.json"] {
      let text = try String(contentsOfFile: "\(Self.folder)/\(file)", encoding: .utf8)
      let asked = Self.names(in: text)
      #expect(asked.count > 10, "\(file)")
      for name in asked.sorted() { #expect(known.contains(name), "\(file): \(name)") }
    }
    // And the manual names every one that there is.
    let manual = try String(contentsOfFile: "\(Self.folder)/../docs/operating/observe.md", encoding: .utf8)
    for name in page.kinds.keys.sorted() where !name.hasPrefix("process_") {
      #expect(manual.contains("`\(name)"), "observe.md: \(name)")
    }
  }

  @Test func `the values of labels that rules ask for are ones that the daemon has`() async throws {
    let scene = try Scene.ofTest()
    let page = try await page(scene)
    let text = try String(contentsOfFile: "\(Self.folder)/alerts/sallyport.rules.yml", encoding: .utf8)
    for match in text.matches(of: /(sallyport_[a-z0-9_]+)\{([a-z]+)[=!]~?"([^"]+)"\}/) {
      let (name, label) = (String(match.output.1), String(match.output.2))
      guard page.samples.contains(where: { $0.name == name }) else { continue }
      for value in match.output.3.split(separator: "|") {
        #expect(page.value(name, [label: String(value)]) != nil, "\(name){\(label)=\(value)}")
      }
    }
  }

  @Test func `the dashboard is a JSON object whose panels have expressions and do not overlap`() throws {
    let data = try Data(contentsOf: URL(fileURLWithPath: "\(Self.folder)/grafana/sallyport.json"))
    let dashboard = try #require(try JSONSerialization.jsonObject(with: data) as? [String: Any])
    let panels = try #require(dashboard["panels"] as? [[String: Any]])
    var taken: Set<[Int]> = []
    for panel in panels {
      let place = try #require(panel["gridPos"] as? [String: Int])
      let (x, y, w, h) = (place["x"] ?? 0, place["y"] ?? 0, place["w"] ?? 0, place["h"] ?? 0)
      #expect(x + w <= 24)
      for column in x..<(x + w) {
        for line in y..<(y + h) { #expect(taken.insert([column, line]).inserted) }
      }
      if panel["type"] as? String != "row" {
        #expect((panel["targets"] as? [[String: Any]])?.allSatisfy { $0["expr"] is String } == true)
        let title = panel["title"] as? String ?? ""
        #expect((panel["description"] as? String)?.hasSuffix(".") == true, "\(title) has no description")
      }
    }
    #expect(panels.count > 15)
  }
}

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
      upstream app { server 127.0.0.1:\(upstream.port); }
      server { listen 127.0.0.1:\(port); server_name in; location = /metrics { metrics; }
        location / { proxy_pass http://app; health_check interval=1s; } }
      server { listen 127.0.0.1:\(secure) ssl; server_name localhost; \(Cast.tls) ssl_crl crl.pem; return 204; }
      """)
    return try PrometheusPage(try await scene.page(port, "/metrics").text)
  }

  @Test func `every metric that they ask for is on the page of metrics`() async throws {
    let scene = try Scene.ofTest()
    let page = try await page(scene)
    let known = Set(page.samples.map(\.name))
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
      }
    }
    #expect(panels.count > 15)
  }
}

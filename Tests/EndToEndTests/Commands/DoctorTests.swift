import Foundation
import TestSupport
import Testing

@Suite(.staged) struct `The doctor` {
  @Test func `tells of the process, its listeners and its configuration, and of nobody's keys`() async throws {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    let port = try scene.port()
    let daemon = try await Sallyport.serve(
      scene, "server { listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls) return 204; }")
    let path = scene.path("sallyport.conf")
    let told = try await scene.sallyport("doctor", "--config", path, "--verbose", "--socket", scene.path("none.sock"))
    #expect([0, 3].contains(told.status), "\(told.everything)")
    for part in [
      "0 failed", "process \(daemon.process.identifier) of user", "listener 127.0.0.1:\(port) presents CN=",
      "\(path) is valid", "descriptors are open", "no API was asked",
    ] { #expect(told.text.contains(part), "\(part): \(told.everything)") }
    #expect(!told.everything.contains("PRIVATE KEY"))
    let json = try await scene.sallyport("doctor", "--config", path, "--json", "--socket", scene.path("none.sock"))
    let object = try JSONSerialization.jsonObject(with: Data(json.text.utf8)) as? [String: Any]
    #expect((object?["findings"] as? [Any])?.isEmpty == false, "\(json.everything)")
  }

  /// A reload that was refused days ago looks like nothing: the process serves, and the files look right.
  @Test func `names the lines of the files that don't serve, and since when a reload is refused`() async throws {
    let scene = try Scene.ofTest()
    let port = try scene.port()
    let daemon = try await Sallyport.serve(scene, "server { listen 127.0.0.1:\(port); return 204; }")
    let path = scene.path("sallyport.conf"), text = scene.text("sallyport.conf")
    func running() async throws -> String {
      try await scene.sallyport("check", "--running", "--socket", scene.path("none.sock"), path).everything
    }
    #expect(try await !running().contains("than what serves"))
    try scene.write("sallyport.conf", text: "# a comment\n\(text)\nnonsense;\n")
    let reload = try await scene.sallyport("reload", "--config", path)
    #expect(reload.status == 1, "\(reload.everything)")
    let line = text.split(separator: "\n", omittingEmptySubsequences: false).count + 2
    let told = try await running()
    #expect(told.contains("the files say something else than what serves: \(path):\(line)"), "\(told)")
    #expect(told.contains("nonsense") && told.contains("(refused since "), "\(told)")
    let doctor = try await scene.sallyport("doctor", "--config", path, "--socket", scene.path("none.sock"))
    #expect(
      doctor.text.contains("WARN    configuration  the files say something else than what serves: \(path):\(line)"),
      "\(doctor.everything)")
    try scene.write("sallyport.conf", text: text)
    #expect(try await !running().contains("than what serves"))
    _ = daemon
  }

  @Test func `names an upstream that isn't there and a service that doesn't run`() async throws {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    let (port, gone) = (try scene.port(), try scene.port())
    let path = try scene.write(
      "sallyport.conf",
      text: configuration(
        "server { listen 127.0.0.1:\(port); location / { proxy_pass https://127.0.0.1:\(gone); proxy_ssl_verify off; } }"
      ))
    let told = try await scene.sallyport("doctor", "--config", path)
    #expect(told.status == 1, "\(told.everything)")
    #expect(told.text.contains("FAILED  service        no process runs \(path)"), "\(told.everything)")
    #expect(told.text.contains("FAILED  upstreams      https://127.0.0.1:\(gone)"), "\(told.everything)")
  }
}

import Bytes
@testable import Features
@testable import Forward
import Glibc
import HTTP
import TestSupport
import Testing
@testable import Traffic

private func names(_ folder: String) -> [String] {
  guard let stream = opendir(folder) else { return [] }
  defer { closedir(stream) }
  var names: [String] = []
  while let entry = readdir(stream) {
    let name = withUnsafeBytes(of: entry.pointee.d_name) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
    if name != ".", name != ".." { names.append(name) }
  }
  return names
}

/// `access_log` with variables in the name of its file.
@Suite struct `An access log that requests name` {
  private func rig(_ scene: Scene, _ path: String, _ more: String = "") throws -> Rig {
    try Rig(
      """
      log_format f "$request_uri $status"; \(more)
      server { listen 80; location / { return 204; } }
      """, accessLog: "\(scene.folder)/logs/\(path) f")
  }

  @Test func `each request has its line in the file that it names`() throws {
    let scene = try Scene()
    defer { scene.end() }
    try scene.makeFolder("logs")
    let rig = try rig(scene, "$host-$arg_a.log")
    for (host, target) in [("a.test", "/1"), ("b.test", "/2?a=x"), ("A.test", "/3")] {
      #expect(try rig.ask("GET \(target) HTTP/1.1", "Host: \(host)").status == 204)
    }
    rig.flushLogs()
    #expect(scene.text("logs/a.test-.log") == "/1 204\n/3 204\n")
    #expect(scene.text("logs/b.test-x.log") == "/2?a=x 204\n")
  }

  @Test(arguments: ["../x", "..", ".", "a/b", "a\tb"])
  func `a value that would lead out of the folder names no file`(value: String) throws {
    let scene = try Scene()
    defer { scene.end() }
    try scene.makeFolder("logs")
    for path in ["$http_x_name", "$http_x_name/y.log"] {
      let rig = try rig(scene, path)
      #expect(try rig.ask("GET / HTTP/1.1", "Host: h", "X-Name: \(value)").status == 204)
      rig.flushLogs()
    }
    #expect(names(scene.path("logs")).isEmpty && names(scene.folder) == ["logs"], "\(names(scene.folder))")
  }
}

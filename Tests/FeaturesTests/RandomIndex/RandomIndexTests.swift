@testable import Features
import Glibc
import TestSupport
import Testing
@testable import Traffic
import Transport

@Suite struct `A file of a folder at random` {
  private func got(_ rig: Rig, _ path: String) async throws -> MemoryStream {
    let client = try rig.ask("GET \(path) HTTP/1.1", "Host: h")
    try await until("the response") {
      rig.loop.wakeUp()
      rig.loop.cork.flush()
      return client.hasEnded
    }
    return client
  }

  @Test func `is one that a request can ask for, and not always the same`() async throws {
    let scene = try Scene(.http1)
    defer { scene.end() }
    _ = try scene.makeFolder("www/r/sub")
    _ = try scene.makeFolder("www/r/empty")
    for name in ["a", "b", ".c", "index.html"] { try scene.write("www/r/\(name)", text: name) }
    #expect(symlink("/etc/passwd", scene.path("www/r/link")) == 0)
    let rig = try Rig("server { listen 80; root \(scene.path("www")); location /r/ { random_index on; } }")
    var seen: Set<String> = []
    for _ in 0..<60 { seen.insert(try await got(rig, "/r/").body) }
    #expect(seen == ["a", "b", "index.html"])
    #expect(try await got(rig, "/r/empty/").status == 403)
    #expect(try await got(rig, "/r/none/").status == 404)
  }
}

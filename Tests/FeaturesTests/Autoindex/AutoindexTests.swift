import Bytes
@testable import Features
import Glibc
import TestSupport
import Testing
@testable import Traffic
import Transport

@Suite struct `Listing folders` {
  private func got(_ rig: Rig, _ path: String, method: String = "GET") async throws -> MemoryStream {
    let client = try rig.ask("\(method) \(path) HTTP/1.1", "Host: h")
    try await until("the response") {
      rig.loop.wakeUp()
      rig.loop.cork.flush()
      return client.hasEnded || client.isReleased
    }
    return client
  }

  private func rig(_ scene: Scene, _ lines: String) throws -> Rig {
    _ = try scene.makeFolder("www/sub")
    _ = try scene.makeFolder("www/with")
    try scene.write("www/a.txt", text: "text")
    try scene.write("www/.secret", text: "text")
    try scene.write("www/with/index.html", text: "the index")
    #expect(symlink("/etc", scene.path("www/etc")) == 0)
    return try Rig("server { listen 80; root \(scene.path("www")); \(lines) }")
  }

  @Test func `a folder without an index is listed, and nothing that isn't served`() async throws {
    let scene = try Scene(.http1)
    defer { scene.end() }
    let rig = try rig(scene, "autoindex on;")
    let list = try await got(rig, "/")
    #expect(list.status == 200 && list.head.contains("Content-Type: text/html\r\n"))
    #expect(list.body.contains("<a href=\"sub/\">sub/</a>") && list.body.contains("<a href=\"a.txt\">a.txt</a>"))
    #expect(!list.body.contains("secret") && !list.body.contains("etc"))
    #expect(try await got(rig, "/with/").body == "the index")
    #expect(try await got(rig, "/etc/").status == 403)
    #expect(try await got(rig, "/none/").status == 404)
    #expect(try await got(rig, "/a.txt/").status == 404)
    #expect(try await got(rig, "/", method: "POST").status == 403)
    let head = try await got(rig, "/", method: "HEAD")
    #expect(head.status == 200 && head.body.isEmpty)
  }

  @Test func `without the line a folder is not listed`() async throws {
    let scene = try Scene(.http1)
    defer { scene.end() }
    let rig = try rig(scene, "autoindex on; location /sub/ { autoindex off; }")
    #expect(try await got(rig, "/sub/").status == 403)
    #expect(try await got(rig, "/").status == 200)
  }

  @Test func `each form has its type, and a callback that is no name is refused`() async throws {
    for (format, type) in [
      ("xml", "text/xml; charset=utf-8"), ("json", "application/json"), ("jsonp", "application/javascript"),
    ] {
      let scene = try Scene(.http1)
      defer { scene.end() }
      let rig = try rig(scene, "autoindex on; autoindex_format \(format);")
      let list = try await got(rig, "/?callback=f")
      #expect(list.head.contains("Content-Type: \(type)\r\n") && list.body.contains("a.txt"))
      guard format == "jsonp" else { continue }
      #expect(list.body.hasPrefix("/* callback */\r\nf(["))
      #expect(try await got(rig, "/").head.contains("Content-Type: application/json"))
      #expect(try await got(rig, "/?callback=alert(1)").status == 400)
    }
  }

  @Test func `a list that would take too much memory beside others is refused for now`() async throws {
    let scene = try Scene(.http1)
    defer { scene.end() }
    let rig = try rig(scene, "autoindex on;")
    for number in 0..<300 { try scene.write("www/\(String(repeating: "n", count: 40))\(number)", text: "") }
    rig.worker.responses.take(32 << 20)
    #expect(try await got(rig, "/").status == 503)
    rig.worker.responses.giveBack(32 << 20)
    #expect(try await got(rig, "/").status == 200)
  }
}

import Bytes
import Compression
@testable import Features
import Glibc
import TestSupport
import Testing
@testable import Traffic
import Transport

@Suite struct `Files compressed earlier` {
  private static let plain = "plain", packed = "not really gzip"

  private func rig(_ scene: Scene, _ lines: String) throws -> Rig {
    let folder = try scene.makeFolder("www")
    try scene.write("www/a.css", text: Self.plain)
    try scene.write("www/a.css.gz", text: Self.packed)
    try scene.write("www/b.css", text: Self.plain)
    _ = try scene.makeFolder("www/c.css.gz")
    try scene.write("www/c.css", text: Self.plain)
    try scene.write("www/d.css.gz", text: Self.packed)
    return try Rig("types { text/css css; } server { listen 80; root \(folder); \(lines) }")
  }

  private func got(_ rig: Rig, _ path: String, _ fields: String..., method: String = "GET") async throws -> MemoryStream
  {
    let client = try rig.ask(["\(method) \(path) HTTP/1.1", "Host: h"] + fields)
    try await until("the response") {
      rig.loop.wakeUp()
      rig.loop.cork.flush()
      return client.hasEnded || client.isReleased
    }
    return client
  }

  @Test func `go to clients that take gzip, with fields of their own`() async throws {
    let scene = try Scene(.http1)
    defer { scene.end() }
    let rig = try rig(scene, "gzip_static on;")
    let packed = try await got(rig, "/a.css", "Accept-Encoding: gzip", "Range: bytes=0-1")
    #expect(packed.status == 200 && packed.body == Self.packed && packed.head.contains("Content-Encoding: gzip"))
    #expect(packed.head.contains("Content-Type: text/css") && packed.head.contains("Content-Length: 15"))
    #expect(!packed.head.contains("Accept-Ranges") && !packed.head.contains("Vary"))
    let tag = try #require(
      packed.head.split(separator: "\r\n").first { $0.hasPrefix("ETag: ") }.map { $0.dropFirst(6) })
    let known = try await got(rig, "/a.css", "Accept-Encoding: gzip", "If-None-Match: \(tag)")
    #expect(known.status == 304 && !known.head.contains("Content-Encoding"))
    #expect(try await got(rig, "/a.css", "If-None-Match: \(tag)").status == 200, "the plain file has another tag")
    let head = try await got(rig, "/a.css", "Accept-Encoding: gzip", method: "HEAD")
    #expect(head.body.isEmpty && head.head.contains("Content-Length: 15"))
  }

  @Test func `are left out for others, and where there is none`() async throws {
    let scene = try Scene(.http1)
    defer { scene.end() }
    let rig = try rig(scene, "gzip_static on; gzip_vary on; gzip_disable crawler;")
    for (path, fields, varies) in [
      ("/a.css", ["Accept-Encoding: br"], true), ("/a.css", ["Accept-Encoding: gzip", "Via: 1.1 x"], true),
      ("/a.css", ["Accept-Encoding: gzip", "User-Agent: a Crawler"], true),
      ("/b.css", ["Accept-Encoding: gzip"], false),
      // A folder of that name.
      ("/c.css", ["Accept-Encoding: gzip"], true),
    ] {
      let client = try rig.ask(["GET \(path) HTTP/1.1", "Host: h"] + fields)
      try await until("the response") {
        rig.loop.wakeUp()
        return client.hasEnded
      }
      #expect(client.body == Self.plain && !client.head.contains("Content-Encoding"), "\(path)")
      #expect(client.head.contains("Vary: Accept-Encoding") == varies, "\(path) \(fields)")
    }
    #expect(try await got(rig, "/d.css").status == 404)
    #expect(try await got(rig, "/d.css", "Accept-Encoding: gzip").body == Self.packed)
  }

  @Test func `go to everybody if always says so, and gunzip reads them`() async throws {
    let scene = try Scene(.http1)
    defer { scene.end() }
    let always = try rig(scene, "gzip_static always; gzip_vary on;")
    let packed = try await got(always, "/a.css")
    #expect(packed.body == Self.packed && packed.head.contains("gzip") && !packed.head.contains("Vary"))
    let stream = try #require(GzipStream(level: 6, length: nil))
    var output = ByteBuffer()
    #expect(Array(Self.plain.utf8).withUnsafeBytes { stream.compress($0, .finish, to: &output) })
    try scene.write("www/a.css.gz", Array(output.readable))
    let reading = try Rig(
      "server { listen 80; root \(scene.path("www")); gzip_static always; gunzip on; gzip_vary on; }")
    let plain = try await got(reading, "/a.css", "Range: bytes=0-1")
    #expect(plain.status == 200 && plain.body == Self.plain && plain.head.contains("Vary: Accept-Encoding"))
    #expect(!plain.head.contains("Content-Encoding") && !plain.head.contains("Content-Length"))
  }

  @Test func `one that may not be read is told, and the plain file goes`() async throws {
    let scene = try Scene(.http1)
    defer { scene.end() }
    let rig = try rig(scene, "gzip_static on; error_log \(scene.path("error.log"));")
    #expect(unlink(scene.path("www/a.css.gz")) == 0 && symlink("b.css", scene.path("www/a.css.gz")) == 0)
    #expect(try await got(rig, "/a.css", "Accept-Encoding: gzip").body == Self.plain)
    #expect(scene.text("error.log").contains("a.css.gz\" failed"))
  }
}

import Bytes
import HTTP
import Testing

@Suite struct `Other readings of a path` {
  private func readings(_ path: String, _ readings: PathReadings = .all, merges: Bool = true) -> [String]? {
    Array(path.utf8).withUnsafeBytes { bytes in
      readings.readings(of: .raw(bytes), mergesSlashes: merges)?.map { String(decoding: $0, as: UTF8.self) }
    }
  }

  private func possible(_ path: String) -> PathReadings {
    Array(path.utf8).withUnsafeBytes { PathReadings.all.possible(for: .raw($0)) }
  }

  private static let attacks: [(String, PathReadings)] = [
    ("/admin;x/secret", .parameters), ("/;/admin/secret", .parameters),
    ("/x/..;/admin/secret", .parameters), ("/admin%3Bx/secret", .parameters), ("/admin\\secret", .backslash),
    ("/admin%5csecret", .backslash), ("/admin%20/secret", .dots), ("/admin./secret", .dots),
    ("/admin.%20. /secret", .dots), ("/admin%C2%A0/secret", .dots), ("/admin%09/secret", .dots),
    ("/x/.. /admin/secret", .dots), ("/x/%252e%252e/admin/secret", .decode), ("/admin%252fsecret", .decode),
    ("/%2561dmin/secret", .decode), ("/x/;/../admin/secret", .parameters), ("/x/..%3B/admin/secret", .parameters),
    ("/x;a/..;b/;c/admin;d/secret;e", .parameters), ("/x/..\\admin\\secret", .backslash),
    ("/admin%253Bx/secret", [.decode, .parameters]), ("/admin%255csecret", [.decode, .backslash]),
    ("/x\\..;y\\admin/secret", [.backslash, .parameters]), ("/admin%20;x/secret", [.dots, .parameters]),
    ("/admin.\\secret", [.dots, .backslash]), ("/admin%252e/secret", [.decode, .dots]),
  ]

  @Test(arguments: attacks)
  func `the path of the guarded location is among them, by what they are for`(path: String, needed: PathReadings) throws
  {
    #expect(try #require(readings(path)).contains("/admin/secret"), "\(path)")
    #expect(try #require(readings(path, needed)).contains("/admin/secret"))
    for one in [PathReadings.parameters, .backslash, .dots, .decode] where needed.contains(one) {
      let without = PathReadings.all.subtracting(one)
      #expect(try #require(readings(path, without)).contains("/admin/secret") == false, "\(path)")
    }
    #expect(possible(path).isSuperset(of: needed))
  }

  @Test(arguments: [
    // Routers that resolve no dots, or only those that the client wrote without escapes.
    ("/admin/../x", "/admin/../x"), ("/admin/%2e%2e/x", "/admin/../x"), ("/x/../admin/%2e%2e/y", "/admin/../y"),
    ("/admin/a%2f..%2f..%2fx", "/admin/a/../../x"),
    // An empty segment that `..` takes.
    ("/admin//../x", "/admin/x"), ("/x//../admin/y", "/admin/y"),
    // Parameters of the raw path hide an escaped slash.
    ("/admin;%2f../x", "/admin/x"),
  ])
  func `so are those of upstreams that resolve dots otherwise`(path: String, reading: String) throws {
    #expect(try #require(readings(path)).contains(reading), "\(path)")
  }

  @Test func `slashes are merged also where the server doesn't`() throws {
    #expect(try #require(readings("//admin/x", merges: false)).contains("/admin/x"))
    #expect(try #require(readings("//admin/x", .parameters, merges: false)).contains("/admin/x") == false)
  }

  @Test(arguments: [
    "/", "/shop/a.html", "/a/b.c/d-e_f~g", "/caf%C3%A9/men%C3%BC", "/a%2Bb%3D", "/.well-known.x/y", "/a...b/c", "",
    "/@:!$&'()*+,=",
  ])
  func `most paths have none`(path: String) {
    #expect(possible(path).subtracting(.literal) == [], "\(path)")
    #expect(possible(path.replacing("/.well", with: "/well")) == [])
  }

  @Test func `a path with too many is not looked up`() {
    let long = "/" + String(repeating: "a;\\. %25/", count: 4096)
    #expect(readings(long) == nil)
    #expect(readings("/" + String(repeating: "a", count: 30_000) + ";x", .parameters) != nil)
  }

  @Test func `no reading climbs above the root, or has an escape less than nothing`() throws {
    #expect(try #require(readings("/..;/..;/..;/admin")).contains("/admin"))
    #expect(try #require(readings("/%25zz%2")).contains("/%zz%2"))
  }

  @Test func `letters of one case are those that file systems take for one`() {
    #expect(PathReadings.folded(Array("/ADMIN/\u{212A}\u{17F}é".utf8)) == Array("/admin/ksé".utf8))
  }
}

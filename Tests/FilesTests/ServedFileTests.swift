import Glibc
import TestSupport
import Testing

@testable import Files

/// What is opened below a folder, by the kernel's own walk and by the one for kernels without it.
@Suite struct `Files below a folder` {
  private static let ways: [ServedFile.Way] = [.whole, .stepwise]

  private func path(_ folder: String, _ below: String) throws -> ServedPath {
    try #require(ServedPath(folder: Array(folder.utf8), below: Array(below.utf8)), "\(below)")
  }

  private func read(_ path: ServedPath, _ way: ServedFile.Way) -> Result<String, FileFault> {
    ServedFile.read(path, from: 0, count: 100, expecting: nil, way).map { String(decoding: $0.bytes, as: UTF8.self) }
  }

  private func code(_ result: Result<String, FileFault>) -> Int32? {
    guard case .failure(.system(_, let code)) = result else { return nil }
    return code
  }

  @Test(arguments: ways) func `files are read, and links are not followed`(way: ServedFile.Way) throws {
    let scene = try Scene(.http1)
    defer { scene.end() }
    let folder = try scene.makeFolder("www")
    _ = try scene.makeFolder("www/in")
    try scene.write("www/in/a", text: "inner")
    try scene.write("outside", text: "outer")
    _ = symlink("../outside", "\(folder)/up")
    _ = symlink("in", "\(folder)/to")
    _ = symlink("/etc", "\(folder)/etc")
    _ = symlink(folder, scene.path("current"))
    #expect(read(try path(folder, "in/a"), way) == .success("inner"))
    #expect(read(try path(folder, "//in/.//a"), way) == .success("inner"))
    #expect(read(try path(scene.path("current"), "in/a"), way) == .success("inner"))
    #expect(read(try path(scene.path("outside"), ""), way) == .success("outer"))
    for name in ["up", "to/a", "etc/passwd", "to"] {
      #expect(code(read(try path(folder, name), way)) == ELOOP, "\(name)")
    }
    for name in ["in/b", "no/a"] { #expect(code(read(try path(folder, name), way)) == ENOENT, "\(name)") }
    for name in ["in/a/", "in/a/b", "in/a/."] { #expect(code(read(try path(folder, name), way)) == ENOTDIR, "\(name)") }
    #expect(code(read(try path(folder, String(repeating: "x", count: 300)), way)) == ENAMETOOLONG)
    #expect(try ServedFile.look(at: path(folder, "in/"), way).get().kind == .folder)
    #expect(try ServedFile.look(at: path(folder, "in/a"), way).get().size == 5)
    if case .success = ServedFile.look(at: try path(folder, "up"), way) { Issue.record("a link was looked at") }
  }

  @Test(arguments: ways) func `a FIFO, a socket and a device are told, and block nobody`(way: ServedFile.Way) throws {
    let scene = try Scene(.http1)
    defer { scene.end() }
    let folder = try scene.makeFolder("www")
    #expect(mkfifo("\(folder)/fifo", 0o600) == 0)
    let facts = try ServedFile.read(path(folder, "fifo"), from: 0, count: 10, expecting: nil, way).get()
    #expect(facts.facts.kind == .other && facts.bytes.isEmpty)
    #expect(try ServedFile.look(at: path("/dev", "null"), way).get().kind == .other)
  }

  @Test func `a file that changed between two reads is not continued`() throws {
    let scene = try Scene(.http1)
    defer { scene.end() }
    let folder = try scene.makeFolder("www")
    try scene.write("www/a", text: "0123456789")
    let place = try path(folder, "a")
    let first = try ServedFile.read(place, from: 0, count: 4).get()
    #expect(try ServedFile.read(place, from: 4, count: 100, expecting: first.facts).get().bytes == Array("456789".utf8))
    #expect(try ServedFile.read(place, from: 10, count: 4, expecting: first.facts).get().bytes == [])
    #expect(truncate("\(folder)/a", 5) == 0)
    guard case .failure(.changed) = ServedFile.read(place, from: 4, count: 100, expecting: first.facts) else {
      return #expect(Bool(false), "the shorter file was read on")
    }
  }

  @Test func `a path with dots that climb, or a NUL, can't be written down`() {
    func isPath(_ below: String) -> Bool { ServedPath(folder: [0x2F, 0x61], below: Array(below.utf8)) != nil }
    for name in ["..", "a/..", "../a", "a/../b", "/..", "a/..//", "a\0b"] { #expect(!isPath(name), "\(name)") }
    for name in ["...", "a..", "..a", "a/...", "", ".", "a/./b"] { #expect(isPath(name), "\(name)") }
  }
}

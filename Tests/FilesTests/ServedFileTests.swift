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
    ServedFile.read(path, count: 100, way).map { String(decoding: $0.bytes, as: UTF8.self) }
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
    let facts = try ServedFile.read(path(folder, "fifo"), count: 10, way).get()
    #expect(facts.facts.kind == .other && facts.bytes.isEmpty)
    #expect(try ServedFile.look(at: path("/dev", "null"), way).get().kind == .other)
  }

  @Test(arguments: ways) func `a file that changed between two reads is not continued`(way: ServedFile.Way) throws {
    let scene = try Scene(.http1)
    defer { scene.end() }
    let folder = try scene.makeFolder("www")
    try scene.write("www/a", text: "0123456789")
    let place = try path(folder, "a"), buffer = FileBuffer(capacity: 5)
    let first = try ServedFile.read(place, count: 4).get()
    #expect(first.bytes == Array("0123".utf8))
    func next(_ offset: UInt64, _ count: Int = 100) -> FileFault? {
      ServedFile.read(place, from: offset, count: count, into: buffer, continuing: first.facts, way)
    }
    #expect(next(4) == nil && buffer.bytes.elementsEqual("45678".utf8), "as much as the buffer holds")
    #expect(next(9) == nil && buffer.bytes.elementsEqual("9".utf8))
    #expect(next(2, 3) == nil && buffer.bytes.elementsEqual("234".utf8))
    for offset in [10, UInt64.max >> 1, .max] { #expect(next(offset) == nil && buffer.bytes.isEmpty) }
    #expect(truncate("\(folder)/a", 5) == 0)
    #expect(next(4) == .changed)
    // Another file of the same name, size and time.
    try scene.write("www/b", text: "0123456789")
    #expect(rename("\(folder)/b", "\(folder)/a") == 0)
    #expect(next(4) == .changed && next(0) == .changed)
  }

  @Test func `a path with dots that climb, or a NUL, can't be written down`() {
    func isPath(_ below: String) -> Bool { ServedPath(folder: [0x2F, 0x61], below: Array(below.utf8)) != nil }
    for name in ["..", "a/..", "../a", "a/../b", "/..", "a/..//", "a\0b"] { #expect(!isPath(name), "\(name)") }
    for name in ["...", "a..", "..a", "a/...", "", ".", "a/./b"] { #expect(isPath(name), "\(name)") }
  }
}

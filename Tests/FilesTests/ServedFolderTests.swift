import Glibc
import TestSupport
import Testing

@testable import Files

@Suite struct `Lists of folders` {
  private static let ways: [ServedFile.Way] = [.whole, .stepwise]

  private func list(
    _ folder: String, _ below: String = "", _ way: ServedFile.Way = .whole, limit: Int = 100
  ) throws -> Result<[String], FileFault> {
    let path = try #require(ServedPath(folder: Array(folder.utf8), below: Array(below.utf8)))
    return ServedFolder.list(path, way, limit: limit).map { entries in
      entries.map { "\($0.facts.kind) \(String(decoding: $0.name, as: UTF8.self))" }.sorted()
    }
  }

  @Test(arguments: ways) func `have what a request can ask for, and neither links nor hidden names`(
    way: ServedFile.Way
  ) throws {
    let scene = try Scene(.http1)
    defer { scene.end() }
    let folder = try scene.makeFolder("www/in")
    for name in ["a", "b c\"<", ".hidden"] { try scene.write("www/in/\(name)", text: "x") }
    _ = try scene.makeFolder("www/in/sub")
    #expect(mkfifo("\(folder)/fifo", 0o600) == 0)
    #expect(symlink("a", "\(folder)/link") == 0 && symlink("/etc", "\(folder)/etc") == 0)
    let entries = ["folder sub", "other fifo", "regular a", "regular b c\"<"]
    #expect(try list(scene.path("www"), "in", way) == .success(entries))
    #expect(try list(folder, "", way) == .success(entries), "the folder itself")
    #expect(try list(folder, "sub/", way) == .success([]))
  }

  @Test(arguments: ways) func `are refused through a link, of a file, and above the limit`(way: ServedFile.Way) throws {
    let scene = try Scene(.http1)
    defer { scene.end() }
    let folder = try scene.makeFolder("www")
    for name in ["a", "b", "c"] { try scene.write("www/\(name)", text: "x") }
    #expect(symlink("/etc", "\(folder)/etc") == 0)
    #expect(try list(folder, "", way, limit: 3) == .success(["regular a", "regular b", "regular c"]))
    #expect(try list(folder, "", way, limit: 2) == .failure(.tooManyEntries(2)))
    #expect(try list(folder, "a", way) == .failure(.system(call: "open", code: ENOTDIR)))
    guard case .failure(let fault) = try list(folder, "etc", way) else { return #expect(Bool(false)) }
    #expect(fault.isRefusal)
    #expect(try list(folder, "none", way) == .failure(.system(call: "open", code: ENOENT)))
  }
}

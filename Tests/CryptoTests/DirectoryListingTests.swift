import Glibc
import TestSupport
import Testing

@testable import Crypto

@Suite struct `Directory listings` {
  @Test func `names come sorted, hidden ones left out`() throws {
    let scene = try Scene()
    defer { scene.end() }
    try scene.makeFolder("pins")
    for name in ["b.pem", ".hidden", "a.pem"] { try scene.write("pins/\(name)", text: "") }
    #expect(try namesInDirectory(scene.path("pins")) == ["a.pem", "b.pem"])
  }

  @Test func `what can't be listed is a fault, never an empty list`() throws {
    let scene = try Scene()
    defer { scene.end() }
    func code(_ path: String) -> CInt? {
      do throws(DirectoryError) { _ = try namesInDirectory(path) } catch { return error.code }
      return nil
    }
    #expect(code(scene.path("none")) == ENOENT)
    #expect(try code(scene.write("file", text: "")) == ENOTDIR)
  }
}

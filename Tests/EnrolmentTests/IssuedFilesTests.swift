import Bytes
import Enrolment
import Foundation
import TestSupport
import Testing

@Suite struct `Files that leave the authority` {
  private func staged(_ scene: Scene) throws -> IssuedFiles {
    var files = IssuedFiles()
    try files.stage(SecretBytes([1]), as: scene.path("a.crt"), mode: 0o644)
    try files.stage(SecretBytes([2]), as: scene.path("a.key"), mode: 0o600)
    return files
  }

  @Test func `get their names together`() throws {
    let scene = try Scene()
    defer { scene.end() }
    try staged(scene).publish()
    #expect(scene.bytes("a.crt") == [1] && scene.bytes("a.key") == [2])
    #expect(try FileManager.default.contentsOfDirectory(atPath: scene.folder).sorted() == ["a.crt", "a.key"])
  }

  @Test func `replace what a link leads to, and take a link that leads nowhere for a file`() throws {
    let scene = try Scene()
    defer { scene.end() }
    try scene.makeFolder("real")
    try scene.write("real/a.crt", [9])
    #expect(symlink("real/a.crt", scene.path("a.crt")) == 0 && symlink("nowhere", scene.path("b.crt")) == 0)
    var files = IssuedFiles()
    try files.stage(SecretBytes([1]), as: scene.path("a.crt"), mode: 0o644, replacing: .fileOfLink)
    try files.publish()
    #expect(scene.bytes("real/a.crt") == [1])
    #expect((try? FileManager.default.destinationOfSymbolicLink(atPath: scene.path("a.crt"))) == "real/a.crt")
    #expect(throws: AuthorityError.self) {
      var files = IssuedFiles()
      try files.stage(SecretBytes([1]), as: scene.path("b.crt"), mode: 0o644)
    }
  }

  @Test func `in a folder that is not there are told by their own names, not by a draft's`() throws {
    let scene = try Scene()
    defer { scene.end() }
    try scene.write("plain", [1])
    for folder in ["missing", "plain"] {
      let error = #expect(throws: AuthorityError.self) {
        var files = IssuedFiles()
        try files.stage(SecretBytes([1]), as: scene.path("\(folder)/a.crt"), mode: 0o644)
      }
      let words = error?.description ?? ""
      #expect(words.contains("/\(folder)/a.crt\" can't be written: there is no folder \""), "\(words)")
      #expect(words.contains("hint: make it") && !words.contains("draft"), "\(words)")
    }
    // Any other fault, too: a name may have 255 bytes, and the draft's is longer.
    let error = #expect(throws: AuthorityError.self) {
      var files = IssuedFiles()
      try files.stage(SecretBytes([1]), as: scene.path(String(repeating: "x", count: 250)), mode: 0o644)
    }
    #expect(error?.description.contains("draft") == false, "\(error?.description ?? "")")
  }

  @Test func `are never written over a file, nor one of them alone`() throws {
    let scene = try Scene()
    defer { scene.end() }
    #expect(throws: AuthorityError.self) {
      let files = try staged(scene)
      try scene.write("a.key", [9])
      try files.publish()
    }
    #expect(scene.bytes("a.key") == [9])
    #expect(try FileManager.default.contentsOfDirectory(atPath: scene.folder) == ["a.key"])
    #expect(throws: AuthorityError.self) { _ = try staged(scene) }
    #expect(try FileManager.default.contentsOfDirectory(atPath: scene.folder) == ["a.key"])
  }
}

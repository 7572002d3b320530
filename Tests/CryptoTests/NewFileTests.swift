import Bytes
import Crypto
import Dispatch
import Foundation
import TestSupport
import Testing

@Suite struct `Files that are replaced whole` {
  /// A process that drains and the one that takes its place can write the same state.
  @Test func `several that replace a file at a time leave it whole, and no draft`() throws {
    let scene = try Scene()
    defer { scene.end() }
    let folder = try scene.makeFolder("folder"), path = "\(folder)/state"
    let contents = (0..<8).map { [UInt8](repeating: UInt8($0), count: 100_000) }
    DispatchQueue.concurrentPerform(iterations: 160) { index in
      do {
        try NewFile.replace(path, SecretBytes(contents[index % 8]), mode: 0o600, isShared: true)
        let seen = try Data(contentsOf: URL(fileURLWithPath: path))
        #expect(contents.contains { seen.elementsEqual($0) }, "\(seen.count) bytes")
      } catch { Issue.record(error) }
    }
    #expect(try FileManager.default.contentsOfDirectory(atPath: folder) == ["state"])
  }

  @Test func `drafts of a process that was killed are removed, and nothing else`() throws {
    let scene = try Scene()
    defer { scene.end() }
    let folder = try scene.makeFolder("folder"), path = "\(folder)/state"
    let drafts = ["state.1a2b3c.new", "state.4711.new"]
    let others = [
      "state", "state.new", "state.old.new", "state.4711.new.pem", "other.4711.new", "state.123456789012.new",
    ]
    for name in drafts + others { try scene.write("folder/\(name)", text: "") }
    NewFile.removeDrafts(of: path)
    #expect(try FileManager.default.contentsOfDirectory(atPath: folder).count == 8, "they are young")
    NewFile.removeDrafts(of: path, now: time(nil) + 3600)
    #expect(try FileManager.default.contentsOfDirectory(atPath: folder).sorted() == others.sorted())
  }
}

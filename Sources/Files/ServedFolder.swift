import CLinux
import Glibc

/// Lists what a `ServedPath` names, if that is a folder. The calls block, so no event loop makes them.
public enum ServedFolder {
  /// An entry that a request can ask for: its name doesn't begin with a dot, and it is no link.
  public struct Entry: Sendable, Hashable {
    public var name: [UInt8]
    public var facts: FileFacts

    package init(name: [UInt8], facts: FileFacts) {
      self.name = name
      self.facts = facts
    }
  }

  /// Entries of a folder that are read at most. Those of more would take a thread of the pool too long.
  public static let limit = 10_000

  /// The entries, in no order. A folder with more than `limit` of them is a fault.
  public static func list(_ path: ServedPath) -> Result<[Entry], FileFault> { list(path, .whole) }

  static func list(_ path: ServedPath, _ way: ServedFile.Way, limit: Int = limit) -> Result<[Entry], FileFault> {
    ServedFile.open(path, O_RDONLY | O_DIRECTORY | O_NONBLOCK, way).flatMap { descriptor in
      guard let stream = fdopendir(descriptor) else {
        let code = errno
        close(descriptor)
        return .failure(.system(call: "opendir", code: code))
      }
      defer { closedir(stream) }
      return entries(of: stream, descriptor, limit)
    }
  }

  private static func entries(
    of stream: OpaquePointer, _ descriptor: Int32, _ limit: Int
  ) -> Result<[Entry], FileFault> {
    var entries: [Entry] = []
    errno = 0
    while let entry = readdir(stream) {
      let name = withUnsafePointer(to: &entry.pointee.d_name) { field in
        field.withMemoryRebound(to: UInt8.self, capacity: MemoryLayout.size(ofValue: field.pointee)) {
          Array(UnsafeBufferPointer(start: $0, count: MemoryLayout.size(ofValue: field.pointee)).prefix { $0 != 0 })
        }
      }
      if name.first != 0x2E, let facts = facts(of: name, in: descriptor) {
        guard entries.count < limit else { return .failure(.tooManyEntries(limit)) }
        entries.append(Entry(name: name, facts: facts))
      }
      errno = 0
    }
    return errno == 0 ? .success(entries) : .failure(.system(call: "readdir", code: errno))
  }

  /// nil: a link, or an entry that has gone or may not be looked at.
  private static func facts(of name: [UInt8], in folder: Int32) -> FileFacts? {
    var status = stat()
    let result = (name + [0]).withUnsafeBytes { bytes in
      bytes.assumingMemoryBound(to: CChar.self).baseAddress.map { fstatat(folder, $0, &status, AT_SYMLINK_NOFOLLOW) }
        ?? -1
    }
    return result == 0 ? FileFacts(status) : nil
  }
}

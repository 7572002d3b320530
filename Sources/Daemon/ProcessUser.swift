import Glibc

/// The user of a process, by its number.
package enum ProcessUser {
  /// The effective user; nil: there is no such process, or this one may not know. Not the owner of its folder in /proc, who
  /// is root where a process can't be dumped.
  package static func of(_ process: Int32) -> UInt32? {
    status(of: process).flatMap { effective(in: $0) }
  }

  /// Whether a process has ended, and its parent hasn't taken note of it yet.
  package static func isZombie(_ process: Int32) -> Bool {
    status(of: process)?.split(separator: "\n").contains { $0.hasPrefix("State:\tZ") } ?? false
  }

  private static func status(of process: Int32) -> String? {
    let descriptor = open("/proc/\(process)/status", O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    var bytes = [UInt8](repeating: 0, count: 4096)
    let count = read(descriptor, &bytes, bytes.count)
    return count > 0 ? String(decoding: bytes.prefix(count), as: UTF8.self) : nil
  }

  /// `Uid:` has the real, effective, saved and file system's user (proc(5)).
  static func effective(in status: String) -> UInt32? {
    guard let line = status.split(separator: "\n").first(where: { $0.hasPrefix("Uid:") }) else { return nil }
    let words = line.split(whereSeparator: \.isWhitespace)
    return words.count > 2 ? UInt32(words[2]) : nil
  }
}

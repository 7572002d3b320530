import Bytes
import Crypto
import Glibc
import Language
import Observability

/// The file that keeps denials over restarts: `denials` in the service's state directory (`StateDirectory=`). Each line has a
/// fingerprint and the second since 1970 at which the denial ends. Blocks, so never use it on an event loop.
package struct DenialState: Sendable {
  package let path: String

  /// What a line says: a fingerprint, and when its denial ends.
  package struct Entry: Sendable, Hashable {
    package let fingerprint: [UInt8]
    /// Of the clock that the text is written by.
    package let end: UInt64
  }

  package struct Fault: Error, CustomStringConvertible {
    package let description: String
  }

  /// The longest text: each line has at most 64 digits, a space and 20 digits.
  package static let largest = ClientDenials.limit * 86

  /// The state directory; nil without one.
  package static var folder: String? {
    guard let value = getenv("STATE_DIRECTORY") else { return nil }
    // Several directories are separated by colons; the first is the service's own.
    guard let folder = String(cString: value).split(separator: ":").first, folder.hasPrefix("/") else { return nil }
    return String(folder)
  }

  package init(folder: String) { path = "\(folder)/denials" }

  /// No entries without a file.
  package func read() throws(Fault) -> [Entry] {
    switch SourceFiles.disk.read(path, Self.largest) {
    case .failure(let fault) where fault.isMissing: return []
    case .failure(let fault): throw Fault(description: fault.reason)
    case .success(let bytes):
      guard let entries = Self.entries(bytes) else {
        throw Fault(description: "it has a line that is no fingerprint and end of a denial")
      }
      return entries
    }
  }

  package func write(_ entries: [Entry]) throws(Fault) {
    do throws(NewFile.Failure) {
      try NewFile.replace(path, SecretBytes(Array(Self.text(entries).utf8)), mode: 0o600, isShared: true)
    } catch { throw Fault(description: "\(error)") }
  }

  package static func text(_ entries: [Entry]) -> String {
    entries.map { "\(Hex.encode($0.fingerprint)) \($0.end)\n" }.joined()
  }

  /// Returns nil for a text with any other line, or with more lines than there can be.
  package static func entries(_ text: [UInt8]) -> [Entry]? {
    var entries: [Entry] = []
    for line in text.split(separator: 0x0A) {
      let words = line.split(separator: 0x20, omittingEmptySubsequences: false)
      guard words.count == 2, words[0].count == 64 || words[0].count == 40, entries.count < ClientDenials.limit,
        let fingerprint = try? Hex.decode(String(decoding: words[0], as: UTF8.self)),
        let end = UInt64(String(decoding: words[1], as: UTF8.self))
      else { return nil }
      entries.append(Entry(fingerprint: fingerprint, end: end))
    }
    return entries
  }
}

import Bytes
import Crypto
import Glibc
import Language
import Observability

/// The file that keeps denials over restarts: `denials` in the service's state directory (`StateDirectory=`). Each line has a
/// fingerprint, the second since 1970 at which the denial ends and, if they are known, the second since which it counts, who
/// asked for it and a note. Blocks, so never use it on an event loop.
package struct DenialState: Sendable {
  package let path: String

  /// What a line says: a fingerprint, and when its denial ends.
  package struct Entry: Sendable, Hashable {
    package let fingerprint: [UInt8]
    /// Of the clock that the text is written by.
    package let end: UInt64
    package var reason: DenialReason?
  }

  package struct Fault: Error, CustomStringConvertible {
    package let description: String
  }

  /// The longest text: each line has at most 64 digits, twice 20 digits, two texts whose octets may be three each, and blanks.
  package static let largest = ClientDenials.limit * (110 + 3 * (DenialReason.longestNote + DenialReason.longestAsker))

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
    entries.map { entry in
      let reason = entry.reason.map { " \($0.since) \(encoded($0.asker)) \(encoded($0.note))" } ?? ""
      return "\(Hex.encode(entry.fingerprint)) \(entry.end)\(reason)\n"
    }.joined()
  }

  private static func encoded(_ text: String) -> String {
    String(decoding: PercentEncoding.encode(text), as: UTF8.self)
  }

  /// The last three words of a line.
  private static func reason(_ words: ArraySlice<ArraySlice<UInt8>>) -> DenialReason? {
    let texts = words.map { String(decoding: PercentEncoding.decode($0), as: UTF8.self) }
    guard texts.count == 3, let since = Int64(texts[0]), texts[1].utf8.count <= DenialReason.longestAsker,
      DenialReason.admits(note: texts[2])
    else {
      return nil
    }
    return DenialReason(texts[1], texts[2], since: since)
  }

  /// Returns nil for a text with any other line, or with more lines than there can be.
  package static func entries(_ text: [UInt8]) -> [Entry]? {
    var entries: [Entry] = []
    for line in text.split(separator: 0x0A) {
      let words = line.split(separator: 0x20, omittingEmptySubsequences: false)
      guard words.count == 2 || words.count == 5, words[0].count == 64 || words[0].count == 40,
        entries.count < ClientDenials.limit,
        let fingerprint = try? Hex.decode(String(decoding: words[0], as: UTF8.self)),
        let end = UInt64(String(decoding: words[1], as: UTF8.self))
      else { return nil }
      let reason = Self.reason(words.dropFirst(2))
      if words.count == 5, reason == nil { return nil }
      entries.append(Entry(fingerprint: fingerprint, end: end, reason: reason))
    }
    return entries
  }
}

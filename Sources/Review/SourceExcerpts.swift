import Configuration
package import Observability
package import Language

/// The lines of the configuration that diagnostics are about, with secrets masked.
///
/// The files are those that were read before the privileges were dropped.
package struct SourceExcerpts: Sendable {
  /// A line, and how many characters stand before the one that is meant.
  package struct Excerpt: Sendable, Equatable {
    package let line: String
    package let column: Int
  }

  private let files: [String: MaskedSource]
  /// Longer lines are cut around the place.
  private static let width = 120

  package init(_ dump: ConfigurationDump) {
    files = Dictionary(
      dump.files.map { ($0.path, MaskedSource($0.bytes, $0.path)) }, uniquingKeysWith: { first, _ in first })
  }

  /// nil when the place is not in a file of the configuration, or its line could show a secret.
  package func excerpt(at location: SourceLocation) -> Excerpt? {
    guard let found = files[location.file]?.line(location.line, before: location.column) else { return nil }
    let whole = Array(Self.visible(found.whole))
    let column = Self.visible(found.before).count
    guard whole.count > Self.width else { return Excerpt(line: String(whole), column: column) }
    let start = max(0, min(column - Self.width / 2, whole.count - Self.width))
    let part = String(whole[start..<min(whole.count, start + Self.width)])
    let tail = start + Self.width < whole.count ? "…" : ""
    return start == 0
      ? Excerpt(line: part + tail, column: column) : Excerpt(line: "…" + part + tail, column: column - start + 1)
  }

  /// A tab is one space, so that the caret stands below its place.
  private static func visible(_ text: String) -> String {
    LogEscape.visible(String(text.map { $0 == "\t" ? " " : $0 }))
  }
}

import Traffic
import Forward

/// The words of one value of `--allow` or `--deny`: `dns=*.example.com ou=Payments`.
enum ProxyRule {
  /// Splits the value where a blank and `KEY=` follow. Other blanks belong to a value: `o=My Company cn=x`. A mistyped
  /// key still begins a word of its own, so that it is refused: as part of another value it would only never match.
  static func words(_ text: String) -> [String] {
    var words: [String] = []
    for part in text.split(separator: " ", omittingEmptySubsequences: true) {
      let key = part.prefix { $0 != "=" }
      let beginsCondition =
        key.count < part.count && !key.isEmpty && key.utf8.allSatisfy { ($0 | 0x20) >= 0x61 && ($0 | 0x20) <= 0x7A }
      if beginsCondition || words.isEmpty { words.append(String(part)) } else { words[words.count - 1] += " \(part)" }
    }
    return words
  }
}

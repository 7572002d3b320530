import Features
import Forward
import Language
package import Observability
import Traffic

/// Rewrites diagnostics about the text that `sallyport proxy` made: they name the option or the variable, and never a
/// directive or a line of the text.
package struct OptionWording: Sendable {
  private let made: ProxyText

  package init(_ text: ProxyText) { made = text }

  package func reworded(_ diagnostic: Diagnostic) -> Diagnostic {
    var spoken = diagnostic
    var value = diagnostic.location.flatMap { $0.file == ProxyText.name ? made.value(atLine: $0.line) : nil }
    // What the start says of the serving user has no place.
    let isOfUser = ["getpwnam(", "getgrnam(", "initgroups(", "setgid(", "setuid("].contains {
      diagnostic.message.hasPrefix($0)
    }
    if value == nil, isOfUser { value = made.value(of: .user) }
    if diagnostic.location?.file == ProxyText.name { spoken.location = nil }
    let message = Self.inOptions(diagnostic.message)
    let words = Self.namesDirective(message) ? Self.generic(value) : message
    spoken.message = value.map { Self.joined($0, words) } ?? words
    // A hint that still says what to write into a file is of no use to somebody who has none.
    spoken.hint = diagnostic.hint.map(Self.inOptions).flatMap { Self.namesDirective($0) ? nil : $0 }
    return spoken
  }

  /// The value is told once: most messages begin with it.
  private static func joined(_ value: ProxyValue, _ words: String) -> String {
    words.hasPrefix("\"\(value.text)\"")
      ? "\(value.origin) \(words)" : "\(value.origin) \"\(value.text)\": \(words)"
  }

  private static func generic(_ value: ProxyValue?) -> String {
    value == nil
      ? "the options can't be served; `sallyport proxy --print` with `sallyport check` says more" : "it is refused"
  }

  /// Directives of the text, with the options behind them. Longer names come first, because some contain others.
  private static let names: [(directive: String, option: String)] =
    [("ssl_password_file, or proxy_ssl_password_file towards an upstream", "--password-file FILE")]
    + Features.all.directives.table.options.sorted { $0.directive.utf8.count > $1.directive.utf8.count }
    + [("`user root;`", "--user root"), ("`user NAME;`", "--user NAME"), ("`user`", "--user")]

  static func inOptions(_ text: String) -> String {
    var spoken = text
    for (directive, option) in names {
      for form in [" in \"\(directive)\" directive", " in the \"\(directive)\" directive", " in \"\(directive)\""] {
        spoken = spoken.replacing(form, with: "")
      }
      spoken = spoken.replacing("the \"\(directive)\" directive", with: option)
      spoken = Self.replacing(directive, with: option, in: spoken)
    }
    return spoken
  }

  /// Replaces whole words only: `ssl_certificate` also ends another name.
  private static func replacing(_ name: String, with option: String, in text: String) -> String {
    var result = ""
    var rest = text[...]
    while let found = rest.firstRange(of: name) {
      let before = rest[..<found.lowerBound].last ?? result.last
      let isWord = !isNameCharacter(before) && !isNameCharacter(rest[found.upperBound...].first)
      result += rest[..<found.lowerBound] + (isWord ? option : name)
      rest = rest[found.upperBound...]
    }
    return result + rest
  }

  private static func isNameCharacter(_ character: Character?) -> Bool {
    guard let character else { return false }
    return character.isLetter || character.isNumber || character == "_"
  }

  /// Whether a text speaks of a directive: by that word, or by a directive's name with an underscore.
  static func namesDirective(_ text: String) -> Bool {
    if text.contains("directive") { return true }
    return text.split { !isNameCharacter($0) }.contains { word in
      word.contains("_") && !Features.all.directives.table.entries(named: String(word)).isEmpty
    }
  }
}

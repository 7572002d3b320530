import Language
import Observability

/// Finds words such as `${BACKEND}` that nobody has put a value in place of: images render their templates by `envsubst` when
/// they start, and the template itself is often what gets checked.
///
/// nginx takes `$HOST` for `$host`, so only messages about such a word get the advice.
struct UnrenderedTemplate {
  /// By the places of the words.
  private var names: [SourceLocation: String] = [:]

  init(_ tree: [Directive]) { look(at: tree) }

  private mutating func look(at tree: [Directive]) {
    for directive in tree {
      for word in directive.arguments { names[word.location] = Self.name(in: word.text) }
      if let block = directive.block { look(at: block) }
    }
  }

  /// Gives the advice to the messages about such words.
  func advising(_ found: [Diagnostic]) -> [Diagnostic] {
    guard !names.isEmpty else { return found }
    return found.map { diagnostic in
      guard let name = diagnostic.location.flatMap({ names[$0] }) else { return diagnostic }
      var advised = diagnostic
      advised.hint =
        "is the file a template that was not rendered? \(name) would come from the environment: envsubst <TEMPLATE >FILE"
      return advised
    }
  }

  /// `$NAME` or `${NAME}` with a name in capitals; nil if there is none.
  static func name(in text: String) -> String? {
    for part in text.split(separator: "$", omittingEmptySubsequences: false).dropFirst() {
      let name = part.drop { $0 == "{" }.prefix { $0.isASCII && ($0.isUppercase || $0.isNumber || $0 == "_") }
      let end = part.drop { $0 == "{" }.dropFirst(name.count).first
      let isWhole = !(end.map { $0.isASCII && $0.isLetter } ?? false)
      if isWhole, name.count > 1, name.first?.isUppercase ?? false { return "$\(name)" }
    }
    return nil
  }
}

import Observability
import Patterns
import Proxy

/// Collects what the configuration defines: variables by `set` and named captures, and the patterns with the captures.
///
/// Why a separate pass: nginx allows a variable before the line that defines it.
struct DefinedVariables {
  private(set) var slots: [String: Int] = [:]
  private(set) var diagnostics: [Diagnostic] = []
  /// The patterns by the place of their word. A pattern that does not compile is missing, and reported.
  private var patterns: [SourceLocation: RegularExpression] = [:]

  mutating func collect(from directives: [Directive]) {
    for directive in directives {
      switch directive.name {
      case "set": define(directive)
      case "server_name":
        for word in directive.arguments where word.text.hasPrefix("~") {
          // The host is compared in lower case; nginx ignores case for a pattern with capitals.
          let pattern = String(word.text.dropFirst())
          compile(pattern, at: word, caseless: pattern.utf8.contains { $0 &- 65 < 26 }, what: "server name")
        }
      case "location":
        if let (pattern, word, caseless) = LocationSpelling.pattern(directive) {
          compile(pattern, at: word, caseless: caseless, what: "location")
        }
      default: break
      }
      if let block = directive.block { collect(from: block) }
    }
  }

  func pattern(at word: Word) -> RegularExpression? { patterns[word.location] }

  func namedCaptures(of pattern: RegularExpression) -> [NamedCapture] {
    pattern.names.compactMap { name, number in
      slots[name.lowercased()].map { NamedCapture(group: number, slot: $0) }
    }
  }

  private mutating func define(_ directive: Directive) {
    let word = directive.arguments.first
    let name = String(directive.text(0).dropFirst()).lowercased()
    guard directive.text(0).hasPrefix("$"), !name.isEmpty, name.utf8.allSatisfy(TemplateCompiler.isNameByte) else {
      return report(word, "invalid variable name \"\(directive.text(0))\"", hint: "expected: set $NAME VALUE;")
    }
    allot(name, word, isSet: true)
  }

  /// `isSet`: by `set`, which nginx also allows for its own `$limit_rate`.
  private mutating func allot(_ name: String, _ word: Word?, isSet: Bool = false) {
    var isFree = name == "limit_rate" && isSet
    if case .unknown = VariableNames.look(up: name) { isFree = true }
    if isFree {
      if slots[name] == nil { slots[name] = slots.count }
    } else {
      report(word, "the \"\(name)\" variable is built into nginx and can't be set", hint: "use another name")
    }
  }

  private mutating func compile(_ pattern: String, at word: Word, caseless: Bool, what: String) {
    guard !pattern.isEmpty else { return report(word, "empty regex in \(what)", hint: "write a pattern after \"~\"") }
    do throws(PatternError) {
      let compiled = try RegularExpression(pattern, caseless: caseless)
      patterns[word.location] = compiled
      for (name, _) in compiled.names { allot(name.lowercased(), word) }
    } catch {
      report(
        word, "invalid regular expression \"\(pattern)\": \(error)",
        hint: pattern.contains("(?<") || !word.quoted ? "an expression with \"{\", \"}\" or \";\" needs quotes" : nil)
    }
  }

  private mutating func report(_ word: Word?, _ message: String, hint: String?) {
    diagnostics.append(Diagnostic(.error, at: word?.location, message, hint: hint))
  }
}

package import Language

/// Parses the words before a location's brace, as nginx's `ngx_http_core_location`. The modifier may touch the path.
package enum LocationSpelling {
  case prefix(Word)
  case prefixNoRegex(Word)
  case exact(Word)
  case regex(Word, pattern: String, caseless: Bool)
  case named(Word)
  case invalid(Word)

  package init?(_ directive: Directive) {
    guard let first = directive.arguments.first else { return nil }
    if directive.arguments.count > 1 {
      let path = directive.arguments[1]
      switch first.text {
      case "=": self = .exact(path)
      case "^~": self = .prefixNoRegex(path)
      case "~": self = .regex(path, pattern: path.text, caseless: false)
      case "~*": self = .regex(path, pattern: path.text, caseless: true)
      default: self = .invalid(first)
      }
      return
    }
    func rest(_ count: Int) -> Word {
      Word(String(first.text.dropFirst(count)), at: first.location, quoted: first.quoted)
    }
    if first.text.hasPrefix("=") {
      self = .exact(rest(1))
    } else if first.text.hasPrefix("^~") {
      self = .prefixNoRegex(rest(2))
    } else if first.text.hasPrefix("~*") {
      self = .regex(first, pattern: rest(2).text, caseless: true)
    } else if first.text.hasPrefix("~") {
      self = .regex(first, pattern: rest(1).text, caseless: false)
    } else if first.text.hasPrefix("@") {
      self = .named(rest(1))
    } else {
      self = .prefix(first)
    }
  }

  /// Returns the regular expression of a location, and the word by whose place the pattern is found.
  package static func pattern(_ directive: Directive) -> (pattern: String, word: Word, caseless: Bool)? {
    guard case .regex(let word, let pattern, let caseless)? = LocationSpelling(directive) else { return nil }
    return (pattern, word, caseless)
  }
}

extension Scope {
  /// The blocks of locations that the level itself has.
  package var ownLocations: [Directive] { own("location") }

  package var ownServers: [Directive] { own("server") }

  /// Whether the level itself has blocks of servers or of locations, for which its other lines may be meant.
  package var hasInnerLevels: Bool { !ownLocations.isEmpty || !ownServers.isEmpty }
}

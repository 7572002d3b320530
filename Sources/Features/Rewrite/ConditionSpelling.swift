import Crypto
import Forward
import Language
import Observability
import Traffic

/// Parses the words of an `if`, as nginx's `ngx_http_rewrite_if_condition`.
enum ConditionSpelling {
  case variable(Word)
  case equals(Word, Word, isNegated: Bool)
  case matches(Word, pattern: Word, caseless: Bool, isNegated: Bool)
  case file(FileTest, Word, isNegated: Bool)

  struct ParseError: Error {
    var diagnostic: Diagnostic
  }

  init(_ directive: Directive) throws(ParseError) {
    var words = directive.arguments
    guard let first = words.first, first.text.hasPrefix("(") else {
      throw Self.invalid(directive.arguments.first, directive)
    }
    if first.text == "(" { words.removeFirst() } else { words[0].text.removeFirst() }
    guard let last = words.last, last.text.hasSuffix(")") else { throw Self.invalid(words.last ?? first, directive) }
    if last.text == ")" && (words.count > 1 || first.text == "(") {
      words.removeLast()
    } else {
      words[words.count - 1].text.removeLast()
    }
    guard let subject = words.first else { throw Self.invalid(first, directive) }
    if subject.text.hasPrefix("$"), subject.text.utf8.count > 1 {
      switch words.count {
      case 1: self = .variable(subject)
      case 3: self = try Self.comparison(words, directive)
      default: throw Self.invalid(subject, directive)
      }
      return
    }
    let isNegated = subject.text.hasPrefix("!")
    let tests: [String: FileTest] = ["-f": .plain, "-d": .directory, "-e": .exists, "-x": .executable]
    guard words.count == 2, let test = tests[String(subject.text.dropFirst(isNegated ? 1 : 0))] else {
      throw Self.invalid(subject, directive)
    }
    self = .file(test, words[1], isNegated: isNegated)
  }

  private static func comparison(_ words: [Word], _ directive: Directive) throws(ParseError) -> ConditionSpelling {
    switch words[1].text {
    case "=": return .equals(words[0], words[2], isNegated: false)
    case "!=": return .equals(words[0], words[2], isNegated: true)
    case "~": return .matches(words[0], pattern: words[2], caseless: false, isNegated: false)
    case "~*": return .matches(words[0], pattern: words[2], caseless: true, isNegated: false)
    case "!~": return .matches(words[0], pattern: words[2], caseless: false, isNegated: true)
    case "!~*": return .matches(words[0], pattern: words[2], caseless: true, isNegated: true)
    default:
      throw ParseError(
        diagnostic: Diagnostic(
          .error, at: words[1].location, "unexpected \"\(words[1].text)\" in condition",
          hint: "one of =, !=, ~, ~*, !~ and !~*, with blanks around it"))
    }
  }

  private static func invalid(_ word: Word?, _ directive: Directive) -> ParseError {
    ParseError(
      diagnostic: Diagnostic(
        .error, at: word?.location ?? directive.location, "invalid condition \"\(word?.text ?? "")\"",
        hint: "($VARIABLE), ($VARIABLE = TEXT), ($VARIABLE ~ REGEX), or (-f FILE); also != !~ ~* !~* -d -e -x and !-f"))
  }
}

import Forward
import Language
import Observability
import Patterns
import Traffic

extension HealthChecks {
  /// Builds all `match` blocks, before any `health_check` names one of them.
  static func begin(_ http: Scope, _ builder: inout SettingsBuilder) {
    for directive in match.lines(in: http) {
      let name = directive.text(0)
      guard builder[HealthChecks.Block.self].matches[name] == nil else {
        builder.error(directive.place(0), "duplicate match \"\(name)\"", hint: "use another name")
        continue
      }
      let scope = Scope(directive.block ?? [], outer: nil)
      if scope.directives.isEmpty {
        builder.error(
          directive.location, "match \"\(name)\" has no test, so that every response would pass",
          hint: "status, header or body")
      }
      var tests = ResponseMatch()
      tests.statuses = status.lines(in: scope).compactMap { statusTest($0, &builder) }
      tests.fields = header.lines(in: scope).compactMap { fieldTest($0, &builder) }
      tests.bodies = body.lines(in: scope).compactMap { bodyTest($0, &builder) }
      builder[HealthChecks.Block.self].matches[name] = tests
    }
  }

  /// `status 200 301-303;` or `status ! 500;`
  private static func statusTest(_ line: Directive, _ builder: inout SettingsBuilder) -> ResponseMatch.StatusTest? {
    let isNegated = line.text(0) == "!"
    let words = isNegated ? line.arguments.dropFirst() : line.arguments[...]
    var codes: [ClosedRange<UInt16>] = []
    for word in words {
      let ends = word.text.split(separator: "-", maxSplits: 1, omittingEmptySubsequences: false)
        .map { Quantity.number(String($0)).flatMap { (100...999).contains($0) ? UInt16($0) : nil } }
      guard let first = ends.first.flatMap({ $0 }), let last = ends.last.flatMap({ $0 }), first <= last else {
        builder.error(
          word.location, "invalid status \"\(word.text)\"",
          hint: "a code such as 200, or a range such as 200-399; \"!\" is a word of its own, before the codes")
        return nil
      }
      codes.append(first...last)
    }
    guard !codes.isEmpty else {
      builder.error(line.location, "\"status\" without a code", hint: "status 200 204; or status ! 500-599;")
      return nil
    }
    return ResponseMatch.StatusTest(codes: codes, isNegated: isNegated)
  }

  /// `header NAME;`, `header ! NAME;` or `header NAME =|!=|~|!~ VALUE;`
  private static func fieldTest(_ line: Directive, _ builder: inout SettingsBuilder) -> ResponseMatch.FieldTest? {
    let words = line.arguments
    if words.count == 1 { return words.first.flatMap { fieldTest($0, .isPresent, &builder) } }
    if words.count == 2, words[0].text == "!" { return fieldTest(words[1], .isAbsent, &builder) }
    guard words.count == 3 else { return invalid(line, fieldForms, &builder) }
    let value = words[2]
    switch words[1].text {
    case "=": return fieldTest(words[0], .equals(Array(value.text.utf8), isNegated: false), &builder)
    case "!=": return fieldTest(words[0], .equals(Array(value.text.utf8), isNegated: true), &builder)
    case "~":
      return MatchPattern.read(value, &builder).flatMap {
        fieldTest(words[0], .matches($0, isNegated: false), &builder)
      }
    case "!~":
      return MatchPattern.read(value, &builder).flatMap { fieldTest(words[0], .matches($0, isNegated: true), &builder) }
    default: return invalid(line, fieldForms, &builder)
    }
  }

  private static let fieldForms = "header NAME; header ! NAME; or header NAME =, !=, ~ or !~ VALUE;"

  private static func fieldTest(
    _ name: Word, _ demand: ResponseMatch.FieldTest.Demand, _ builder: inout SettingsBuilder
  ) -> ResponseMatch.FieldTest? {
    guard
      let bytes = builder.fieldName(
        Directive(name: header.name, arguments: [name], block: nil, location: name.location))
    else { return nil }
    return ResponseMatch.FieldTest(name: bytes, demand: demand)
  }

  /// `body ~ REGEX;` or `body !~ REGEX;`
  private static func bodyTest(_ line: Directive, _ builder: inout SettingsBuilder) -> ResponseMatch.BodyTest? {
    guard ["~", "!~"].contains(line.text(0)) else {
      return invalid(line, "body ~ \"REGEX\"; or body !~ \"REGEX\";", &builder)
    }
    return MatchPattern.read(line.arguments[1], &builder).map {
      ResponseMatch.BodyTest(pattern: $0, isNegated: line.text(0) == "!~")
    }
  }

  private static func invalid<Test>(_ line: Directive, _ hint: String, _ builder: inout SettingsBuilder) -> Test? {
    builder.error(line.location, "invalid test in \"\(line.name)\" directive", hint: hint)
    return nil
  }
}

extension MatchPattern {
  static func read(_ word: Word, caseless: Bool = false, _ builder: inout SettingsBuilder) -> Self? {
    do throws(PatternError) {
      return Self(try RegularExpression(word.text, caseless: caseless), isCaseless: caseless)
    } catch {
      builder.error(word.location, "invalid regular expression \"\(word.text)\": \(error)")
      return nil
    }
  }
}

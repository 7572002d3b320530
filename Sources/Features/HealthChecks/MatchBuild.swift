import Observability
import Patterns
import Language

extension SettingsBuilder {
  /// Builds all `match` blocks, before any `health_check` names one of them.
  mutating func collectMatches(_ http: Scope) {
    for directive in http.own("match") {
      let name = directive.text(0)
      guard self[HealthChecks.Block.self].matches[name] == nil else {
        error(directive.place(0), "duplicate match \"\(name)\"", hint: "use another name")
        continue
      }
      let scope = Scope(directive.block ?? [], outer: nil)
      if scope.directives.isEmpty {
        error(
          directive.location, "match \"\(name)\" has no test, so that every response would pass",
          hint: "status, header or body")
      }
      var match = ResponseMatch()
      match.statuses = scope.own("status").compactMap { statusTest($0) }
      match.fields = scope.own("header").compactMap { fieldTest($0) }
      match.bodies = scope.own("body").compactMap { bodyTest($0) }
      self[HealthChecks.Block.self].matches[name] = match
    }
  }

  /// `status 200 301-303;` or `status ! 500;`
  private mutating func statusTest(_ line: Directive) -> ResponseMatch.StatusTest? {
    let isNegated = line.text(0) == "!"
    let words = isNegated ? line.arguments.dropFirst() : line.arguments[...]
    var codes: [ClosedRange<UInt16>] = []
    for word in words {
      let ends = word.text.split(separator: "-", maxSplits: 1, omittingEmptySubsequences: false)
        .map { Quantity.number(String($0)).flatMap { (100...999).contains($0) ? UInt16($0) : nil } }
      guard let first = ends.first.flatMap({ $0 }), let last = ends.last.flatMap({ $0 }), first <= last else {
        error(
          word.location, "invalid status \"\(word.text)\"",
          hint: "a code such as 200, or a range such as 200-399; \"!\" is a word of its own, before the codes")
        return nil
      }
      codes.append(first...last)
    }
    guard !codes.isEmpty else {
      error(line.location, "\"status\" without a code", hint: "status 200 204; or status ! 500-599;")
      return nil
    }
    return ResponseMatch.StatusTest(codes: codes, isNegated: isNegated)
  }

  /// `header NAME;`, `header ! NAME;` or `header NAME =|!=|~|!~ VALUE;`
  private mutating func fieldTest(_ line: Directive) -> ResponseMatch.FieldTest? {
    let words = line.arguments
    if words.count == 1 { return words.first.flatMap { fieldTest($0, .isPresent) } }
    if words.count == 2, words[0].text == "!" { return fieldTest(words[1], .isAbsent) }
    guard words.count == 3 else { return invalid(line, Self.fieldForms) }
    let value = words[2]
    switch words[1].text {
    case "=": return fieldTest(words[0], .equals(Array(value.text.utf8), isNegated: false))
    case "!=": return fieldTest(words[0], .equals(Array(value.text.utf8), isNegated: true))
    case "~": return matchPattern(value).flatMap { fieldTest(words[0], .matches($0, isNegated: false)) }
    case "!~": return matchPattern(value).flatMap { fieldTest(words[0], .matches($0, isNegated: true)) }
    default: return invalid(line, Self.fieldForms)
    }
  }

  private static let fieldForms = "header NAME; header ! NAME; or header NAME =, !=, ~ or !~ VALUE;"

  private mutating func fieldTest(_ name: Word, _ demand: ResponseMatch.FieldTest.Demand) -> ResponseMatch.FieldTest? {
    guard let bytes = fieldName(Directive(name: "header", arguments: [name], block: nil, location: name.location))
    else { return nil }
    return ResponseMatch.FieldTest(name: bytes, demand: demand)
  }

  /// `body ~ REGEX;` or `body !~ REGEX;`
  private mutating func bodyTest(_ line: Directive) -> ResponseMatch.BodyTest? {
    guard ["~", "!~"].contains(line.text(0)) else { return invalid(line, "body ~ \"REGEX\"; or body !~ \"REGEX\";") }
    return matchPattern(line.arguments[1]).map {
      ResponseMatch.BodyTest(pattern: $0, isNegated: line.text(0) == "!~")
    }
  }

  private mutating func invalid<Test>(_ line: Directive, _ hint: String) -> Test? {
    error(line.location, "invalid test in \"\(line.name)\" directive", hint: hint)
    return nil
  }

  mutating func matchPattern(_ word: Word, caseless: Bool = false) -> MatchPattern? {
    do throws(PatternError) {
      return MatchPattern(try RegularExpression(word.text, caseless: caseless), isCaseless: caseless)
    } catch {
      self.error(word.location, "invalid regular expression \"\(word.text)\": \(error)")
      return nil
    }
  }
}

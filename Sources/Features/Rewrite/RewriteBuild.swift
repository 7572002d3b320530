import Forward
import Language
import Observability
import Patterns
import Traffic

/// Builds the directives of nginx's rewrite module.
extension Rewrite {
  /// Builds the steps of a level, in order. nginx runs the steps of the server before it chooses a location.
  static func steps(_ level: Level, _ builder: inout SettingsBuilder) -> [RewriteStep] {
    var steps: [RewriteStep] = []
    for directive in level.scope.directives {
      switch directive.name {
      case setLine.name:
        let name = directive.text(0).dropFirst().lowercased()
        if name == "args" {
          steps.append(.setArguments(builder.template(directive, 1)))
        } else if let slot = builder.variables.slots[name] {
          steps.append(.set(slot: slot, builder.template(directive, 1)))
        }
      case returnLine.name: if let settings = response(directive, &builder) { steps.append(.return(settings)) }
      case rewriteLine.name: if let rule = rule(directive, &builder) { steps.append(.rewrite(rule)) }
      case breakLine.name: steps.append(.break)
      case ifLine.name: if let settings = condition(directive, level, &builder) { steps.append(.if(settings)) }
      default: break
      }
    }
    return steps
  }

  private static func condition(
    _ directive: Directive, _ level: Level, _ builder: inout SettingsBuilder
  ) -> ConditionSettings? {
    let inner = Level.conditional(Scope(directive.block ?? [], outer: level.scope), .if, outer: level)
    let steps = steps(inner, &builder)
    var settings: LocationSettings?
    if case .location = level {
      settings = builder.location(inner, at: directive.location)
    } else {
      builder.diagnostics += respondsBeforeAccess(inner.scope, builder.features)
    }
    let spelling: ConditionSpelling
    do {
      spelling = try ConditionSpelling(directive)
    } catch {
      builder.diagnostics.append(error.diagnostic)
      return nil
    }
    func made(_ condition: RewriteCondition, _ isNegated: Bool = false) -> ConditionSettings {
      ConditionSettings(condition, isNegated: isNegated, steps: steps, location: settings)
    }
    switch spelling {
    case .variable(let word): return made(.isSet(variable(word, &builder)))
    case .equals(let word, let other, let isNegated):
      return made(.equals(variable(word, &builder), builder.template(other)), isNegated)
    case .matches(let word, let pattern, _, let isNegated):
      guard let compiled = builder.variables.pattern(at: pattern) else { return nil }
      OpenPatternRule.judge(compiled.pattern, at: pattern, on: variable(word, &builder), &builder)
      return made(
        .matches(variable(word, &builder), compiled, builder.variables.namedCaptures(of: compiled)), isNegated)
    case .file(let test, let path, let isNegated):
      let isRelative = !path.text.hasPrefix("/") && !path.text.hasPrefix("$")
      let whole =
        isRelative ? Word(resolve(path.text, in: builder.folder), at: path.location, quoted: path.quoted) : path
      return made(.file(builder.template(whole), test), isNegated)
    }
  }

  /// A word that is one variable.
  private static func variable(_ word: Word, _ builder: inout SettingsBuilder) -> Template {
    let template = builder.template(word)
    if template.parts.count > 1 {
      builder.error(
        word.location, "unknown \"\(word.text.dropFirst())\" variable", hint: "a condition begins with one variable")
    }
    return template
  }

  private static func rule(_ directive: Directive, _ builder: inout SettingsBuilder) -> RewriteRule? {
    guard let word = directive.arguments.first, let pattern = builder.variables.pattern(at: word) else { return nil }
    var text = directive.text(1)
    if text.isEmpty { builder.error(directive.place(1), "empty replacement", hint: "rewrite REGEX /PATH;") }
    let keepsArguments = !text.hasSuffix("?")
    if !keepsArguments { text.removeLast() }
    var flag = RewriteRule.Flag.none
    let isURL = ["http://", "https://", "$scheme"].contains { text.hasPrefix($0) }
    switch directive.arguments.count > 2 ? directive.text(2) : "" {
    case "permanent": flag = .redirect(301)
    case "redirect": flag = .redirect(302)
    case "last": flag = isURL ? .redirect(302) : .last
    case "break": flag = isURL ? .redirect(302) : .break
    case "": flag = isURL ? .redirect(302) : .none
    default:
      builder.error(
        directive.place(2), "invalid parameter \"\(directive.text(2))\"", hint: "last, break, redirect or permanent")
    }
    let captures = builder.variables.namedCaptures(of: pattern)
    let parts = builder.template(Word(text, at: directive.place(1), quoted: true)).parts
    if case .redirect = flag {
      let hasQuery = parts.contains { if case .literal(let bytes) = $0 { bytes.contains(0x3F) } else { false } }
      return RewriteRule(
        pattern: pattern, captures: captures, path: Template(parts.map(\.escapingCapture)), arguments: nil,
        hasQuery: hasQuery, keepsArguments: keepsArguments, flag: flag)
    }
    let (path, arguments) = Template(parts).splitAtQuery
    return RewriteRule(
      pattern: pattern, captures: captures, path: path, arguments: arguments, hasQuery: false,
      keepsArguments: keepsArguments, flag: flag)
  }

  private static func response(_ directive: Directive, _ builder: inout SettingsBuilder) -> ReturnSettings? {
    let first = directive.text(0)
    guard let status = Quantity.number(first) else {
      let isURL = ["http://", "https://", "$scheme"].contains { first.hasPrefix($0) }
      guard isURL, directive.arguments.count == 1 else {
        builder.error(
          directive.place(0), "invalid return code \"\(first)\"",
          hint: "return CODE [TEXT], return CODE URL, or a URL that begins with http://, https:// or $scheme")
        return nil
      }
      return ReturnSettings(status: 302, content: .redirect(builder.template(directive, 0)))
    }
    guard status == 0 || (100...999).contains(status) else {
      builder.error(
        directive.place(0), "invalid return code \"\(first)\"", hint: "a status of HTTP, 200 to 599, or 444")
      return nil
    }
    let redirects = [301, 302, 303, 307, 308].contains(status)
    guard directive.arguments.count > 1 else {
      if redirects {
        builder.warning(
          directive.location, "`return \(status)` without a URL sends no Location field", hint: "return \(status) URL;")
      }
      return ReturnSettings(status: status, content: .standard)
    }
    let text = builder.template(directive, 1)
    return ReturnSettings(status: status, content: redirects ? .redirect(text) : .text(text))
  }
}

extension Template.Part {
  /// A capture in a query or in an address is escaped.
  fileprivate var escapingCapture: Template.Part {
    if case .variable(.capture(let group)) = self { .variable(.escapedCapture(group)) } else { self }
  }
}

extension Template {
  /// The parts before and after the first `?` of the text itself; no second part without one.
  fileprivate var splitAtQuery: (path: Template, arguments: Template?) {
    for (index, part) in parts.enumerated() {
      guard case .literal(let bytes) = part, let question = bytes.firstIndex(of: 0x3F) else { continue }
      func literal(_ bytes: ArraySlice<UInt8>) -> [Part] { bytes.isEmpty ? [] : [.literal(Array(bytes))] }
      let rest = literal(bytes[(question + 1)...]) + parts[(index + 1)...].map(\.escapingCapture)
      return (Template(parts[..<index] + literal(bytes[..<question])), Template(rest))
    }
    return (self, nil)
  }
}

import Forward
import Language
import Observability
import Patterns
import Traffic

/// Warns of a `proxy_pass` whose server a client chooses, by a request or by the name in its ClientHello: any client could
/// reach whatever the proxy can reach (server-side request forgery).
struct ChosenTargetRule {
  private let level: Level
  /// Whether the server block takes clients that ask for any name: it is the default server of an address, or has no name.
  private let takesAnyName: Bool
  private let origins: VariableOrigins
  /// Of the variables that the configuration defines, by slot.
  private let names: [Int: String]
  private let features: FeatureDirectives
  /// The slots that were looked at: some variables need each other.
  private var seen: Set<Int> = []

  static func judge(_ level: Level, _ builder: inout SettingsBuilder) {
    // Only sallyport itself leads requests to an internal location.
    guard !level.scope.isInternal, let line = UpstreamPass.line(in: level.scope, of: builder.features),
      let word = line.arguments.first, word.text.contains("$")
    else { return }
    let authority = WrittenTarget(builder.template(word).parts).authority
    // As a server without a name is meant to.
    let takesAnyName =
      builder.isDefaultServer || ServerNames.words(level.scope).allSatisfy { ["", "_"].contains($0.text) }
    var rule = ChosenTargetRule(
      level: level, takesAnyName: takesAnyName, origins: VariableOrigins(at: level.scope, &builder),
      names: builder.variables.slotNames, features: builder.features)
    guard let part = rule.firstChosen(in: authority) else { return }
    let name = Template([part]).text(builder.variables.slotNames)
    let message: Wording =
      level.isOfStream
      ? "a client chooses the server: \"\(line.name)\" takes it from \(name)"
      : "a request chooses the server: \"\(line.name)\" takes it from \(name)"
    builder.warning(
      word.location, message,
      hint: "choose it from a list, as map \(name) $upstream { … }, so that a client reaches only what you name")
  }

  private init(
    level: Level, takesAnyName: Bool, origins: VariableOrigins, names: [Int: String], features: FeatureDirectives
  ) {
    self.features = features
    self.level = level
    self.takesAnyName = takesAnyName
    self.origins = origins
    self.names = names
  }

  private mutating func firstChosen(in parts: [Template.Part]) -> Template.Part? {
    for (index, part) in parts.enumerated() {
      guard case .variable(let variable) = part else { continue }
      // A slash ends the name of the server.
      if index > 0, beginsWithSlash(variable) { return nil }
      // A domain behind it is one that only a path can cut off.
      var hasDomain = false
      if index + 1 < parts.count, case .literal(let bytes) = parts[index + 1] {
        hasDomain = bytes.first == UInt8(ascii: ".")
      }
      if isChosen(variable, hasDomain: hasDomain) { return part }
    }
    return nil
  }

  /// Whether each value begins with a slash, as a path does.
  private func beginsWithSlash(_ variable: Variable) -> Bool {
    switch variable {
    case .simple(.uri), .simple(.document_uri), .simple(.request_uri): return true
    case .capture, .escapedCapture, .slot: break
    default: return false
    }
    if case .slot(let slot) = variable, let texts = origins.assigned[slot] {
      return texts.allSatisfy { text in
        guard case .variable(let first)? = text.parts.first else { return text.beginsWithSlash }
        if case .slot = first { return false }
        return beginsWithSlash(first)
      }
    }
    guard case .regex(let pattern, _) = level.match, !mayCapture else { return false }
    return group(of: variable, in: PatternText(pattern.pattern))?.beginsWithSlash ?? false
  }

  /// Whether any client can give the variable any value.
  private mutating func isChosen(_ variable: Variable, hasDomain: Bool) -> Bool {
    switch variable {
    case .argument, .cookie, .requestField: return true
    case .simple(.uri), .simple(.document_uri), .simple(.request_uri), .simple(.args), .simple(.query_string):
      return true
    case .simple(.host): return takesAnyName && !judgesNames
    case .simple(.ssl_server_name): return takesAnyName
    case .feature(let variable): return variable.isClientsWish && takesAnyName
    case .capture, .escapedCapture: return isOpenCapture(variable, hasDomain: hasDomain)
    case .slot(let slot): return isChosen(slot: slot) || isOpenCapture(variable, hasDomain: hasDomain)
    case .settable(let slot, let own): return isChosen(slot: slot) || isChosen(own, hasDomain: hasDomain)
    default: return false
    }
  }

  /// Whether a condition of the level, or of those around it, looks at the name that a request asks for.
  private var judgesNames: Bool {
    level.scope.conditions.contains { $0.arguments.contains { $0.text.contains("$host") } }
  }

  private mutating func isChosen(slot: Int) -> Bool {
    guard seen.insert(slot).inserted else { return false }
    for text in origins.assigned[slot] ?? [] where firstChosen(in: WrittenTarget(text.parts).authority) != nil {
      return true
    }
    guard let settings = origins.computed[slot]?.settings else { return false }
    for value in settings.possibleValues ?? [] where value.parts.contains(where: { $0.isCapture }) == false {
      if firstChosen(in: WrittenTarget(value.parts).authority) != nil { return true }
    }
    // What decides is of a request, or the table had no use.
    return settings.patterns.contains { entry in
      let text = PatternText(entry.pattern.pattern)
      for (index, part) in WrittenTarget(entry.value.parts).authority.enumerated() {
        guard case .variable(let variable) = part, let group = group(of: variable, in: text) else { continue }
        if index > 0, group.beginsWithSlash { return false }
        if group.content.isOpen(to: ".") { return true }
      }
      return false
    }
  }

  /// Whether a capture can have the name of any server: a capture of the path, or of the name that a client asked for.
  private func isOpenCapture(_ variable: Variable, hasDomain: Bool) -> Bool {
    if case .regex(let pattern, _) = level.match, let group = group(of: variable, in: PatternText(pattern.pattern)) {
      return !mayCapture && group.content.isOpen(to: hasDomain ? "/?#@:" : ".")
    }
    guard !hasDomain, case .slot = variable else { return false }
    return ServerNames.words(level.scope).contains { word in
      word.text.hasPrefix("~")
        && group(of: variable, in: PatternText(String(word.text.dropFirst())))?.content.isOpen(to: ".") ?? false
    }
  }

  private var mayCapture: Bool { features.ofHTTPLocation.contains { $0.mayCapture(level.scope) } }

  private func group(of variable: Variable, in pattern: PatternText) -> PatternText.Group? {
    switch variable {
    case .capture(let number), .escapedCapture(let number): pattern.group(number)
    case .slot(let slot): names[slot].flatMap { pattern.group(named: $0) }
    default: nil
    }
  }
}

extension Template.Part {
  fileprivate var isCapture: Bool {
    switch self {
    case .variable(.capture), .variable(.escapedCapture): true
    default: false
    }
  }
}

extension PatternText.Group {
  fileprivate var beginsWithSlash: Bool { isInEachMatch && content.begins(with: UInt8(ascii: "/")) }
}

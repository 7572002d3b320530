package import Observability
package import Patterns
package import Language

/// Collects what a line of a feature's directive defines.
package typealias Definition = @Sendable (Directive, inout DefinedVariables) -> Void

/// Collects what the configuration defines: variables by `set` and named captures, and the patterns with the captures.
///
/// Why a separate pass: nginx allows a variable before the line that defines it.
package struct DefinedVariables {
  /// `http` and `stream` have variables of their own, whose slots differ.
  package let kind: TrafficKind
  private let firstSlot: Int
  package private(set) var slots: [String: Int] = [:]

  let features: FeatureDirectives

  package init(_ features: FeatureDirectives, _ kind: TrafficKind = .http, firstSlot: Int = 0) {
    self.features = features
    self.kind = kind
    self.firstSlot = firstSlot
  }

  /// The first slot that no variable has.
  var endSlot: Int { firstSlot + slots.count }
  package var slotNames: [Int: String] { Dictionary(slots.map { ($1, $0) }, uniquingKeysWith: { first, _ in first }) }
  /// Names that something else than `set` gives a value, too.
  private var otherNames: Set<String> = []
  package private(set) var diagnostics: [Diagnostic] = []
  /// The patterns by the place of their word. A pattern that does not compile is missing, and reported.
  private var patterns: [SourceLocation: RegularExpression] = [:]

  package mutating func collect(from directives: [Directive]) {
    for directive in directives {
      if let definition = features.definitions[directive.name] { definition(directive, &self) }
      if let block = directive.block, !features.table.tables.contains(directive.name) { collect(from: block) }
    }
  }

  /// The variable that the configuration defines under a name; nil if it defines none.
  ///
  /// As in nginx, a variable of the proxy's own keeps its value until a `set` runs, and any other definition replaces it.
  /// To nginx's configurations, a name that only sallyport has is free: its value never shows through.
  package func variable(named name: String) -> Variable? {
    // What `set` gives a feature's variable has a slot, and the variable shows what the feature makes of it.
    guard !isSettable(name), let slot = slots[name] else { return nil }
    guard case .known(let own) = look(up: name), !own.isOursAlone, !otherNames.contains(name) else {
      return .slot(slot)
    }
    return .settable(slot: slot, own)
  }

  package func pattern(at word: Word) -> RegularExpression? { patterns[word.location] }

  package func namedCaptures(of pattern: RegularExpression) -> [NamedCapture] {
    pattern.names.compactMap { name, number in
      slots[name.lowercased()].map { NamedCapture(group: number, slot: $0) }
    }
  }

  /// The names of variables that only `set` gives a value, by slot.
  package var setNames: [Int: String] {
    let others = otherNames
    return slots.reduce(into: [:]) { names, entry in
      if !others.contains(entry.key) { names[entry.value] = entry.key }
    }
  }

  /// Defines the variable that is the last word before a table. Returns false if the name is no valid one.
  package mutating func defineTable(_ directive: Directive) -> Bool {
    guard let word = directive.arguments.last, word.text.hasPrefix("$"), word.text.utf8.count > 1,
      word.text.utf8.dropFirst().allSatisfy(TemplateCompiler.isNameByte)
    else {
      report(
        directive.arguments.last, "invalid variable name \"\(directive.arguments.last?.text ?? "")\"",
        hint: "the last word before the block is $NAME")
      return false
    }
    let name = word.text.dropFirst().lowercased()
    allot(name, word)
    otherNames.insert(name)
    return true
  }

  package mutating func compileUnnamed(_ pattern: String, at word: Word, caseless: Bool = true, what: String) {
    guard !pattern.isEmpty else { return report(word, "empty regex in \(what)", hint: "write a pattern after \"~\"") }
    do throws(PatternError) {
      patterns[word.location] = try RegularExpression(pattern, caseless: caseless)
    } catch {
      report(word, "invalid regular expression \"\(pattern)\": \(error)", hint: nil)
    }
  }

  /// A variable that a feature sets. nginx doesn't warn of it where it has no value.
  package mutating func defineSettable(_ directive: Directive) {
    let name = String(directive.text(0).dropFirst()).lowercased()
    guard directive.text(0).hasPrefix("$"), !name.isEmpty, name.utf8.allSatisfy(TemplateCompiler.isNameByte) else {
      return report(
        directive.arguments.first, "invalid variable name \"\(directive.text(0))\"",
        hint: "expected: \(directive.name) $NAME VALUE;")
    }
    if name == "args" { return }
    allot(name, directive.arguments.first, isSet: true)
    otherNames.insert(name)
  }

  private func look(up name: String) -> VariableNames.Answer { features.variables.look(up: name, of: kind) }

  private func isSettable(_ name: String) -> Bool {
    features.variables.ofFeatures(kind)[name]?.isSettable ?? false
  }

  /// `isSet`: by a directive that nginx also allows for its own `$limit_rate`.
  package mutating func allot(_ name: String, _ word: Word?, isSet: Bool = false) {
    guard isFree(name) || isSet && isSettable(name) else {
      return report(
        word, "the duplicate \"\(name)\" variable", hint: "nginx has this variable itself; use another name")
    }
    guard slots[name] == nil else { return }
    slots[name] = endSlot
    if case .known(let own) = look(up: name), own.isOursAlone {
      diagnostics.append(
        Diagnostic(
          .notice, at: word?.location,
          "\"$\(name)\" is the variable that this configuration defines, and not sallyport's of that name"))
    }
  }

  /// Whether a configuration may define a variable of this name. As in nginx, one of a field or an argument is free, unless
  /// nginx has one of that very name.
  private func isFree(_ name: String) -> Bool {
    if kind == .http, nginxFieldVariables.contains(name) { return false }
    return switch look(up: name) {
    case .unknown: true
    case .planned: false
    case .known(.simple(.proxy_host)), .known(.simple(.proxy_port)): true
    case .known(let variable): variable.isOfPrefix || variable.isOursAlone
    }
  }

  package mutating func compile(_ pattern: String, at word: Word, caseless: Bool, what: String) {
    guard !pattern.isEmpty else { return report(word, "empty regex in \(what)", hint: "write a pattern after \"~\"") }
    do throws(PatternError) {
      let compiled = try RegularExpression(pattern, caseless: caseless)
      patterns[word.location] = compiled
      for (name, _) in compiled.names {
        allot(name.lowercased(), word)
        otherNames.insert(name.lowercased())
      }
    } catch {
      report(
        word, "invalid regular expression \"\(pattern)\": \(error)",
        hint: pattern.contains("(?<") || !word.quoted ? "an expression with \"{\", \"}\" or \";\" needs quotes" : nil)
    }
  }

  package mutating func report(_ word: Word?, _ message: String, hint: String?) {
    diagnostics.append(Diagnostic(.error, at: word?.location, message, hint: hint))
  }
}

/// The variables of fields that nginx has by their whole name, so that `set` can't define them.
private let nginxFieldVariables: Set<String> = [
  "http_host", "http_user_agent", "http_referer", "http_via", "http_x_forwarded_for", "http_cookie",
  "sent_http_content_type", "sent_http_content_length", "sent_http_location", "sent_http_last_modified",
  "sent_http_connection", "sent_http_keep_alive", "sent_http_transfer_encoding", "sent_http_cache_control",
  "sent_http_link",
]

extension Variable {
  /// Whether its name is a prefix with a name of the user's.
  fileprivate var isOfPrefix: Bool {
    switch self {
    case .argument, .requestField, .cookie, .sentField, .sentTrailer, .upstreamField, .upstreamTrailer, .upstreamCookie,
      .proxyTLV:
      true
    case .simple, .feature, .capture, .escapedCapture, .slot, .belowFolder, .settable: false
    }
  }

  /// Whether nginx has no variable of that name.
  package var isOursAlone: Bool {
    switch self {
    case .simple(let variable): variable.isOursAlone
    case .feature(let variable): variable.isOursAlone
    default: false
    }
  }
}

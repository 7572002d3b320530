import Features
import Forward
package import Language
package import Observability
package import Traffic

/// Checks a tree of directives against the table: names, contexts, words and their values, and duplicates.
///
/// The result is ready for the builder: only supported directives, in a valid context, with words that parse.
package struct DirectiveChecker {
  package private(set) var diagnostics: [Diagnostic] = []

  private let features: FeatureDirectives

  package init(_ features: FeatureDirectives = Features.all.directives) { self.features = features }

  /// Returns the valid part of the tree.
  package mutating func check(_ directives: [Directive], in context: DirectiveContexts = .main) -> [Directive] {
    var sound: [Directive] = []
    var firsts: [String: SourceLocation] = [:]
    for directive in directives {
      guard let entry = entry(for: directive, in: context) else { continue }
      if !entry.isRepeatable {
        if let first = firsts[entry.name] {
          report(directive, "\"\(entry.name)\" directive is duplicate", hint: "the first is at \(first)")
          continue
        }
        firsts[entry.name] = directive.location
      }
      if case .withoutEffect(let reason) = entry.status {
        guard entry.form == .anything || checkForm(directive, entry) else { continue }
        diagnostics.append(entry.remark(directive) ?? Self.notice(of: directive, reason))
        continue
      }
      var checked = directive
      let fits = checkForm(directive, entry)
      if let block = directive.block, entry.form.opensBlock, !entry.form.isTable,
        let inner = features.table.context(ofBlock: entry.name, in: context)
      {
        checked.block = check(block, in: inner)
      }
      if fits {
        if let swallowed = swallowed(by: directive, in: context) { warn(of: swallowed, directive) }
        sound.append(checked)
      }
    }
    return sound
  }

  private static func notice(of directive: Directive, _ reason: String) -> Diagnostic {
    var notice = Diagnostic(
      .notice, at: directive.location, "\"\(directive.name)\" is taken and has no effect: \(reason)")
    notice.idleDirective = directive.name
    return notice
  }

  private mutating func entry(for directive: Directive, in context: DirectiveContexts) -> DirectiveEntry? {
    let name = directive.name
    let entries = features.table.entries(named: name)
    guard let first = entries.first else {
      if let module = ForeignModule.ofDirective(name) {
        if module.isHarmless {
          diagnostics.append(Self.notice(of: directive, "it is of \(module.name); \(module.instead)"))
          return nil
        }
        report(
          directive, "`\(name)` is of \(module.name), not of nginx, and not supported here: \(module.instead)",
          shared: .init(module.instead, subject: "`\(name)`"))
        return nil
      }
      // In a file of another language every word is unknown; a hint for each would take minutes.
      let nearest = diagnostics.count < 200 ? features.table.nearest(to: name, in: context) : nil
      report(directive, "unknown directive \"\(name)\"", hint: nearest.map { "did you mean \"\($0)\"?" })
      return nil
    }
    if let entry = entries.first(where: { $0.contexts.contains(context) }) { return entry }
    switch first.status {
    case .planned(let meanwhile):
      report(directive, "`\(name)` is not supported yet", hint: meanwhile.isEmpty ? nil : "\(meanwhile)")
    case .foreign(let instead):
      report(
        directive, "`\(name)` is nginx's, but not supported here: \(instead)",
        shared: .init(instead, subject: "`\(name)`"))
    case .supported, .withoutEffect:
      let contexts = entries.reduce(into: DirectiveContexts()) { $0.formUnion($1.contexts) }
      let place = "this is \(context.names.joined()); it belongs in \(contexts.names.joined(separator: ", "))"
      let needsRequests = first.form.opensBlock && context.isOfStream && contexts.contains(.location)
      report(
        directive, "\"\(name)\" directive is not allowed here",
        hint: needsRequests ? "\(place) of \"http\": connections of \"stream\" carry no requests" : "\(place)")
    }
    return nil
  }

  /// Returns whether the words and the block match the entry, and reports why they do not.
  private mutating func checkForm(_ directive: Directive, _ entry: DirectiveEntry) -> Bool {
    let usage = "\(entry.name) \(entry.form.usage)".trimmingFinalBlanks + (entry.form.opensBlock ? "" : ";")
    if entry.form.opensBlock, directive.block == nil {
      report(directive, "directive \"\(entry.name)\" has no opening \"{\"", hint: "expected: \(usage)")
      return false
    }
    let semicolon = swallowed(by: directive).map { "\(Self.question(of: $0)) " } ?? ""
    if !entry.form.opensBlock, directive.block != nil {
      report(
        directive, "directive \"\(entry.name)\" is not terminated by \";\"", hint: "\(semicolon)expected: \(usage)")
      return false
    }
    guard entry.form.argumentCount.contains(directive.arguments.count) else {
      report(
        directive, "invalid number of arguments in \"\(entry.name)\" directive",
        hint: "\(semicolon)expected: \(usage)")
      return false
    }
    var fits = true
    for (index, word) in directive.arguments.enumerated() {
      guard let expected = fault(of: word, index: index, form: entry.form) else { continue }
      diagnostics.append(
        Diagnostic(
          .error, at: word.location, "invalid value \"\(word.text)\" in \"\(entry.name)\" directive",
          hint: "it must be \(expected)\(entry.reasonOfChoice.map { ": \($0)" } ?? "")"))
      fits = false
    }
    return fits
  }

  /// Returns the word that begins a line of its own and names a directive, where the statement before seems to lack its
  /// ";". `context`: what the directive must be allowed in; nil: anything.
  private func swallowed(by directive: Directive, in context: DirectiveContexts? = nil) -> Word? {
    var line = directive.location.line
    for word in directive.arguments {
      defer { line = word.location.line }
      guard word.location.line > line, !word.quoted else { continue }
      let entries = features.table.entries(named: word.text)
      if entries.contains(where: { context.map($0.contexts.contains) ?? true }) { return word }
    }
    return nil
  }

  private static func question(of word: Word) -> String {
    "is a \";\" missing before \"\(word.text)\" in line \(word.location.line)?"
  }

  private mutating func warn(of word: Word, _ directive: Directive) {
    diagnostics.append(
      Diagnostic(
        .warning, at: word.location, "\"\(word.text)\" is taken as an argument of \"\(directive.name)\"",
        hint: "\(Self.question(of: word)) To mean the argument, put it into quotes"))
  }

  /// Returns what was expected if a word does not match its form; nil if it matches.
  private func fault(of word: Word, index: Int, form: ArgumentForm) -> String? {
    let text = word.text
    switch form {
    case .none, .words, .block, .table:
      return nil
    case .flag:
      return Flag(text) == nil ? "\"on\" or \"off\"" : nil
    case .number(let range):
      guard let number = Quantity.number(text), range.contains(number) else {
        return range.upperBound == Int.max
          ? "a number of at least \(range.lowerBound)" : "a number from \(range.lowerBound) to \(range.upperBound)"
      }
      return nil
    case .size:
      return Quantity.size(text) == nil ? Expected.size : nil
    case .milliseconds:
      return Quantity.milliseconds(text) == nil ? Expected.milliseconds : nil
    case .seconds:
      return Quantity.seconds(text) == nil ? Expected.seconds : nil
    case .buffers:
      if index == 0 { return Quantity.number(text).map { $0 > 0 } == true ? nil : "a number above 0" }
      return Quantity.size(text).map { $0 > 0 } == true ? nil : Expected.size
    case .environmentName:
      return text.contains("=") ? "a name alone: the service manager sets values, and all variables are kept" : nil
    case .oneOf(let words), .someOf(let words):
      if words.contains(where: { $0.lowercased() == text.lowercased() }) { return nil }
      let nearest = Spelling.nearest(to: text, among: words).map { "; did you mean \"\($0)\"?" } ?? ""
      let choice = words.map { "\"\($0)\"" }.joined(separator: ", ")
      return words.count == 1 ? choice : "one of \(choice)\(nearest)"
    }
  }

  private mutating func report(
    _ directive: Directive, _ message: Wording, hint: Wording? = nil, shared: Diagnostic.SharedCause? = nil
  ) {
    var error = Diagnostic(.error, at: directive.location, message, hint: hint)
    error.sharedCause = shared
    diagnostics.append(error)
  }
}

extension DirectiveEntry {
  /// Why no other word of a choice is taken, for a directive without effect.
  fileprivate var reasonOfChoice: String? {
    guard case .oneOf = form, case .withoutEffect(let reason) = status else { return nil }
    return reason
  }
}

extension String {
  fileprivate var trimmingFinalBlanks: String {
    var copy = self
    while copy.hasSuffix(" ") { copy.removeLast() }
    return copy
  }
}

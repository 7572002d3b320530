import Proxy
package import Observability
package import Language

/// Checks a tree of directives against the table: names, contexts, words and their values, and duplicates.
///
/// The result is ready for the builder: only supported directives, in a valid context, with words that parse.
package struct DirectiveChecker {
  package private(set) var diagnostics: [Diagnostic] = []

  package init() {}

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
        var notice = Diagnostic(
          .notice, at: directive.location, "\"\(entry.name)\" is taken and has no effect: \(reason)")
        notice.idleDirective = entry.name
        diagnostics.append(notice)
        continue
      }
      var checked = directive
      let fits = checkForm(directive, entry)
      if let block = directive.block, entry.form.opensBlock, !entry.form.isTable {
        checked.block = check(block, in: DirectiveContexts(ofBlock: entry.name, in: context))
      }
      if fits { sound.append(checked) }
    }
    return sound
  }

  private mutating func entry(for directive: Directive, in context: DirectiveContexts) -> DirectiveEntry? {
    let name = directive.name
    let entries = DirectiveTable.entries(named: name)
    guard let first = entries.first else {
      if let module = ForeignModule.ofDirective(name) {
        report(directive, "`\(name)` is of \(module.name), not of nginx, and not supported here: \(module.instead)")
        return nil
      }
      // In a file of another language every word is unknown; a hint for each would take minutes.
      let nearest = diagnostics.count < 200 ? DirectiveTable.nearest(to: name, in: context) : nil
      report(directive, "unknown directive \"\(name)\"", hint: nearest.map { "did you mean \"\($0)\"?" })
      return nil
    }
    if let entry = entries.first(where: { $0.contexts.contains(context) }) { return entry }
    switch first.status {
    case .planned(let meanwhile):
      report(directive, "`\(name)` is not supported yet", hint: meanwhile.isEmpty ? nil : meanwhile)
    case .foreign(let instead):
      report(directive, "`\(name)` is nginx's, but not supported here: \(instead)")
    case .supported, .withoutEffect:
      let contexts = entries.reduce(into: DirectiveContexts()) { $0.formUnion($1.contexts) }
      report(
        directive, "\"\(name)\" directive is not allowed here",
        hint: "this is \(context.names.joined()); it belongs in \(contexts.names.joined(separator: ", "))")
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
    if !entry.form.opensBlock, directive.block != nil {
      report(directive, "directive \"\(entry.name)\" is not terminated by \";\"", hint: "expected: \(usage)")
      return false
    }
    guard entry.form.argumentCount.contains(directive.arguments.count) else {
      let swallowed = directive.arguments.first {
        $0.location.line > directive.location.line && !DirectiveTable.entries(named: $0.text).isEmpty
      }
      let semicolon = swallowed.map { "is a \";\" missing before \"\($0.text)\" in line \($0.location.line)? " } ?? ""
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
      return "one of \(words.map { "\"\($0)\"" }.joined(separator: ", "))\(nearest)"
    }
  }

  private mutating func report(_ directive: Directive, _ message: String, hint: String? = nil) {
    diagnostics.append(Diagnostic(.error, at: directive.location, message, hint: hint))
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

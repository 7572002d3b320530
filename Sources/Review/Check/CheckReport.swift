package import Observability

/// What `sallyport check` says of a configuration, as lines for a person or as JSON for a program.
///
/// Errors stand before warnings, and warnings before notices, each in the order in which they were found. For a person,
/// messages of one cause are told together, notices stand at the end, and the directives without effect are one line, unless
/// everything is asked for.
package struct CheckReport {
  package let isValid: Bool
  /// The last line.
  package let verdict: String
  private let path: String
  private let diagnostics: [Diagnostic]
  private let policy: PolicyReport
  private let excerpts: SourceExcerpts
  /// How much of it `lines` tells.
  package enum Detail: Sendable { case errors, summary, everything }
  private let detail: Detail

  package init(
    _ path: String, _ found: [Diagnostic], policy: PolicyReport, _ excerpts: SourceExcerpts, isStrict: Bool,
    detail: Detail = .summary
  ) {
    func all(_ severity: Diagnostic.Severity) -> [Diagnostic] { found.filter { $0.severity == severity } }
    self.path = path
    self.detail = detail
    self.excerpts = excerpts
    diagnostics = all(.error) + all(.warning) + all(.notice)
    let warnings = isStrict ? 0 : all(.warning).count
    let errors = all(.error).count + all(.warning).count - warnings
    isValid = errors == 0
    let counted = [(errors, "error"), (warnings, "warning")].filter { $0.0 > 0 }.map { count, word in
      count.of(word)
    }.joined(separator: ", ")
    let judged = errors == 0 ? (counted.isEmpty ? "valid" : "valid, ") : "not valid: "
    verdict = "configuration \(path) is \(judged)\(counted)"
    self.policy = policy
  }

  // MARK: For a person

  /// The messages with their lines of the configuration, the policy, and the verdict.
  package func lines(isColoured: Bool, withPolicy: Bool = true) -> [String] {
    let last = [isColoured ? Self.coloured(verdict, isValid ? "32" : "31") : verdict]
    switch detail {
    case .errors:
      // Without errors of its own, a strict report fails for its warnings.
      let stopping = diagnostics.filter { $0.severity == .error || !isValid && $0.severity == .warning }
      return stopping.flatMap { lines(of: $0, isColoured) } + (isValid ? [] : last)
    case .summary:
      let faults = lines(folding: diagnostics.filter { $0.severity != .notice }, isColoured)
      let notices = lines(
        folding: diagnostics.filter { $0.severity == .notice && $0.idleDirective == nil }, isColoured)
      let idle = diagnostics.ofIdleDirectives.map { lines(of: $0, isColoured) } ?? []
      return faults + (withPolicy ? (faults.isEmpty ? [] : [""]) + policy.summary : []) + notices + idle + last
    case .everything:
      let told = diagnostics.flatMap { lines(of: $0, isColoured) }
      return told + (withPolicy ? (told.isEmpty ? [] : [""]) + policy.lines : []) + last
    }
  }

  private func lines(folding messages: [Diagnostic], _ isColoured: Bool) -> [String] {
    MessageGroup.groups(messages).flatMap { group in
      if let title = group.title { return lines(of: title, isColoured, withExcerpt: false) }
      return (group.first.map { lines(of: $0, isColoured) } ?? []) + (group.others.map { ["    \($0)"] } ?? [])
    }
  }

  private func lines(of diagnostic: Diagnostic, _ isColoured: Bool, withExcerpt: Bool = true) -> [String] {
    let severity = diagnostic.severity.rawValue
    let word = isColoured ? Self.coloured(severity, Self.colour(of: diagnostic.severity)) : severity
    var lines = [(diagnostic.location.map { "\($0): " } ?? "") + "\(word): \(diagnostic.message)"]
    if withExcerpt, let excerpt = diagnostic.location.flatMap({ excerpts.excerpt(at: $0) }) {
      let caret = isColoured ? Self.coloured("^", Self.colour(of: diagnostic.severity)) : "^"
      lines += ["    \(excerpt.line)", "    " + String(repeating: " ", count: excerpt.column) + caret]
    }
    if let hint = diagnostic.hint { lines.append("    hint: \(hint)") }
    return lines
  }

  /// The colours of SGR (ECMA-48 8.3.117): red, yellow, cyan.
  private static func colour(of severity: Diagnostic.Severity) -> String {
    switch severity {
    case .error: "31"
    case .warning: "33"
    case .notice: "36"
    }
  }

  private static func coloured(_ text: String, _ colour: String) -> String { "\u{1B}[\(colour);1m\(text)\u{1B}[0m" }

  // MARK: For a program

  /// One object. Names never change; new ones may be added.
  package var json: String {
    var json = JSONText()
    json.object { json in
      json.member("configuration", path)
      json.member("valid", isValid)
      json.diagnostics(diagnostics, excerpts)
      json.array("policy", policy.lines) { $1.value($0) }
      policy.append(to: &json)
    }
    return json.text
  }
}

extension JSONText {
  /// Appends the array `diagnostics`. `excerpts`: the lines of the configuration; nil: they aren't told.
  mutating func diagnostics(_ all: [Diagnostic], _ excerpts: SourceExcerpts? = nil) {
    array("diagnostics", all) { diagnostic, json in
      json.object { json in
        json.member("severity", diagnostic.severity.rawValue)
        json.member("code", diagnostic.code)
        json.place(diagnostic.location)
        json.member("message", diagnostic.message)
        json.member("hint", diagnostic.hint)
        if let excerpts {
          json.member("source", diagnostic.location.flatMap { excerpts.excerpt(at: $0) }?.line)
        }
      }
    }
  }
}

package import Observability

/// What `sallyport check` says of a configuration, as lines for a person or as JSON for a program.
///
/// Errors stand before warnings, and warnings before notices, each in the order in which they were found. For a person,
/// the directives without effect are one line at the end, unless every notice is asked for.
package struct CheckReport {
  package let isValid: Bool
  /// The last line.
  package let verdict: String
  private let path: String
  private let diagnostics: [Diagnostic]
  private let policy: [String]
  private let excerpts: SourceExcerpts
  /// How much of it `lines` tells.
  package enum Detail: Sendable { case errors, summary, everything }
  private let detail: Detail

  package init(
    _ path: String, _ found: [Diagnostic], policy: [String], _ excerpts: SourceExcerpts, isStrict: Bool,
    detail: Detail = .summary
  ) {
    func all(_ severity: Diagnostic.Severity) -> [Diagnostic] { found.filter { $0.severity == severity } }
    self.path = path
    self.detail = detail
    self.excerpts = excerpts
    diagnostics = all(.error) + all(.warning) + all(.notice)
    let errors = all(.error).count + (isStrict ? all(.warning).count : 0)
    isValid = errors == 0
    verdict =
      errors == 0
      ? "configuration \(path) is valid"
      : "configuration \(path) is not valid: \(errors) \(errors == 1 ? "error" : "errors")"
    self.policy = policy
  }

  // MARK: For a person

  /// The diagnostics with their lines of the configuration, the policy, the directives without effect, the verdict.
  package func lines(isColoured: Bool, withPolicy: Bool = true) -> [String] {
    let told = shown.flatMap { lines(of: $0, isColoured) }
    let last = isColoured ? Self.coloured(verdict, isValid ? "32" : "31") : verdict
    if detail == .errors { return told + (isValid ? [] : [last]) }
    let idle = detail == .summary ? diagnostics.ofIdleDirectives.map { lines(of: $0, isColoured) } ?? [] : []
    return told + (withPolicy ? (told.isEmpty ? [] : [""]) + policy : []) + idle + [last]
  }

  /// Without errors of its own, a strict report fails for its warnings.
  private var shown: [Diagnostic] {
    switch detail {
    case .errors: diagnostics.filter { $0.severity == .error || !isValid && $0.severity == .warning }
    case .summary: diagnostics.filter { $0.idleDirective == nil }
    case .everything: diagnostics
    }
  }

  private func lines(of diagnostic: Diagnostic, _ isColoured: Bool) -> [String] {
    let severity = diagnostic.severity.rawValue
    let word = isColoured ? Self.coloured(severity, Self.colour(of: diagnostic.severity)) : severity
    var lines = [(diagnostic.location.map { "\($0): " } ?? "") + "\(word): \(diagnostic.message)"]
    if let excerpt = diagnostic.location.flatMap({ excerpts.excerpt(at: $0) }) {
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
      json.array("diagnostics", diagnostics) { diagnostic, json in
        json.object { json in
          json.member("severity", diagnostic.severity.rawValue)
          json.member("file", diagnostic.location?.file)
          json.member("line", diagnostic.location?.line)
          json.member("column", diagnostic.location?.column)
          json.member("message", diagnostic.message)
          json.member("hint", diagnostic.hint)
          json.member("source", diagnostic.location.flatMap { excerpts.excerpt(at: $0) }?.line)
        }
      }
      json.array("policy", policy) { $1.value($0) }
    }
    return json.text
  }
}

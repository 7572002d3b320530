package import Language

/// A line that keeps clients out, for the warning of a `return` that responds before it.
package struct GuardingLine {
  package let line: Directive
  /// What happens to a request then: `is judged`.
  package let act: String
  /// The line that takes it back.
  package let remedy: String
  /// The line refuses requests, as a response beside it may do too.
  package let refuses: Bool

  package init(_ line: Directive, act: String, remedy: String, refuses: Bool = false) {
    self.refuses = refuses
    self.line = line
    self.act = act
    self.remedy = remedy
  }

  /// A directive that is in effect unless its word is `off`.
  package init?(_ scope: Scope, unlessOff name: String, act: String) {
    guard let line = scope.value(name), line.text(0) != "off" else { return nil }
    self.init(line, act: act, remedy: "\(name) off;")
  }
}

/// A response that all requests of a level get.
package enum FixedResponse {
  case redirect
  /// A status of 400 or more.
  case refusal
  case other
}

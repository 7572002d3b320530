import Observability
import Language

extension SettingsBuilder {
  /// `stub_status`. nginx takes any word after it, `off` too, and serves the page all the same.
  mutating func stubStatus(_ scope: Scope, _ line: Directive) -> LocationAction? {
    if let diagnostic = LocationRule.answersTwice(scope, at: line) { diagnostics.append(diagnostic) }
    if line.arguments.first.map({ $0.text.lowercased() == "on" }) ?? true { return .status }
    error(
      line.place(0), "invalid value \"\(line.text(0))\" in \"stub_status\" directive",
      hint: "write `stub_status;`, or leave the directive out")
    return nil
  }
}

extension LocationAction {
  /// Whether requests get a response from the level's own content.
  var isContent: Bool { if case .none = self { false } else { true } }
}

import Observability
import Transport
import Language

extension SettingsBuilder {
  mutating func errorPages(_ scope: Scope) -> [ErrorPage] {
    scope.list("error_page").flatMap { errorPage($0) }
  }

  private mutating func errorPage(_ line: Directive) -> [ErrorPage] {
    guard let last = line.arguments.last else { return [] }
    var codes = line.arguments.dropLast()
    var replacement: Int?
    if let word = codes.last, word.text.hasPrefix("=") {
      codes = codes.dropLast()
      let text = String(word.text.dropFirst())
      replacement = text.isEmpty ? 0 : Quantity.number(text)
      guard let status = replacement, text.isEmpty || (100...599).contains(status) else {
        error(word.location, "invalid value \"\(word.text)\" in \"error_page\" directive", hint: "= or =STATUS")
        return []
      }
    }
    if codes.isEmpty {
      error(
        line.location, "invalid number of arguments in \"error_page\" directive",
        hint: "error_page CODE … [=[CODE]] URI;")
    }
    let target: ErrorPage.Target
    if last.text.hasPrefix("@") {
      target = .named(String(last.text.dropFirst()))
    } else if last.text.hasPrefix("/") {
      target = .path(template(last))
    } else {
      target = .redirect(template(last))
    }
    return codes.compactMap { word in
      guard let status = Quantity.number(word.text), (300...599).contains(status) else {
        error(
          word.location, "invalid value \"\(word.text)\" in \"error_page\" directive",
          hint: "value must be between 300 and 599")
        return nil
      }
      return ErrorPage(status: status, target: target, replacement: replacement)
    }
  }

  /// Builds `allow` and `deny`, in the order of the file.
  mutating func accessRules(_ scope: Scope) -> [AccessRule] {
    scope.list("allow", "deny").compactMap { line in
      source(line).map { AccessRule(allows: line.name == "allow", source: $0, location: line.location) }
    }
  }

  private mutating func source(_ line: Directive) -> AccessRule.Source? {
    let text = line.text(0)
    if text == "all" { return .all }
    if text == "unix:" { return .unix }
    guard let (source, hasHostBits) = Self.network(text) else {
      error(line.place(0), "invalid parameter \"\(text)\"", hint: "an IP address, ADDRESS/BITS, unix: or all; no names")
      return nil
    }
    if hasHostBits {
      warning(line.place(0), "low address bits of \"\(text)\" are meaningless", hint: "write the network's address")
    }
    return source
  }
}

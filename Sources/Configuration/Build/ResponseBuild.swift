import Observability
import Proxy
import Transport

extension SettingsBuilder {
  /// Builds `set` and `return` of a level, in order. nginx runs the steps of the server before it chooses a location.
  mutating func rewriteSteps(_ scope: Scope) -> [RewriteStep] {
    scope.directives.compactMap { directive in
      switch directive.name {
      case "set":
        let name = directive.text(0).dropFirst().lowercased()
        return variables.slots[name].map { .set(slot: $0, template(directive, 1)) }
      case "return":
        return returnSettings(directive).map { .return($0) }
      default:
        return nil
      }
    }
  }

  private mutating func returnSettings(_ directive: Directive) -> ReturnSettings? {
    let first = directive.text(0)
    guard let status = Quantity.number(first) else {
      let isURL = ["http://", "https://", "$scheme"].contains { first.hasPrefix($0) }
      guard isURL, directive.arguments.count == 1 else {
        error(
          directive.place(0), "invalid return code \"\(first)\"",
          hint: "return CODE [TEXT], return CODE URL, or a URL that begins with http://, https:// or $scheme")
        return nil
      }
      return ReturnSettings(status: 302, content: .redirect(template(directive, 0)))
    }
    guard status == 0 || (100...999).contains(status) else {
      error(directive.place(0), "invalid return code \"\(first)\"", hint: "a status of HTTP, 200 to 599, or 444")
      return nil
    }
    let redirects = [301, 302, 303, 307, 308].contains(status)
    guard directive.arguments.count > 1 else {
      if redirects {
        warning(
          directive.location, "`return \(status)` without a URL sends no Location field", hint: "return \(status) URL;")
      }
      return ReturnSettings(status: status, content: .standard)
    }
    let text = template(directive, 1)
    return ReturnSettings(status: status, content: redirects ? .redirect(text) : .text(text))
  }

  mutating func addedFields(_ scope: Scope) -> [AddedField] {
    scope.list("add_header").compactMap { line in
      if line.arguments.count > 2, line.text(2) != "always" {
        error(line.place(2), "invalid parameter \"\(line.text(2))\"", hint: "\"always\", or quotes around the value")
        return nil
      }
      guard let name = fieldName(line) else { return nil }
      if ["content-length", "transfer-encoding"].contains(line.text(0).lowercased()) {
        error(
          line.place(0), "\"\(line.text(0))\" can't be set by add_header",
          hint: "sallyport sets the framing fields itself: remove this line")
        return nil
      }
      return AddedField(name: name, value: fieldValue(line), always: line.arguments.count > 2)
    }
  }

  /// Parses the first word as a field name (RFC 9110 §5.1: a token).
  mutating func fieldName(_ line: Directive) -> [UInt8]? {
    let name = Array(line.text(0).utf8)
    let marks = Array("!#$%&'*+-.^_`|~".utf8)
    guard !name.isEmpty, name.allSatisfy({ TemplateCompiler.isNameByte($0) || marks.contains($0) }) else {
      error(
        line.place(0), "invalid field name \"\(line.text(0))\" in \"\(line.name)\" directive",
        hint: "letters, digits, \"-\" and \"_\", without a colon")
      return nil
    }
    return name
  }

  /// Parses the second word as a field value. It refuses a line break, which would begin another field.
  mutating func fieldValue(_ line: Directive) -> Template {
    if line.text(1).utf8.contains(where: { $0 < 0x20 && $0 != 9 || $0 == 0x7F }) {
      error(line.place(1), "a control character in the value of \"\(line.text(0))\"", hint: "a field is one line")
    }
    return template(line, 1)
  }

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

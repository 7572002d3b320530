import Observability
import Language

extension SettingsBuilder {
  /// Builds the lines of `add_header` or `add_trailer`.
  mutating func addedFields(_ scope: Scope, _ directive: String = "add_header") -> [AddedField] {
    scope.inheritingList(directive).compactMap { line in
      if line.arguments.count > 2, line.text(2) != "always" {
        error(line.place(2), "invalid parameter \"\(line.text(2))\"", hint: "\"always\", or quotes around the value")
        return nil
      }
      guard let name = fieldName(line) else { return nil }
      if ["content-length", "transfer-encoding"].contains(line.text(0).lowercased()) {
        error(
          line.place(0), "\"\(line.text(0))\" can't be set by \(directive)",
          hint: "sallyport sets the framing fields itself: remove this line")
        return nil
      }
      return AddedField(name: name, value: fieldValue(line), always: line.arguments.count > 2)
    }
  }

  mutating func expires(_ scope: Scope) -> ExpiresSettings? {
    guard let line = scope.value("expires") else { return nil }
    let isModified = line.arguments.count > 1
    if isModified, line.text(0) != "modified" {
      error(line.place(0), "invalid value \"\(line.text(0))\" in \"expires\" directive", hint: "[modified] TIME")
      return nil
    }
    let word = line.arguments.count - 1
    if line.text(word).contains("$") { return .template(template(line, word), modified: isModified) }
    guard let rule = ExpiresRule(Array(line.text(word).utf8), modified: isModified) else {
      error(
        line.place(word), "invalid value \"\(line.text(word))\" in \"expires\" directive",
        hint: "30d, -1, @15h30m (below 24 hours), modified +24h, epoch, max or off")
      return nil
    }
    return .rule(rule)
  }

  /// nil: `charset off`.
  mutating func charset(_ scope: Scope) -> CharsetSettings? {
    guard let line = scope.value("charset"), line.text(0) != "off" else { return nil }
    var settings = CharsetSettings(name: template(line, 0))
    let words = scope.list("charset_types").flatMap(\.arguments).map { $0.text.lowercased() }
    if words.contains("*") {
      settings.types = nil
    } else if !words.isEmpty {
      settings.types = Set((["text/html"] + words).map { Array($0.utf8) })
    }
    return settings
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
}

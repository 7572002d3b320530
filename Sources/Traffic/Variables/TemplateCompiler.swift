package import Observability
package import Language

/// Compiles text with `$name`, `${name}` and `$1` into a template, as nginx's `ngx_http_script_compile`.
package struct TemplateCompiler {
  /// What the configuration defines.
  package let defined: DefinedVariables

  package init(defined: DefinedVariables) {
    self.defined = defined
  }

  package struct ParseError: Error {
    package var diagnostic: Diagnostic
  }

  package func compile(_ word: Word) throws(ParseError) -> Template {
    var parts: [Template.Part] = []
    var literal: [UInt8] = []
    var rest = Array(word.text.utf8)[...]
    while let byte = rest.popFirst() {
      guard byte == UInt8(ascii: "$") else {
        literal.append(byte)
        continue
      }
      if !literal.isEmpty { parts.append(.literal(literal)) }
      literal = []
      parts.append(.variable(try variable(&rest, in: word)))
    }
    if !literal.isEmpty { parts.append(.literal(literal)) }
    return Template(parts)
  }

  private func variable(_ rest: inout ArraySlice<UInt8>, in word: Word) throws(ParseError) -> Variable {
    if let digit = rest.first, digit >= UInt8(ascii: "1"), digit <= UInt8(ascii: "9") {
      rest.removeFirst()
      return .capture(Int(digit) - 48)
    }
    let isBraced = rest.first == UInt8(ascii: "{")
    if isBraced { rest.removeFirst() }
    let name = String(decoding: rest.prefix(while: Self.isNameByte), as: UTF8.self)
    rest.removeFirst(name.utf8.count)
    guard !name.isEmpty else {
      throw fault(
        word, "invalid variable name in \"\(word.text)\"",
        hint: "write a variable's name after \"$\"; a literal \"$\" is not possible")
    }
    if isBraced {
      guard rest.popFirst() == UInt8(ascii: "}") else {
        throw fault(word, "the closing bracket in \"\(name)\" variable is missing", hint: "write ${\(name)}")
      }
    }
    return try resolve(name, in: word)
  }

  private func resolve(_ name: String, in word: Word) throws(ParseError) -> Variable {
    if let variable = defined.variable(named: name.lowercased()) { return variable }
    switch defined.features.variables.look(up: name, of: defined.kind) {
    case .known(let variable): return variable
    case .planned: throw fault(word, "`$\(name)` is nginx's, but not supported yet", hint: nil)
    case .unknown:
      if let module = ForeignModule.ofVariable(name) {
        throw fault(
          word, "`$\(name)` is of \(module.name), not of nginx, and not supported here: \(module.instead)", hint: nil)
      }
      if defined.kind == .stream, case .known = defined.features.variables.look(up: name) {
        throw fault(
          word, "unknown \"\(name)\" variable", hint: "\"stream\" hasn't it: its connections carry no requests")
      }
      let known = defined.features.variables.all(of: defined.kind)
      let nearest = Spelling.nearest(to: name.lowercased(), among: known + defined.slots.keys.sorted())
      throw fault(word, "unknown \"\(name)\" variable", hint: nearest.map { "did you mean \"$\($0)\"?" })
    }
  }

  package static func isNameByte(_ byte: UInt8) -> Bool {
    (byte | 0x20) &- 97 < 26 || byte &- 48 < 10 || byte == UInt8(ascii: "_")
  }

  private func fault(_ word: Word, _ message: Wording, hint: Wording?) -> ParseError {
    ParseError(diagnostic: Diagnostic(.error, at: word.location, message, hint: hint))
  }
}

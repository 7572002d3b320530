import Language

/// headers-more's fields of responses, as nginx's own directives have them.
///
/// A level has the fields of the levels around it and its own, whereas `add_header` and `proxy_hide_header` are replaced
/// by a level with lines of its own: such a level gets all that are in effect there.
extension NginxTree {
  private struct Fields {
    /// In the order in which they were named; a value of nil removes the field.
    var fields: [(name: String, value: String?)] = []
    /// The lines of nginx's own that are in effect, by their directive.
    var lines: [String: [String]] = [:]

    mutating func set(_ name: String, _ value: String?) {
      fields.removeAll { $0.name.lowercased() == name.lowercased() }
      fields.append((name, value))
    }
  }

  mutating func translateFields() {
    let passes = ["proxy", "fastcgi", "uwsgi", "scgi", "grpc"].filter { module in
      nodes.contains { $0.directive.name == "\(module)_pass" }
    }
    for root in roots { translateFields(in: root, Fields(), hiding: passes.map { "\($0)_hide_header" }) }
  }

  private mutating func translateFields(in block: Int, _ around: Fields, hiding: [String]) {
    guard nodes[block].directive.block != nil else { return }
    var fields = around
    var isChanged = false
    for child in nodes[block].children {
      guard let own = Self.fields(of: nodes[child].directive) else { continue }
      for (name, value) in own { fields.set(name, value) }
      isChanged = true
      nodes[child].state = .gone
      let note = ConversionNote(
        .changed, nodes[child].line,
        "headers-more isn't part of nginx; add_header with \"always\" and \(hiding.first ?? "proxy_hide_header") do it")
      changes.append(note)
      nodes[child].comments += note.comment
    }
    for directive in ["add_header"] + hiding {
      let own = nodes[block].children.filter { nodes[$0].directive.name == directive }
      guard isChanged || !own.isEmpty else { continue }
      let lines: [String]
      if directive == "add_header" {
        lines = fields.fields.compactMap { name, value in
          value.map { Self.statement(directive, [name, $0, "always"]) }
        }
      } else {
        lines = fields.fields.map { Self.statement(directive, [$0.name]) }
      }
      if !fields.fields.isEmpty {
        nodes[block].additions += (own.isEmpty ? around.lines[directive] ?? [] : []) + lines
      }
      if !own.isEmpty {
        fields.lines[directive] = own.map {
          let line = nodes[$0].directive
          return Self.statement(directive, line.arguments.map(\.text))
        }
      }
    }
    for child in nodes[block].children { translateFields(in: child, fields, hiding: hiding) }
  }

  /// What a line sets or removes; nil: it is another line, or one with options or patterns, which nothing here can replace.
  private static func fields(of line: Directive) -> [(String, String?)]? {
    let words = line.arguments.map(\.text)
    guard line.block == nil, !words.isEmpty, !words.contains(where: { $0.hasPrefix("-") || $0.contains("*") }) else {
      return nil
    }
    switch line.name {
    case "more_clear_headers": return words.map { (name(in: $0).name, nil) }
    case "more_set_headers": return words.map { name(in: $0) }
    default: return nil
    }
  }

  private static func statement(_ name: String, _ words: [String]) -> String {
    ([name] + words).map(written).joined(separator: " ") + ";"
  }

  private static func name(in text: String) -> (name: String, value: String?) {
    let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
    let value = parts.count > 1 ? OldText.trimmed(parts[1]) : ""
    return (OldText.trimmed(parts.first ?? ""), value.isEmpty ? nil : value)
  }
}

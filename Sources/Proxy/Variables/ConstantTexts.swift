import Language
import Observability

/// The texts that `set` gives variables in a server block, where each of its lines gives the same one.
///
/// Why: a variable for a folder that several lines name is as fixed as the folder itself, whatever a request is.
private struct ConstantTexts {
  private struct Line {
    let value: Template
    let place: Place
  }

  /// Where a line stands, by the order in which a request runs the lines.
  private enum Place {
    case server(Int)
    /// In the level that asks.
    case level(Int)
    /// In a block that a request may pass by.
    case elsewhere

    /// Whether a request has run this line whenever it comes to the other one; nil: to the level's content.
    func isBefore(_ other: Place?) -> Bool {
      switch (self, other) {
      case (.server, nil), (.level, nil), (.server, .level?), (.server, .elsewhere?): true
      case (.server(let one), .server(let other)?), (.level(let one), .level(let other)?): one < other
      case (.level, .server?), (.level, .elsewhere?), (.elsewhere, _): false
      }
    }
  }

  private var lines: [Int: [Line]] = [:]
  /// The variables that only `set` gives a value.
  private let setNames: [Int: String]
  private static let maxDepth = 8

  init(_ server: Scope, _ level: Scope, _ builder: SettingsBuilder) {
    setNames = builder.variables.setNames
    let own = level === server ? [] : level.own("set").map(\.location)
    note(server.directives, own, isOfServer: true, builder.variables)
  }

  private mutating func note(
    _ directives: [Directive], _ own: [SourceLocation], isOfServer: Bool, _ defined: DefinedVariables
  ) {
    for (index, line) in directives.enumerated() {
      if line.name == "set", let slot = defined.slots[line.text(0).dropFirst().lowercased()] {
        let value = line.arguments.dropFirst().first.flatMap { try? TemplateCompiler(defined: defined).compile($0) }
        let place: Place = isOfServer ? .server(index) : own.contains(line.location) ? .level(index) : .elsewhere
        lines[slot, default: []].append(Line(value: value ?? Template([]), place: place))
      } else if let block = line.block {
        note(block, own, isOfServer: false, defined)
      }
    }
  }

  /// The text with the values of constant variables in their places.
  func resolved(_ text: Template) -> Template { resolved(text, at: nil, depth: 0) }

  private func resolved(_ text: Template, at place: Place?, depth: Int) -> Template {
    var parts: [Template.Part] = []
    for part in text.parts {
      var part = part
      if case .variable(.slot(let slot)) = part, let constant = constant(slot, at: place, depth: depth) {
        part = .literal(constant)
      }
      if case .literal(let bytes) = part, case .literal(let before)? = parts.last {
        parts[parts.count - 1] = .literal(before + bytes)
      } else {
        parts.append(part)
      }
    }
    return Template(parts)
  }

  /// nil: another value, or none, is possible.
  private func constant(_ slot: Int, at place: Place?, depth: Int) -> [UInt8]? {
    guard depth < Self.maxDepth, setNames[slot] != nil, let lines = lines[slot],
      lines.contains(where: { $0.place.isBefore(place) })
    else { return nil }
    var values: Set<[UInt8]> = []
    for line in lines {
      guard let value = resolved(line.value, at: line.place, depth: depth + 1).constant else { return nil }
      values.insert(value)
    }
    return values.count == 1 ? values.first : nil
  }
}

extension SettingsBuilder {
  /// A text of a level with the values of those variables in their places that `set` always gives the same value.
  func resolvingConstants(_ text: Template, at level: Level) -> Template {
    guard let server = level.server, text.uses(where: { if case .slot = $0 { true } else { false } }) else {
      return text
    }
    return ConstantTexts(server, level.scope, self).resolved(text)
  }
}

import Language
import Observability

/// The texts that variables can have in a server block by what its lines say: those of `set`, and the values of tables.
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
  private let computed: [Int: ComputedVariable]
  /// The variables that only `set` gives a value.
  private let setNames: [Int: String]
  private static let maxDepth = 8
  /// A longer table isn't looked through.
  private static let mostValues = 1000

  init(_ server: Scope, _ level: Scope, _ builder: SettingsBuilder) {
    setNames = builder.variables.setNames
    computed = builder.computed
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
      if case .variable(.slot(let slot)) = part, let values = values(slot, at: place, depth: depth),
        values.count == 1, let only = values.first
      {
        part = .literal(only)
      }
      if case .literal(let bytes) = part, case .literal(let before)? = parts.last {
        parts[parts.count - 1] = .literal(before + bytes)
      } else {
        parts.append(part)
      }
    }
    return Template(parts)
  }

  /// Each value that a variable can have; nil: a request may give it another one, or none.
  func values(_ slot: Int) -> Set<[UInt8]>? { values(slot, at: nil, depth: 0) }

  private func values(_ slot: Int, at place: Place?, depth: Int) -> Set<[UInt8]>? {
    guard depth < Self.maxDepth else { return nil }
    if let lines = lines[slot] {
      guard setNames[slot] != nil, lines.contains(where: { $0.place.isBefore(place) }) else { return nil }
      return constants(lines.map { resolved($0.value, at: $0.place, depth: depth + 1) })
    }
    guard let values = computed[slot]?.settings.possibleValues, values.count <= Self.mostValues else { return nil }
    return constants(values)
  }

  private func constants(_ texts: [Template]) -> Set<[UInt8]>? {
    let constants = texts.compactMap(\.constant)
    return constants.count == texts.count ? Set(constants) : nil
  }
}

extension SettingsBuilder {
  /// A text of a level with the values of those variables in their places that always have the same value.
  func resolvingConstants(_ text: Template, at level: Level) -> Template {
    constants(for: text, at: level)?.resolved(text) ?? text
  }

  /// The texts that the path of a file or folder can be: several where it begins with a variable that has one of several
  /// constant values.
  package func possiblePaths(_ text: Template, at level: Level) -> [Template] {
    guard let constants = constants(for: text, at: level) else { return [text] }
    let resolved = constants.resolved(text)
    guard case .variable(.slot(let slot))? = resolved.parts.first, let values = constants.values(slot) else {
      return [resolved]
    }
    return values.sorted { $0.lexicographicallyPrecedes($1) }.map { value in
      guard case .literal(let next)? = resolved.parts.dropFirst().first else {
        return Template([.literal(value)] + resolved.parts.dropFirst())
      }
      return Template([.literal(value + next)] + resolved.parts.dropFirst(2))
    }
  }

  /// The path of a file or folder, which begins with a folder that no request has a say in. It is the one that the constant
  /// values of a variable have in common; nil: a request may choose any, or they have none in common.
  package func pathBelowFolder(_ text: Template, at level: Level) -> Template? {
    let resolved = resolvingConstants(text, at: level)
    guard case .variable(let first)? = resolved.parts.first else { return resolved }
    guard case .slot(let slot) = first, let values = constants(for: text, at: level)?.values(slot),
      var folder = values.first
    else { return nil }
    for value in values { folder = Array(zip(folder, value).prefix { $0 == $1 }.map(\.0)) }
    folder = folder.lastIndex(of: UInt8(ascii: "/")).map { Array(folder[...$0]) } ?? []
    guard folder.contains(where: { $0 != UInt8(ascii: "/") }) else { return nil }
    return Template([.literal(folder), .variable(.belowFolder(folder, slot: slot))] + resolved.parts.dropFirst())
  }

  private func constants(for text: Template, at level: Level) -> ConstantTexts? {
    guard let server = level.server, text.uses(where: { if case .slot = $0 { true } else { false } }) else {
      return nil
    }
    return ConstantTexts(server, level.scope, self)
  }
}

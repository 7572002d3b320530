package import Language
import Observability
package import TLS
package import Patterns

/// What the lines of a feature say of a variable that is computed when a template first asks for it: `map`, `geo`.
package protocol ComputedSettings: Sendable {
  /// The text that decides on the value; nil: the client's address does.
  var decidingText: Template? { get }
  /// All values that the configuration says; nil if they come from elsewhere.
  var possibleValues: [Template]? { get }
  /// Those of the values that a regular expression chooses. It fills the captures.
  var patterns: [(pattern: RegularExpression, captures: [NamedCapture], value: Template)] { get }
  /// The value needs a field of a request, beside the texts with variables.
  var readsForwardedAddress: Bool { get }
  /// Text that is equal for equal values.
  func fingerprint(_ names: [Int: String]) -> String
  /// The value in a handshake; nil if a variable that it needs has none, or a regular expression gives up.
  func value(in tables: HandshakeTables, _ known: (HandshakeVariable) -> [UInt8]?) -> [UInt8]?
}

extension ComputedSettings {
  package var patterns: [(pattern: RegularExpression, captures: [NamedCapture], value: Template)] { [] }
  package var readsForwardedAddress: Bool { false }
  package func value(in tables: HandshakeTables, _ known: (HandshakeVariable) -> [UInt8]?) -> [UInt8]? { nil }

  /// Values without variables, as `possibleValues` has them.
  package static func constants(_ values: [[UInt8]]) -> [Template] {
    values.map { Template($0.isEmpty ? [] : [.literal($0)]) }
  }
}

/// A variable of `map`, `geo` or `split_clients`. It is computed when a template first asks for it.
public struct ComputedVariable: Sendable {
  package let settings: any ComputedSettings
  /// Whether each use computes it anew (`volatile`).
  package let isVolatile: Bool

  package init(_ settings: any ComputedSettings, isVolatile: Bool = false) {
    self.settings = settings
    self.isVolatile = isVolatile
  }

  /// Text that is equal for equal variables.
  package func fingerprint(_ names: [Int: String]) -> String {
    settings.fingerprint(names) + (isVolatile ? " volatile" : "")
  }

  /// The texts with variables that its value needs.
  package var templates: [Template] { [settings.decidingText].compactMap { $0 } + (settings.possibleValues ?? []) }

  /// The slots that its value needs.
  fileprivate var slots: [Int] {
    templates.flatMap(\.parts).compactMap { part in
      if case .variable(.slot(let slot)) = part { slot } else { nil }
    }
  }
}

extension SettingsBuilder {
  /// Builds the variables that the lines of a directive define: the last word before a block is the name. As in nginx, the
  /// last definition of a name in the file counts, whatever its directive is.
  package mutating func addTables(
    _ http: Scope, _ name: String, _ make: (Directive, inout SettingsBuilder) -> ComputedVariable
  ) {
    for (index, line) in http.directives.enumerated() where line.name == name {
      guard let word = line.arguments.last, let slot = variables.slots[word.text.dropFirst().lowercased()] else {
        continue
      }
      let variable = make(line, &self)
      if let other = tableOrder[slot], other > index { continue }
      computed[slot] = variable
      tables[slot] = line
      tableOrder[slot] = index
    }
  }

  /// Adds the variable that a word of a line names. As with tables, the last definition in the file counts.
  package mutating func addVariable(_ line: Directive, named index: Int, at http: Scope, _ variable: ComputedVariable) {
    let place = http.directives.firstIndex { $0.location == line.location } ?? 0
    guard let slot = variables.slots[line.text(index).dropFirst().lowercased()] else { return }
    if let other = tableOrder[slot], other > place { return }
    computed[slot] = variable
    // The name stands last, where messages about variables look for it.
    var table = line
    table.arguments = Array(line.arguments.prefix(index + 1))
    tables[slot] = table
    tableOrder[slot] = place
  }

  /// Refuses a variable that needs itself, and chains so long that computing them would need much stack.
  mutating func refuseCircles() {
    var depths: [Int: Int] = [:]
    // The slots of the walk's stack, to be found at once.
    var path: Set<Int> = []
    let (computed, places) = (computed, tables.compactMapValues(\.arguments.last))
    func name(_ slot: Int) -> String { places[slot]?.text ?? "" }
    for root in tables.keys.sorted() {
      // A walk without recursion: a configuration may hold a very long chain.
      var stack: [(slot: Int, rest: [Int])] = []
      func needs(_ slot: Int) -> [Int] { computed[slot]?.slots.filter { computed[$0] != nil } ?? [] }
      func enter(_ slot: Int) {
        path.insert(slot)
        stack.append((slot, needs(slot)))
      }
      if depths[root] == nil { enter(root) }
      while let top = stack.last {
        guard let next = top.rest.last else {
          depths[top.slot] = 1 + (needs(top.slot).compactMap { depths[$0] }.max() ?? 0)
          path.remove(top.slot)
          stack.removeLast()
          continue
        }
        stack[stack.count - 1].rest.removeLast()
        if path.contains(next) {
          hasCircles = true
          let circle = (stack.map(\.slot).drop { $0 != next } + [next]).map(name).joined(separator: " → ")
          error(
            places[next]?.location, "cycle while evaluating variable \"\(name(next).dropFirst())\"",
            hint: "the variables need each other: \(circle)")
          depths[top.slot] = 1
        } else if depths[next] == nil {
          enter(next)
        }
      }
      if let depth = depths[root], depth > 100 {
        hasCircles = true
        error(
          places[root]?.location, "the \"\(name(root))\" variable needs a chain of more than 100 variables",
          hint: "nginx evaluates at most 100")
      }
    }
  }
}

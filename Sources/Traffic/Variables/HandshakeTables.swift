import Bytes
package import Patterns
package import TLS

/// The variables of `map`, `geo` and `split_clients` as a handshake computes them, which has no request.
package struct HandshakeTables: Sendable {
  private let tables: [Int: ComputedVariable]
  /// The value of `$server_name`.
  private let serverName: [UInt8]

  package init(_ tables: [Int: ComputedVariable], serverName: String) {
    self.tables = tables
    self.serverName = Array(serverName.utf8)
  }

  /// What of a variable's definition a handshake doesn't know; nil if it knows all. `slot`: of that variable.
  package func hindrance(to slot: Int) -> Hindrance? {
    var seen: Set<Int> = []
    return hindrance(to: slot, &seen)
  }

  package enum Hindrance: Equatable {
    case variable(Variable)
    /// `proxy` lines of a `geo` look at a field of a request.
    case forwardedAddress
  }

  private func hindrance(to slot: Int, _ seen: inout Set<Int>) -> Hindrance? {
    guard let table = tables[slot] else { return .variable(.slot(slot)) }
    guard seen.insert(slot).inserted else { return nil }
    let settings = table.settings
    if settings.possibleValues == nil { return .variable(.slot(slot)) }
    if settings.readsForwardedAddress { return .forwardedAddress }
    let named = Set(settings.patterns.flatMap { $0.captures.map(\.slot) })
    for template in table.templates {
      if let found = hindrance(in: template, captured: named, &seen) { return found }
    }
    return nil
  }

  private func hindrance(in template: Template, captured: Set<Int>, _ seen: inout Set<Int>) -> Hindrance? {
    for case .variable(let variable) in template.parts {
      switch variable {
      case .feature(ServerNames.variable), .capture: continue
      case .simple(let simple) where HandshakeVariable(rawValue: simple.rawValue) != nil: continue
      case .slot(let slot) where captured.contains(slot): continue
      case .slot(let slot): if let found = hindrance(to: slot, &seen) { return found }
      default: return .variable(variable)
      }
    }
    return nil
  }

  /// The variables whose definitions a variable's value needs, with itself.
  package func slots(of slot: Int) -> Set<Int> {
    var found: Set<Int> = []
    var rest = [slot]
    while let next = rest.popLast() {
      guard let table = tables[next], found.insert(next).inserted else { continue }
      for case .variable(.slot(let inner)) in table.templates.flatMap(\.parts) { rest.append(inner) }
    }
    return found
  }

  /// The texts with which values of a variable begin, up to their first variable of the handshake. `following`: the text
  /// that follows the variable. Only for tables that need no circle and no long chain of others.
  package func beginnings(of slot: Int, following: String) -> Set<String> {
    // Of an empty value, which names no file, there is none.
    (tables[slot]?.settings.possibleValues ?? []).reduce(into: []) {
      $0.formUnion(beginnings(of: $1, following: following))
    }
  }

  private func beginnings(of template: Template, following: String) -> Set<String> {
    let following = template.parts.count == 1 ? following : ""
    switch template.parts.first {
    case nil: return []
    case .literal(let text)?: return [String(decoding: text, as: UTF8.self) + following]
    case .variable(.slot(let slot))? where tables[slot] != nil: return beginnings(of: slot, following: following)
    case .variable?: return [""]
    }
  }

  // MARK: Values

  /// The value of a variable; nil if one that it needs has none, or a regular expression gives up.
  package func value(of slot: Int, _ known: (HandshakeVariable) -> [UInt8]?) -> [UInt8]? {
    tables[slot]?.settings.value(in: self, known)
  }

  /// What a regular expression of a `map` has found.
  package struct Match {
    package var captures = Captures()
    package var subject: [UInt8] = []
    package var named: [NamedCapture] = []

    package init(captures: Captures = Captures(), subject: [UInt8] = [], named: [NamedCapture] = []) {
      self.captures = captures
      self.subject = subject
      self.named = named
    }

    /// nil: no group of the name is in the expression.
    package func group(of slot: Int) -> Int? { named.first { $0.slot == slot }?.group }
  }

  /// The value of a text; nil as for a variable.
  package func value(
    of template: Template, _ known: (HandshakeVariable) -> [UInt8]?, after match: Match = Match()
  ) -> [UInt8]? {
    var output: [UInt8] = []
    for part in template.parts {
      switch part {
      case .literal(let text): output += text
      case .variable(let variable):
        guard let value = value(of: variable, match, known) else { return nil }
        output += value
      }
    }
    return output
  }

  private func value(
    of variable: Variable, _ match: Match, _ known: (HandshakeVariable) -> [UInt8]?
  ) -> [UInt8]? {
    switch variable {
    case .feature(ServerNames.variable): return serverName
    case .simple(let simple): return HandshakeVariable(rawValue: simple.rawValue).flatMap { known($0) }
    case .capture(let group): return captured(group, match)
    case .slot(let slot): return match.group(of: slot).map { captured($0, match) } ?? value(of: slot, known)
    default: return nil
    }
  }

  /// Empty for a group that took no part. nil for one with a slash: the client's part of a name chooses no folder.
  private func captured(_ group: Int, _ match: Match) -> [UInt8]? {
    guard let range = match.captures[group] else { return [] }
    let text = match.subject.withUnsafeBytes { Array($0[range]) }
    return text.contains(0x2F) ? nil : text
  }
}

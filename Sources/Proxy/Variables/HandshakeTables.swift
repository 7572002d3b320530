import Bytes
import Patterns
package import TLS
import Transport

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
    switch table.source {
    case .map(let map):
      let named = Set(map.patterns.flatMap { $0.captures.map(\.slot) })
      for template in [map.subject] + map.values {
        if let found = hindrance(in: template, captured: named, &seen) { return found }
      }
      return nil
    case .geo(let geo):
      if !geo.proxies.isEmpty { return .forwardedAddress }
      return geo.subject.flatMap { hindrance(in: $0, captured: [], &seen) }
    case .split(let split): return hindrance(in: split.subject, captured: [], &seen)
    case .keyval: return .variable(.slot(slot))
    }
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
    guard let table = tables[slot] else { return [] }
    let texts: [[UInt8]]
    switch table.source {
    case .map(let map):
      return map.values.reduce(into: []) { $0.formUnion(beginnings(of: $1, following: following)) }
    case .geo(let geo): texts = geo.values
    case .split(let split): texts = split.parts.map(\.value)
    // Known to no configuration.
    case .keyval: texts = []
    }
    // An empty value names no file.
    return Set(texts.filter { !$0.isEmpty }.map { String(decoding: $0, as: UTF8.self) + following })
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
    guard let table = tables[slot] else { return nil }
    switch table.source {
    case .map(let map): return value(of: map, known)
    case .geo(let geo):
      var text = known(.remote_addr)
      if let subject = geo.subject { text = value(of: subject, Match(), known) }
      return text.map { geo.value(of: SocketAddress(literal: String(decoding: $0, as: UTF8.self), port: 0)) }
    case .split(let split): return value(of: split.subject, Match(), known).map { split.value(of: $0) }
    case .keyval: return nil
    }
  }

  /// What a regular expression of a `map` has found.
  private struct Match {
    var captures = Captures()
    var subject: [UInt8] = []
    var named: [NamedCapture] = []

    /// nil: no group of the name is in the expression.
    func group(of slot: Int) -> Int? { named.first { $0.slot == slot }?.group }
  }

  private func value(of map: MapSettings, _ known: (HandshakeVariable) -> [UInt8]?) -> [UInt8]? {
    guard var subject = value(of: map.subject, Match(), known) else { return nil }
    if map.takesHostNames, subject.last == 0x2E { subject.removeLast() }
    let names = NameTable(exact: map.exact, suffixes: map.suffixes, prefixes: map.prefixes)
    if let found = names.find(subject.map(ASCII.lower)) { return value(of: found, Match(), known) }
    guard !subject.isEmpty, !map.patterns.isEmpty else { return value(of: map.standard, Match(), known) }
    let scratch = RegularExpression.Scratch()
    for entry in map.patterns {
      var captures = Captures()
      switch subject.withUnsafeBytes({ entry.pattern.match($0, scratch: scratch, into: &captures) }) {
      case .match:
        return value(of: entry.value, Match(captures: captures, subject: subject, named: entry.captures), known)
      case .noMatch: continue
      case .limit: return nil
      }
    }
    return value(of: map.standard, Match(), known)
  }

  private func value(
    of template: Template, _ match: Match, _ known: (HandshakeVariable) -> [UInt8]?
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

/// Values by host name, as nginx's hash with wildcards (`ngx_hash_find_combined`): the exact name, then the longest
/// leading wildcard, then the longest trailing wildcard. Names are lower-case.
package struct NameTable<Value> {
  package var exact: [[UInt8]: Value] = [:]
  /// By suffix with its dot, as `.example.com`.
  package var suffixes: [[UInt8]: Value] = [:]
  /// By prefix with its dot, as `www.example.`.
  package var prefixes: [[UInt8]: Value] = [:]

  package init(exact: [[UInt8]: Value] = [:], suffixes: [[UInt8]: Value] = [:], prefixes: [[UInt8]: Value] = [:]) {
    self.exact = exact
    self.suffixes = suffixes
    self.prefixes = prefixes
  }

  package func find(_ name: [UInt8]) -> Value? {
    if let value = exact[name] { return value }
    if !suffixes.isEmpty {
      for index in name.indices where name[index] == 0x2E {
        if let value = suffixes[Array(name[index...])] { return value }
      }
    }
    if !prefixes.isEmpty {
      for index in name.indices.reversed() where name[index] == 0x2E {
        if let value = prefixes[Array(name[...index])] { return value }
      }
    }
    return nil
  }
}

extension NameTable: Sendable where Value: Sendable {}

/// Collects values by host name, as nginx's `ngx_hash_add_key`.
package struct HostNames<Value> {
  package enum Fault: String {
    case invalid = "invalid hostname or wildcard"
    case conflicting = "conflicting parameter"
  }

  package private(set) var table = NameTable<Value>()

  package init() {}

  package var isEmpty: Bool { table.exact.isEmpty && table.suffixes.isEmpty && table.prefixes.isEmpty }

  /// Adds a lower-case name. `areWild`: `*.x`, `.x` and `x.*` are wildcards.
  package mutating func add(_ name: String, _ value: Value, areWild: Bool) -> Fault? {
    func claim(_ values: inout [[UInt8]: Value], _ key: some StringProtocol) -> Fault? {
      let key = Array(key.utf8)
      guard values[key] == nil else { return .conflicting }
      values[key] = .some(value)
      return nil
    }
    guard areWild else { return claim(&table.exact, name) }
    if name.contains("..") || name.utf8.count(where: { $0 == 0x2A }) > 1 { return .invalid }
    if name.hasPrefix("."), name.utf8.count > 1 {
      return claim(&table.suffixes, name) ?? claim(&table.exact, name.dropFirst())
    }
    if name.hasPrefix("*."), name.utf8.count > 2 { return claim(&table.suffixes, name.dropFirst()) }
    if name.hasSuffix(".*"), name.utf8.count > 2 { return claim(&table.prefixes, name.dropLast()) }
    return name.contains("*") ? .invalid : claim(&table.exact, name)
  }
}

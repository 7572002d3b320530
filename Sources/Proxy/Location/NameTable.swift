/// Values by host name, as nginx's hash with wildcards (`ngx_hash_find_combined`): the exact name, then the longest
/// leading wildcard, then the longest trailing wildcard. Names are lower-case.
struct NameTable<Value> {
  var exact: [[UInt8]: Value]
  /// By suffix with its dot, as `.example.com`.
  var suffixes: [[UInt8]: Value]
  /// By prefix with its dot, as `www.example.`.
  var prefixes: [[UInt8]: Value]

  func find(_ name: [UInt8]) -> Value? {
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

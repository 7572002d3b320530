import Observability
import Transport
import Language

extension SettingsBuilder {
  /// Builds `allow` and `deny`, in the order of the file.
  mutating func accessRules(_ scope: Scope) -> [AccessRule] {
    scope.list("allow", "deny").compactMap { line in
      source(line).map { AccessRule(allows: line.name == "allow", source: $0, location: line.location) }
    }
  }

  private mutating func source(_ line: Directive) -> AccessRule.Source? {
    let text = line.text(0)
    if text == "all" { return .all }
    if text == "unix:" { return .unix }
    guard let (source, hasHostBits) = Self.network(text) else {
      error(line.place(0), "invalid parameter \"\(text)\"", hint: "an IP address, ADDRESS/BITS, unix: or all; no names")
      return nil
    }
    if hasHostBits {
      warning(line.place(0), "low address bits of \"\(text)\" are meaningless", hint: "write the network's address")
    }
    return source
  }
}

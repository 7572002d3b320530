import Observability
import Language

/// On each address, a name belongs to one server; as in nginx, the first server keeps it.
enum ServerNameRule {
  static func conflicts(_ listeners: [ListenerSettings], _ servers: [ServerSettings]) -> [Diagnostic] {
    listeners.flatMap { listener in
      var firsts: [String: Int] = [:]
      var found: [Diagnostic] = []
      for index in listener.servers where index < servers.count {
        for name in servers[index].names.compactMap(\.spelling) {
          if let first = firsts[name] {
            found.append(
              Diagnostic(
                .warning, at: servers[index].location,
                "conflicting server name \"\(name)\" on \(listener.address), ignored",
                hint: first == index
                  ? "the name is there twice" : "the server at \(servers[first].location) has the name"))
          } else {
            firsts[name] = index
          }
        }
      }
      return found
    }
  }
}

extension ServerName {
  /// A key that is equal for names that match the same hosts; nil for regular expressions, which are tried in order.
  fileprivate var spelling: String? {
    switch self {
    case .exact(let name): name
    case .leadingWildcard(let suffix, let matchesBare): matchesBare ? suffix : "*\(suffix)"
    case .trailingWildcard(let prefix): "\(prefix)*"
    case .regex: nil
    }
  }
}

import DNS
import Observability
import Upstream
import Language

extension SettingsBuilder {
  /// Builds `resolve` and `service` of a server; nil without them, or for an address, which needs no DNS.
  mutating func followedName(_ line: Directive, _ address: UpstreamAddress) -> FollowedName? {
    let words = line.arguments.dropFirst()
    let service = words.last { $0.text.hasPrefix("service=") }
    guard words.contains(where: { $0.text == "resolve" }) else {
      if let service {
        error(service.location, "\"service\" upstream requires \"resolve\" parameter", hint: "write \"resolve\", too")
      }
      return nil
    }
    guard case .name(let host, let port) = address else {
      if let service { error(service.location, "\"service\" with an address", hint: "only a name has services") }
      return nil
    }
    guard let name = DNSName(host) else {
      error(line.place(0), "\"\(host)\" can't be a name in DNS", hint: "letters, digits, \"-\", \"_\" and \".\"")
      return nil
    }
    guard let service else { return FollowedName(name: name, port: port, service: nil) }
    if (try? Authority(parsing: line.text(0))) != .host(host, port: nil) {
      error(line.place(0), "service upstream \"\(line.text(0))\" may not have port", hint: "SRV records have the ports")
      return nil
    }
    // nginx: a name without a dot is that of a service over TCP.
    let text = String(service.text.dropFirst("service=".count))
    guard !text.isEmpty, let full = name.prefixed(text.contains(".") ? text : "_\(text)._tcp") else {
      error(service.location, "invalid service \"\(text)\"", hint: "such as service=http, or service=_http._tcp")
      return nil
    }
    return FollowedName(name: name, port: port, service: full)
  }

  /// How the group's names are asked for. `scope`: the group's, inside http.
  mutating func followNames(of group: inout UpstreamGroupSettings, _ scope: Scope) {
    group.nameResolution = nameResolution(scope)
  }

  /// Refuses what a group with `resolve` lacks, in nginx's words.
  mutating func checkFollowed(_ group: UpstreamGroupSettings) {
    guard let server = group.servers.first(where: { $0.followed != nil }) else { return }
    if group.zone == nil {
      error(
        server.location, "resolving names at run time requires upstream \"\(group.name)\" to be in shared memory",
        hint: "zone \(group.name) 64k;")
    }
    if group.nameResolution == nil {
      error(
        server.location, "no resolver defined to resolve names at run time in upstream \"\(group.name)\"",
        hint: "resolver ADDRESS; in the upstream block, or in http")
    }
  }
}

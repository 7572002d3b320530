import DNS
import Forward
import Language
import Observability
import Traffic
import Upstream

extension FollowedName {
  /// Builds `resolve` and `service` of a server; nil without them, or for an address, which needs no DNS.
  static func read(_ line: Directive, _ address: UpstreamAddress, _ builder: inout SettingsBuilder) -> Self? {
    let words = line.arguments.dropFirst()
    let service = words.last { $0.text.hasPrefix("service=") }
    guard words.contains(where: { $0.text == "resolve" }) else {
      if let service {
        builder.error(
          service.location, "\"service\" upstream requires \"resolve\" parameter", hint: "write \"resolve\", too")
      }
      return nil
    }
    guard case .name(let host, let port) = address else {
      if let service {
        builder.error(service.location, "\"service\" with an address", hint: "only a name has services")
      }
      return nil
    }
    guard let name = DNSName(host) else {
      builder.error(
        line.place(0), "\"\(host)\" can't be a name in DNS", hint: "letters, digits, \"-\", \"_\" and \".\"")
      return nil
    }
    guard let service else { return Self(name: name, port: port, service: nil) }
    if (try? Authority(parsing: line.text(0))) != .host(host, port: nil) {
      builder.error(
        line.place(0), "service upstream \"\(line.text(0))\" may not have port", hint: "SRV records have the ports")
      return nil
    }
    // nginx: a name without a dot is that of a service over TCP.
    let text = String(service.text.dropFirst("service=".count))
    guard !text.isEmpty, let full = name.prefixed(text.contains(".") ? text : "_\(text)._tcp") else {
      builder.error(
        service.location, "invalid service \"\(text)\"", hint: "such as service=http, or service=_http._tcp")
      return nil
    }
    return Self(name: name, port: port, service: full)
  }
}

extension UpstreamGroupSettings {
  /// Refuses what a group with `resolve` lacks, in nginx's words.
  func checkFollowed(_ builder: inout SettingsBuilder) {
    guard let server = servers.first(where: { $0.followed != nil }) else { return }
    if zone == nil {
      builder.error(
        server.location, "resolving names at run time requires upstream \"\(name)\" to be in shared memory",
        hint: "zone \(name) 64k;")
    }
    if nameResolution == nil {
      builder.error(
        server.location, "no resolver defined to resolve names at run time in upstream \"\(name)\"",
        hint: "resolver ADDRESS; in the upstream block, or in http")
    }
  }
}

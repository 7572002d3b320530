import Crypto
import Forward
import Language
import Observability
import Traffic
import Transport
import Upstream

/// proxy_via, which nginx does not have: upstreams that only a proxy reaches. sallyport asks it for a tunnel (CONNECT), and
/// judges the upstream inside as it would without one.
enum ProxyVia: PassFeature {
  static let chapter = Chapter.proxy
  static let kinds: Set<TrafficKind> = [.http, .stream]

  private static let row = Row<PassSettings>.line(
    "proxy_via", [.everyHTTP, .everyStream], .words(1...2, "http://HOST:PORT [user_file=FILE] | off"), initial: "off",
    "The proxy of HTTP through which connections to the upstream go, by CONNECT. It gets the upstream's name as the"
      + " configuration has it, and resolves it. The TLS of the upstream is inside the tunnel: pins, CAs and names are"
      + " those of the upstream. The file has one line `NAME:PASSWORD`, which the proxy gets by Basic, in clear.",
    example: "proxy_via http://proxy.internal:3128 user_file=proxy-user;", trust: .told
  ) { $0.origin.tunnel = tunnel($1, &$2) }.option("--via")

  static let directives = [row.entry]

  private static func tunnel(_ line: Directive, _ builder: inout SettingsBuilder) -> TunnelSettings? {
    if line.text(0).lowercased() == "off" {
      if line.arguments.count > 1 { builder.refuse(line, 1, hint: "off stands alone") }
      return nil
    }
    guard let proxy = address(line, &builder) else { return nil }
    guard line.arguments.count > 1 else { return TunnelSettings(proxy, user: nil) }
    let prefix = "user_file="
    var word = line.arguments[1]
    guard word.text.hasPrefix(prefix), word.text.count > prefix.count else {
      builder.refuse(line, 1, hint: "user_file=FILE")
      return nil
    }
    word.text.removeFirst(prefix.count)
    return builder.reference(line, word, isKey: false).map { TunnelSettings(proxy, user: $0) }
  }

  private static func address(_ line: Directive, _ builder: inout SettingsBuilder) -> UpstreamAddress? {
    let text = line.text(0)
    if text.lowercased().hasPrefix("https://") {
      builder.refuse(line, 0, hint: "http://HOST:PORT: sallyport speaks no TLS to the proxy itself, only through it")
      return nil
    }
    if text.contains("@") {
      // Without the word, which may have a password.
      builder.error(
        line.place(0), "a user in the URL of \"\(line.name)\"",
        hint: "user_file=FILE names a file with NAME:PASSWORD; a configuration is no secret")
      return nil
    }
    guard let proxy = TunnelSettings.proxy(text) else {
      builder.refuse(line, 0, hint: "http://HOST:PORT, without variables")
      return nil
    }
    return proxy
  }

  static func readPass(_ draft: inout PassDraft, _ builder: inout SettingsBuilder) {
    [row].read(draft.scope, into: &draft.settings, &builder)
    let reloads = draft.scope.reloadsFiles
    draft.settings.origin.tunnel?.reloads = reloads
  }

  static func part(of draft: PassDraft, _ builder: inout SettingsBuilder) -> (any PassPart)? {
    guard let tunnel = draft.settings.origin.tunnel, let line = row.entry.line(in: draft.scope) else { return nil }
    if let (fault, hint) = fault(of: draft.target.upstream, builder) {
      builder.error(draft.line.location, "\"\(line.name)\" \(fault)", hint: "\(hint), or write \"\(line.name) off;\"")
    }
    return ViaPart(tunnel: tunnel, host: HostUse(tunnel.proxy.host, of: line.name, at: line.place(0)))
  }

  /// What no proxy can reach; nil: it can reach the target.
  private static func fault(
    of target: UpstreamTarget, _ builder: SettingsBuilder
  ) -> (fault: String, hint: String)? {
    guard case .group(let index, _) = target else {
      return ("with a target of variables", "name the upstream: the proxy resolves its name")
    }
    let servers = builder.groups[index].servers
    if let server = servers.first(where: { $0.address.port == nil }) {
      return ("for \(server.address), which is on this machine", "give a host and a port")
    }
    guard servers.contains(where: { $0.followed != nil }) else { return nil }
    return ("for servers with \"resolve\"", "leave out \"resolve\": the proxy resolves names")
  }

  static func load(
    _ http: HTTPSettings, _ shared: SharedState, _ loader: inout MaterialLoader, _ parts: inout GenerationParts
  ) {
    http.visitLocations { location in
      guard let tunnel = location[UpstreamPass.self]?.origin.tunnel, let file = tunnel.user,
        parts[TunnelUsers.self].files[file] == nil
      else { return }
      let loaded = loader.unit(ProxyUserUnit(file: file), ProxyUser.kind, file, reloads: tunnel.reloads) {
        () throws(MaterialError) in try ProxyUser.load(file)
      }
      guard let loaded else { return }
      parts[TunnelUsers.self].files[file] = loaded
      loader.warnOfReaders(file)
    }
  }

  static func comparePass(_ old: UpstreamPass, _ new: UpstreamPass, _ found: inout TrustChanges) {
    let (one, other) = (old.origin.tunnel, new.origin.tunnel)
    if one?.proxy != other?.proxy {
      let former = one.map { "through the proxy \($0.proxy)" } ?? "directly"
      found.other(
        "connections to the upstream go \(other.map { "through the proxy \($0.proxy)" } ?? "directly") (proxy_via; were made \(former))"
      )
    }
    guard one?.user != other?.user, let other else { return }
    found.other(
      "the proxy \(other.proxy) gets \(other.user.map { "credentials of \($0)" } ?? "no credentials") (proxy_via)")
  }
}

/// `proxy_via` at a pass.
private struct ViaPart: PassPart {
  let tunnel: TunnelSettings
  let host: HostUse

  var fileUses: [FileUse] { FileUse.material([tunnel.user], reloads: tunnel.reloads) }

  var hosts: [HostUse] { if case .name = tunnel.proxy { [host] } else { [] } }

  func policy(_ loaded: GenerationParts) -> [PassPolicyLine] {
    let user = tunnel.user.map { " as the user of \($0)" } ?? ""
    return [PassPolicyLine("through", "the proxy \(tunnel.proxy)\(user), which resolves the upstream's name")]
  }
}

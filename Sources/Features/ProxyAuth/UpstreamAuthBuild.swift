import Forward
import Language
import Observability
import Traffic
import Transport
import Upstream
import UpstreamAuth

extension Scope {
  /// The line that turns on upstream authentication; nil when there is no line, or the line says `off`.
  var upstreamAuth: Directive? {
    ProxyAuth.auth.line(in: self).flatMap { $0.arguments.contains { $0.text.lowercased() == "off" } ? nil : $0 }
  }

  var authSchemes: AuthSchemes {
    let named: [String: AuthSchemes] = ["basic": .basic, "digest": .digest, "ntlm": .ntlm]
    return AuthSchemes(upstreamAuth?.arguments.compactMap { named[$0.text.lowercased()] } ?? [])
  }
}

extension ProxyAuth {
  /// Builds `proxy_auth` and the directives that belong to it; nil: the client gets an upstream's 401.
  static func settings(_ draft: PassDraft, _ builder: inout SettingsBuilder) -> UpstreamAuthSettings? {
    let scope = draft.scope
    builder.diagnostics += UpstreamAuthRule.idle(scope)
    guard let line = scope.upstreamAuth else { return nil }
    let spaces = space.lines(in: scope).compactMap { space($0, &builder) }
    let facts = UpstreamAuthFacts(
      scope: scope, line: line, pass: draft.line.location, url: draft.url, fields: draft.settings.request.fields,
      spaces: spaces,
      group: group(of: draft.target.upstream, builder))
    builder.diagnostics += UpstreamAuthRule.allCases.compactMap { $0.diagnostic(facts) }
    guard let users = builder.material(userFile.line(in: scope)) else { return nil }
    return UpstreamAuthSettings(
      schemes: scope.authSchemes, users: users, spaces: spaces, persistence: persistence(scope, builder.folder),
      reloads: scope.reloadsFiles, location: line.location)
  }

  private static func group(of target: UpstreamTarget, _ builder: SettingsBuilder) -> UpstreamGroupSettings? {
    if case .group(let index, _) = target { builder.groups[index] } else { nil }
  }

  private static func persistence(_ scope: Scope, _ folder: String) -> AuthPersistence {
    switch persistence.text(in: scope)?.lowercased() {
    case "none": .none
    case "permanent":
      state.text(in: scope).map { .permanent(folder: resolve($0, in: folder)) } ?? .session
    default: .session
    }
  }

  /// Parses `SCHEME://HOST[:PORT] [realm="TEXT"]`.
  private static func space(_ line: Directive, _ builder: inout SettingsBuilder) -> ProtectionSpace? {
    let text = line.text(0)
    guard let scheme = [UpstreamScheme.https, .http].first(where: { text.lowercased().hasPrefix("\($0.rawValue)://") })
    else {
      builder.error(line.place(0), "invalid protection space \"\(text)\"", hint: "SCHEME://HOST[:PORT], http or https")
      return nil
    }
    let (realm, isRealm) = realm(line.arguments.dropFirst().map(\.text).joined(separator: " "))
    guard line.arguments.count == 1 || isRealm else {
      builder.error(
        line.place(1), "invalid parameter \"\(line.text(1))\" in \"proxy_auth_space\"", hint: "realm=\"TEXT\"")
      return nil
    }
    do throws(Authority.ParseError) {
      let authority = try Authority(parsing: String(text.dropFirst(scheme.rawValue.count + 3)))
      guard case .host(let host, let port) = authority else {
        throw Authority.ParseError(
          reason: "a socket", hint: "remove proxy_auth_space: without it, credentials go only to the proxy_pass server")
      }
      return ProtectionSpace(
        scheme: scheme.rawValue, host: SocketAddress(literal: host, port: 0)?.host ?? host.lowercased(), port: port,
        realm: realm, location: line.location)
    } catch {
      builder.error(line.place(0), "\(error.reason) in \"proxy_auth_space\": \"\(text)\"", hint: error.hint)
      return nil
    }
  }

  private static func realm(_ word: String) -> (realm: [UInt8]?, isRealm: Bool) {
    guard word.hasPrefix("realm=") else { return (nil, false) }
    var value = word.dropFirst("realm=".count)
    if value.count >= 2, value.hasPrefix("\""), value.hasSuffix("\"") { value = value.dropFirst().dropLast() }
    return (Array(value.utf8), !value.contains("\""))
  }
}

import Observability
import Transport
import Upstream
import UpstreamAuth
import Language

extension Scope {
  /// The line that turns on upstream authentication; nil when there is no line, or the line says `off`.
  var upstreamAuth: Directive? {
    value("proxy_auth").flatMap { $0.arguments.contains { $0.text.lowercased() == "off" } ? nil : $0 }
  }

  var authSchemes: AuthSchemes {
    let named: [String: AuthSchemes] = ["basic": .basic, "digest": .digest, "ntlm": .ntlm]
    return AuthSchemes(upstreamAuth?.arguments.compactMap { named[$0.text.lowercased()] } ?? [])
  }
}

extension SettingsBuilder {
  /// Builds `proxy_auth` and the directives that belong to it; nil: the client gets an upstream's 401.
  mutating func upstreamAuth(_ draft: PassDraft) -> UpstreamAuthSettings? {
    let scope = draft.scope
    diagnostics += UpstreamAuthRule.idle(scope)
    guard let line = scope.upstreamAuth else { return nil }
    let spaces = scope.list("proxy_auth_space").compactMap { space($0) }
    let facts = UpstreamAuthFacts(
      scope: scope, line: line, pass: draft.line.location, url: draft.url, fields: draft.settings.request.fields,
      spaces: spaces,
      group: group(of: draft.target.upstream))
    diagnostics += UpstreamAuthRule.allCases.compactMap { $0.diagnostic(facts) }
    guard let users = material(scope.value("proxy_auth_user_file")) else { return nil }
    return UpstreamAuthSettings(
      schemes: scope.authSchemes, users: users, spaces: spaces, persistence: persistence(scope),
      reloads: scope.reloadsFiles, location: line.location)
  }

  private func group(of target: UpstreamTarget) -> UpstreamGroupSettings? {
    if case .group(let index, _) = target { groups[index] } else { nil }
  }

  private func persistence(_ scope: Scope) -> AuthPersistence {
    switch scope.text("proxy_auth_persistence")?.lowercased() {
    case "none": .none
    case "permanent":
      scope.text("proxy_auth_state").map { .permanent(folder: resolve($0, in: folder)) } ?? .session
    default: .session
    }
  }

  /// Parses `SCHEME://HOST[:PORT] [realm="TEXT"]`.
  private mutating func space(_ line: Directive) -> ProtectionSpace? {
    let text = line.text(0)
    guard let scheme = [UpstreamScheme.https, .http].first(where: { text.lowercased().hasPrefix("\($0.rawValue)://") })
    else {
      error(line.place(0), "invalid protection space \"\(text)\"", hint: "SCHEME://HOST[:PORT], http or https")
      return nil
    }
    let (realm, isRealm) = Self.realm(line.arguments.dropFirst().map(\.text).joined(separator: " "))
    guard line.arguments.count == 1 || isRealm else {
      error(line.place(1), "invalid parameter \"\(line.text(1))\" in \"proxy_auth_space\"", hint: "realm=\"TEXT\"")
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
      self.error(line.place(0), "\(error.reason) in \"proxy_auth_space\": \"\(text)\"", hint: error.hint)
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

import Forward
import Language
import Observability
import Traffic
import Transport
import Upstream
import UpstreamAuth

/// The directives in effect for a location whose upstream may send an authentication challenge.
struct UpstreamAuthFacts {
  var scope: Scope
  /// The `proxy_auth` line in effect.
  var line: Directive
  /// Where the line is that names the upstream.
  var pass: SourceLocation
  var url: PassedURL
  var fields: [SetField]
  var spaces: [ProtectionSpace]
  /// The upstream's group; nil when variables name the upstream.
  var group: UpstreamGroupSettings?
}

/// Errors in a location's upstream authentication. Each case is one rule.
enum UpstreamAuthRule: CaseIterable {
  case noUserFile
  case fieldSetByHand
  case anyServerAsSpace
  case noServerInSpace
  case permanentWithoutState
  case stateWithoutPermanent
  case oldVersionForNTLM
  case closeForNTLM
  case realmForNTLM
  case passwordInPlainText

  func diagnostic(_ facts: UpstreamAuthFacts) -> Diagnostic? {
    let (scope, line) = (facts.scope, facts.line)
    let isPermanent = ProxyAuth.persistence.text(in: scope)?.lowercased() == "permanent"
    switch self {
    case .noUserFile:
      guard ProxyAuth.userFile.line(in: scope) == nil else { return nil }
      return Diagnostic(
        .error, at: line.location, "\"proxy_auth\" without \"proxy_auth_user_file\"",
        hint: "name the file that assigns users to clients: proxy_auth_user_file FILE;")
    case .fieldSetByHand:
      guard let field = facts.fields.first(where: { $0.name.spells("authorization") }),
        let other = scope.setFieldLines.first(where: { $0.text(0).lowercased() == "authorization" }),
        !field.values.isEmpty
      else { return nil }
      return Diagnostic(
        .error, at: other.location, "\"Authorization\" is set here and by proxy_auth",
        hint: "remove one of the two; the other is at \(line.location)")
    case .anyServerAsSpace:
      guard facts.group == nil, facts.spaces.isEmpty else { return nil }
      return Diagnostic(
        .error, at: line.location,
        "\"proxy_auth\" for a proxy_pass with variables: a client that can choose the server could get the passwords",
        hint: "name the servers that may get passwords: proxy_auth_space SCHEME://HOST:PORT;")
    case .noServerInSpace:
      guard let group = facts.group, let first = facts.spaces.first,
        !group.servers.contains(where: { server in
          let origin = AuthOrigin(
            scheme: facts.url.scheme?.rawValue ?? "", group: group.name.lowercased(),
            host: server.address.host.lowercased(),
            port: server.address.port)
          return facts.spaces.contains { $0.holds(origin) }
        })
      else { return nil }
      return Diagnostic(
        .warning, at: first.location,
        "no server of this proxy_pass is in a \"proxy_auth_space\": sallyport answers no challenge",
        hint: "the proxy_pass is at \(facts.pass)")
    case .permanentWithoutState:
      guard isPermanent, ProxyAuth.state.line(in: scope) == nil, let said = ProxyAuth.persistence.line(in: scope)
      else { return nil }
      return Diagnostic(
        .error, at: said.location, "\"proxy_auth_persistence permanent\" without \"proxy_auth_state\"",
        hint: "name a folder for sallyport's use: proxy_auth_state /var/lib/sallyport/auth;")
    case .stateWithoutPermanent:
      // If an inner level sets the lifetime, the outer level's folder has no effect, so it is no error.
      guard !isPermanent, let state = ProxyAuth.state.line(in: scope),
        ProxyAuth.state.ownLine(in: scope) != nil || ProxyAuth.persistence.line(in: scope) == nil
      else { return nil }
      return Diagnostic(
        .error, at: state.location, "\"proxy_auth_state\" without \"proxy_auth_persistence permanent\"",
        hint: "write proxy_auth_persistence permanent; or remove this line")
    case .oldVersionForNTLM:
      guard scope.authSchemes.contains(.ntlm), let version = scope.versionLine,
        version.text(0) != "1.1"
      else { return nil }
      return Diagnostic(
        .error, at: version.location,
        "\"proxy_auth ntlm\" over HTTP/\(version.text(0)), where a connection is not one user's",
        hint: "use proxy_http_version 1.1; or remove this line")
    case .closeForNTLM:
      guard scope.authSchemes.contains(.ntlm),
        let close = scope.setFieldLines.first(where: {
          $0.text(0).lowercased() == "connection" && $0.text(1).lowercased() == "close"
        })
      else { return nil }
      return Diagnostic(
        .error, at: close.location,
        "\"proxy_auth ntlm\" beside \"Connection close\": NTLM authenticates a connection, so it must stay open",
        hint: "remove this line")
    case .realmForNTLM:
      guard scope.authSchemes == .ntlm, !facts.spaces.isEmpty, facts.spaces.allSatisfy({ $0.realm != nil }),
        let first = facts.spaces.first
      else { return nil }
      return Diagnostic(
        .error, at: first.location, "a realm for \"proxy_auth ntlm\", whose challenges have no realm",
        hint: "remove the realm")
    case .passwordInPlainText:
      // Where a value says the scheme, a space says where passwords may go.
      let isPlain = facts.url.scheme.map { $0 == .http } ?? facts.spaces.contains { $0.scheme == "http" }
      guard scope.authSchemes.contains(.basic), isPlain, facts.group?.isReachedBySocket != true
      else { return nil }
      return Diagnostic(
        .warning, at: line.location,
        "\"proxy_auth basic\" over plain http: an attacker on the path can read the passwords",
        hint: "use proxy_pass https://…, or only digest")
    }
  }

  /// Warns of lines in this level that have no effect. Inherited lines may apply elsewhere, so they are not reported.
  static func idle(_ scope: Scope) -> [Diagnostic] {
    guard scope.upstreamAuth == nil else { return [] }
    return ProxyAuth.directives.dropFirst().compactMap { $0.ownLine(in: scope) }.map {
      Diagnostic(
        .warning, at: $0.location, "\"\($0.name)\" has no effect: there is no \"proxy_auth\" here",
        hint: "add proxy_auth with the schemes that sallyport may use")
    }
  }
}

extension UpstreamGroupSettings {
  fileprivate var isReachedBySocket: Bool { !servers.isEmpty && servers.allSatisfy { $0.address.port == nil } }
}

extension [UInt8] {
  fileprivate func spells(_ name: String) -> Bool { String(decoding: self, as: UTF8.self).lowercased() == name }
}

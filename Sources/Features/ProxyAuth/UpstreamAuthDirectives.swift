import Forward
import Language
import Traffic
import UpstreamAuth

private let levels = DirectiveContexts.everyHTTP

/// Responses to an upstream's authentication challenge. nginx has no such directives.
enum ProxyAuth: PassFeature {
  static let chapter = Chapter.proxyAuth

  static func comparePass(_ old: UpstreamPass, _ new: UpstreamPass, _ found: inout TrustChanges) {
    switch (old[UpstreamAuthSettings.self], new[UpstreamAuthSettings.self]) {
    case (.some, nil): found.closes("a 401 of the upstream is no longer answered (proxy_auth)")
    case (nil, .some(let asked)): found.opens("a 401 of the upstream is answered with credentials of \(asked.users)")
    case (let one?, let other?):
      if one.users != other.users {
        found.other("credentials for the upstream are those of \(other.users) (were those of \(one.users))")
      }
      if one.schemes != other.schemes { found.other("credentials for the upstream go by other schemes (proxy_auth)") }
      if one.spaces != other.spaces { found.other("credentials go to other protection spaces (proxy_auth_space)") }
    case (nil, nil): break
    }
  }

  static func part(of draft: PassDraft, _ builder: inout SettingsBuilder) -> (any PassPart)? {
    settings(draft, &builder)
  }

  // A pass of another dialect doesn't see directives of the proxy module, so the level is judged.
  static func judge(_ level: Level, _ builder: inout SettingsBuilder) {
    for feature in UpstreamPass.naming(level.scope, builder.features) {
      guard let pass = feature.line(in: level.scope) else { continue }
      _ = builder.refuse(level.scope.upstreamAuth, at: pass, of: feature.dialect, "it answers challenges of HTTP")
    }
  }

  static let auth = DirectiveEntry.value(
    "proxy_auth", levels, .someOf(["basic", "digest", "ntlm", "off"]), "off",
    "The schemes with which sallyport answers an upstream's 401; it selects the strongest one that the upstream offers. With `ntlm`, sallyport uses HTTP/1.1 and keeps connections open.",
    example: "proxy_auth digest basic;", trust: .told)
  static let userFile = DirectiveEntry.value(
    "proxy_auth_user_file", levels, .words(1...1, "FILE"), "",
    "Lines `SELECTOR USER:PASSWORD` that assign users to clients. The first match counts; a client without a match gets 403.",
    example: "proxy_auth_user_file upstream-users;", trust: .told)
  static let space = DirectiveEntry.list(
    "proxy_auth_space", levels, .words(1...Int.max, "SCHEME://HOST[:PORT] [realm=\"TEXT\"]"),
    "the proxy_pass server, any realm", "Where sallyport can send credentials; HOST can be an upstream group.",
    example: "proxy_auth_space https://app.internal realm=\"app\";")
  static let persistence = DirectiveEntry.value(
    "proxy_auth_persistence", levels, .oneOf(["none", "session", "permanent"]), "session",
    "How long sallyport remembers a challenge and sends credentials ahead of the next one: for the exchange, for the process, or longer.",
    example: "proxy_auth_persistence none;")
  static let state = DirectiveEntry.value(
    "proxy_auth_state", levels, .words(1...1, "DIR"), "",
    "The folder in which `permanent` keeps challenges (mode 0700); it contains no passwords.",
    example: "proxy_auth_state /var/lib/sallyport/auth;")

  static let directives = [auth, userFile, space, persistence, state]
}

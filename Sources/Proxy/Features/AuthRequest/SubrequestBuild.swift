import Observability
import Language

/// Builds `auth_request`, `mirror` and what belongs to them.
extension SettingsBuilder {
  /// nil if the level says nothing of subrequests.
  mutating func subrequests(_ scope: Scope) -> SubrequestSettings? {
    let authorization = authorization(scope)
    let mirrors = mirrors(scope)
    let areLogged = scope.flag("log_subrequest") ?? false
    if authorization == nil && mirrors == nil && !areLogged { return nil }
    return SubrequestSettings(authorization: authorization, mirrors: mirrors, areLogged: areLogged)
  }

  private mutating func authorization(_ scope: Scope) -> AuthorizationSettings? {
    let lines = scope.list("auth_request_set").compactMap { line -> AuthorizationSettings.Setting? in
      let name = line.text(0).dropFirst().lowercased()
      if name == "args" { return AuthorizationSettings.Setting(.arguments, value: template(line, 1)) }
      // A name that can't be a variable has been reported.
      guard let slot = variables.slots[name] else { return nil }
      return AuthorizationSettings.Setting(.slot(slot), value: template(line, 1))
    }
    guard let line = scope.value("auth_request"), line.text(0) != "off", let path = subrequestPath(line) else {
      return nil
    }
    return AuthorizationSettings(path: path, variables: lines)
  }

  private mutating func mirrors(_ scope: Scope) -> MirrorSettings? {
    let lines = scope.list("mirror")
    if let off = lines.first(where: { $0.text(0) == "off" }) {
      if lines.count > 1 {
        error(off.location, "\"mirror off\" beside another \"mirror\"", hint: "write either paths or off on one level")
      }
      return nil
    }
    let paths = lines.compactMap { subrequestPath($0) }
    guard let first = lines.first, !paths.isEmpty else { return nil }
    let sendsBody = scope.flag("mirror_request_body") ?? true
    if sendsBody, scope.flag("message_envelope") == true, !scope.own("proxy_pass").isEmpty {
      error(
        first.location, "\"mirror\" would send the bodies of \"message_envelope\" before they are opened",
        hint: "write \"mirror_request_body off;\" or \"mirror off;\" here")
    }
    return MirrorSettings(paths: paths, sendsBody: sendsBody)
  }

  /// A path without variables and arguments: nginx takes `$` and `?` as parts of the path, and finds no location.
  private mutating func subrequestPath(_ line: Directive) -> [UInt8]? {
    let text = line.text(0)
    guard text.hasPrefix("/"), !text.contains("$"), !text.contains("?") else {
      error(
        line.place(0), "invalid path \"\(text)\" in \"\(line.name)\" directive",
        hint: "the path of a location of this server, such as /auth, without variables and arguments; or off")
      return nil
    }
    return Array(text.utf8)
  }
}

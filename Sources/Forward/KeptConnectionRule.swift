import Language
import Observability
import Traffic
import Upstream

/// Warns of a group with `keepalive` whose connections the location's directives close after each request.
enum KeptConnectionRule {
  /// `kept`: the groups whose block has the directive.
  static func check(
    _ groups: [UpstreamGroupSettings], kept: Set<Int>, _ pass: PassDraft
  ) -> [Diagnostic] {
    let fields = pass.settings.request.fields
    guard case .group(let index, _) = pass.target.upstream, index < groups.count,
      groups[index].keepalive.connections > 0,
      kept.contains(index)
    else { return [] }
    let version = pass.settings.version
    guard version == .http10 || version == .http11 && fields.contains(where: \.closesConnection) else {
      return []
    }
    return [
      Diagnostic(
        .warning, at: pass.line.location,
        "connections to \"\(groups[index].name)\" are not kept open, although the group has keepalive",
        hint: "proxy_http_version 1.1; proxy_set_header Connection \"\";")
    ]
  }
}

import Forward
package import Language
import Observability
package import Traffic

/// mirror (nginx: ngx_http_mirror_module): copies of requests, whose responses are dropped.
///
/// The folder is the whole feature: the directives and what they set here, and what happens to a request in `MirrorStep`.
package struct Mirror: LocationFeature {
  /// Paths of the same server block.
  let paths: [[UInt8]]
  /// Whether the copies have the request's body.
  let sendsBody: Bool

  // MARK: Directives

  package static let chapter = Chapter.subrequests
  private static let levels = DirectiveContexts.everyHTTP

  private static let pathLine = DirectiveEntry.list(
    "mirror", levels, .words(1...1, "PATH | off"), "off",
    "Sends a copy of each request to the location of this path, with the request's query, and drops the response. Nothing"
      + " that happens to the copy changes the response of the client.", example: "mirror /copy;", trust: .told)
  private static let bodyLine = DirectiveEntry.value(
    "mirror_request_body", levels, .flag, "on",
    "Whether the copy has the request's body. The proxy then collects the body before it sends the request or the copy,"
      + " so write `off` for gRPC streams.", example: "mirror_request_body off;")

  package static let directives = [pathLine, bodyLine]

  package static let workerParts: [WorkerPart.Type] = [RunningMirrors.self]

  package static func read(_ level: Level, _ builder: inout SettingsBuilder) -> Mirror? {
    let scope = level.scope
    let lines = pathLine.lines(in: scope)
    if let off = lines.first(where: { $0.text(0) == "off" }) {
      if lines.count > 1 {
        builder.error(
          off.location, "\"mirror off\" beside another \"mirror\"", hint: "write either paths or off on one level")
      }
      return nil
    }
    let paths = lines.compactMap { Subrequest.path($0, &builder) }
    guard let first = lines.first, !paths.isEmpty else { return nil }
    let sendsBody = bodyLine.flag(in: scope) ?? true
    if sendsBody, let opening = builder.features.openingLine(scope),
      UpstreamPass.naming(scope, builder.features).contains(where: { !$0.dialect.callsMethods })
    {
      builder.error(
        first.location, "\"mirror\" would send the bodies of \"\(opening.name)\" before they are opened",
        hint: "write \"mirror_request_body off;\" or \"mirror off;\" here")
    }
    return Mirror(paths: paths, sendsBody: sendsBody)
  }

  // MARK: Effect

  package func compile(_ parts: inout LocationParts, _ makers: LiveMakers) {
    parts.steps.precontent.append(MirrorStep(self))
  }

  package static func subrequestPaths(_ scope: Scope) -> [String] {
    pathLine.lines(in: scope).map { $0.text(0) }.filter { $0 != "off" }
  }

  package var ways: LocationWays {
    LocationWays(
      leads: paths.map { path in
        let path = String(decoding: path, as: UTF8.self)
        return RequestLead(.copy, to: .path(Template(literal: path)), "mirror \(path)")
      })
  }

  package static func compare(_ old: Self?, _ new: Self?, _ names: ComparedNames, _ found: inout TrustChanges) {
    func paths(_ mirror: Self?) -> Set<String> {
      Set((mirror?.paths ?? []).map { String(decoding: $0, as: UTF8.self) })
    }
    found.set(paths(old), paths(new)) {
      "copies of its requests go to \($0) (mirror)"
    } removed: {
      "copies of its requests no longer go to \($0)"
    }
  }

  package func fileUses(_ location: LocationSettings) -> [FileUse] { [.bodyFolder(of: location)] }
}

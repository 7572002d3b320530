import Observability
import TLS
import Language

extension SettingsBuilder {
  /// Builds the `http {}` block: first what servers refer to, then the servers, then the checks across all servers.
  /// Returns its level.
  mutating func addHTTP(_ block: [Directive], at place: SourceLocation, outer: Scope) -> Scope {
    let http = Scope(block, outer: outer)
    variables.collect(from: block)
    diagnostics += variables.diagnostics
    for feature in features.all where feature.kinds.contains(.http) { feature.begin(http, &self) }
    refuseCircles()
    let blocks = http.ownServers.map { ($0, Scope($0.block ?? [], outer: http)) }
    if blocks.isEmpty {
      error(
        place, "\"http\" has no \"server\" block: sallyport has nothing to serve", hint: "server { listen 443 ssl; … }")
    }
    addServers(blocks)
    endBlock()
    return http
  }

  /// Reports what contradicts itself in the locations of a server block of `http`, whatever features they have.
  mutating func judgeHTTP(_ block: ServerBlock) {
    let root = block.root
    diagnostics += LocationRule.namedTargets(of: root)
    if block.isWhole, root.locations.isEmpty, !root.hasContent, !root.features.contains(where: \.mayRespond),
      block.tls?.rejectsHandshake != true || block.alsoPlain
    {
      warning(
        block.place, "this server responds to every request with 404", hint: "it has no location, no return and no root"
      )
    }
  }
}

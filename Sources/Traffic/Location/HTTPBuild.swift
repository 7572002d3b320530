import Observability
import TLS
package import Language

extension SettingsBuilder {
  /// Builds the `http {}` block: first what servers refer to, then the servers, then the checks across all servers.
  /// Returns its level.
  mutating func addHTTP(_ block: [Directive], at place: SourceLocation, outer: Scope) -> Scope {
    let http = Scope(block, outer: outer)
    variables.collect(from: block)
    diagnostics += variables.diagnostics
    for feature in Features.all where feature.kinds.contains(.http) { feature.begin(http, &self) }
    refuseCircles()
    let blocks = http.own("server").map { ($0, Scope($0.block ?? [], outer: http)) }
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

  package mutating func head(_ scope: Scope) -> ClientHeadSettings {
    var head = ClientHeadSettings()
    head.timeout = scope.milliseconds("client_header_timeout") ?? head.timeout
    if let (count, size) = buffers(scope.value("large_client_header_buffers")) {
      head.buffers = count
      head.bufferSize = size
    }
    head.ignoresInvalidFields = scope.flag("ignore_invalid_headers") ?? true
    head.underscoresInFields = scope.flag("underscores_in_headers") ?? false
    head.fields = scope.number("max_headers") ?? head.fields
    head.mergesSlashes = scope.flag("merge_slashes") ?? true
    return head
  }
}

extension Scope {
  /// The line in effect that keeps several slashes in a path apart; nil: they count as one.
  package var unmergedSlashes: Directive? { flag("merge_slashes") == false ? value("merge_slashes") : nil }
}

import Language
import Observability
import TLS

extension SettingsBuilder {
  /// Builds the `stream {}` block, as `addHTTP` does `http`.
  mutating func addStream(_ block: [Directive], at place: SourceLocation, outer: Scope) {
    kind = .stream
    variables = DefinedVariables(features, .stream, firstSlot: variables.endSlot)
    let stream = Scope(block, outer: outer)
    variables.collect(from: block)
    diagnostics += variables.diagnostics
    for feature in features.all where feature.kinds.contains(.stream) { feature.begin(stream, &self) }
    refuseCircles()
    let blocks = stream.ownServers.map { ($0, Scope($0.block ?? [], outer: stream)) }
    // A package's file includes a folder that may be empty.
    if blocks.isEmpty, servers.isEmpty {
      error(
        place, "\"stream\" has no \"server\" block: it has nothing to pass",
        hint: "server { listen 5433 ssl; proxy_pass db:5432; }")
    }
    addServers(blocks)
    endBlock()
  }

  /// Reports a server block of `stream` without a content, or with more than one.
  mutating func judgeStream(_ block: ServerBlock) {
    let places = features.contents(of: .stream).compactMap { $0.line(in: block.scope, of: features)?.location }
    let contents = block.scope.directives.filter { places.contains($0.location) }
    if contents.isEmpty, block.tls?.rejectsHandshake != true {
      // As nginx since 1.25.5, which says nothing of it.
      warning(
        block.place, "no handler for server: each of its connections ends with the status 500",
        hint: "name what becomes of them: proxy_pass ADDRESS:PORT; or return TEXT; or pass ADDRESS:PORT;")
    }
    for other in contents.dropFirst() {
      error(
        other.location, "\"\(other.name)\" beside \"\(contents[0].name)\": a server can have only one content handler",
        hint: "use a separate server; \(contents[0].name) is at \(contents[0].location)")
    }
  }
}

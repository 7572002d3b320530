package import Language

/// The blocks of nginx's core, and those of `stream` that are like them. A feature that has a block of its own declares it
/// beside the directive that opens it.
extension DirectiveContexts {
  package static let events = DirectiveContexts(block: "events", in: .main)
  package static let http = DirectiveContexts(block: "http", in: .main)
  package static let server = DirectiveContexts(block: "server", in: .http)
  package static let location = DirectiveContexts(block: "location", in: .server, nests: true)
  package static let stream = DirectiveContexts(block: "stream", in: .main, isOfStream: true)
  package static let streamServer = DirectiveContexts(
    block: "server", in: .stream, named: "server in stream", isOfStream: true)
  /// http, server and location: the contexts of inherited directives.
  package static let everyHTTP: DirectiveContexts = [.http, .server, .location]
  /// stream and its servers: the contexts of inherited directives.
  package static let everyStream: DirectiveContexts = [.stream, .streamServer]
  package static let upstream = DirectiveContexts(block: "upstream", in: .http)
  package static let streamUpstream = DirectiveContexts(
    block: "upstream", in: .stream, named: "upstream in stream", isOfStream: true)
  /// The blocks `upstream` of both.
  package static let everyUpstream: DirectiveContexts = [.upstream, .streamUpstream]
  /// The blocks `server` of both.
  package static let everyServer: DirectiveContexts = [.server, .streamServer]
}

import Observability
import Synchronization
package import TLS

/// All features, as far as a configuration is read, in the order in which nginx's modules act: steps of one phase run in it,
/// and responses pass filters in it. Made once.
package final class FeatureDirectives: Sendable {
  package let all: [any DirectiveFeature.Type]
  package let ofLocation: [any LocationDirectives.Type]
  package let ofHTTPLocation: [any LocationDirectives.Type]
  private let ofStreamServer: [any LocationDirectives.Type]
  private let ofHTTP: [any DirectiveFeature.Type]
  private let ofStream: [any DirectiveFeature.Type]
  private let contentsOfHTTP: [any ContentDirectives.Type]
  private let contentsOfStream: [any ContentDirectives.Type]
  let serverParts: [any ServerPart.Type]
  /// What lines define, by directive.
  package let definitions: [String: Definition]
  package let variables: VariableNames
  /// The directives of all features, and those that are known only to be refused.
  package let table: DirectiveTable
  private let parts = Mutex<[ObjectIdentifier: any ListPart]>([:])

  package init(_ all: [any DirectiveFeature.Type]) {
    self.all = all
    ofLocation = all.compactMap { $0.atLocations }
    ofHTTPLocation = ofLocation.filter { $0.kinds.contains(.http) }
    ofStreamServer = ofLocation.filter { $0.kinds.contains(.stream) }
    ofHTTP = all.filter { $0.kinds.contains(.http) }
    ofStream = all.filter { $0.kinds.contains(.stream) }
    contentsOfHTTP = ofHTTP.compactMap { $0.asContent }
    contentsOfStream = ofStream.compactMap { $0.asContent }
    serverParts = all.flatMap { $0.serverParts }
    definitions = all.reduce(into: [:]) { all, feature in all.merge(feature.definitions) { first, _ in first } }
    variables = VariableNames(all)
    table = DirectiveTable(all)
  }

  /// What a module above has made of the list.
  package subscript<Part: ListPart>(_ kind: Part.Type) -> Part {
    parts.withLock { parts in
      if let known = parts[ObjectIdentifier(kind)] as? Part { return known }
      let fresh = Part(all)
      parts[ObjectIdentifier(kind)] = fresh
      return fresh
    }
  }

  /// Those that respond to requests in a location of `http`, or serve a connection in `stream`.
  package func contents(of kind: TrafficKind) -> [any ContentDirectives.Type] {
    kind == .http ? contentsOfHTTP : contentsOfStream
  }

  /// What connections are made with that no location names.
  package func upstreamTLS(_ http: HTTPSettings) -> [UpstreamTLSSettings] { all.flatMap { $0.upstreamTLS(http) } }

  /// What a level says, for each feature that it says something of.
  func read(_ level: Level, _ builder: inout SettingsBuilder) -> [any LocationDirectives] {
    (level.isOfStream ? ofStreamServer : ofHTTPLocation).compactMap { $0.read(level, &builder) }
  }

  /// Each feature's warnings of a level.
  func judge(_ level: Level, _ builder: inout SettingsBuilder) {
    for feature in level.isOfStream ? ofStream : ofHTTP { feature.judge(level, &builder) }
  }
}

/// What a module above the settings makes of the list of all features, once: those that name an upstream, say.
package protocol ListPart: Sendable {
  init(_ all: [any DirectiveFeature.Type])
}

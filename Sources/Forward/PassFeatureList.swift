package import Language
package import Traffic

/// The features of the list that have to do with upstreams.
struct PassFeatureList: ListPart {
  fileprivate let ofHTTPUpstream: [any UpstreamFeature.Type]
  fileprivate let ofStreamUpstream: [any UpstreamFeature.Type]
  fileprivate let ofHTTPPass: [any PassFeature.Type]
  fileprivate let ofStreamPass: [any PassFeature.Type]
  /// What fields of upstreams' responses tell features.
  let instructions: [UpstreamInstruction]
  let balancing: [any BalanceFeature.Type]

  init(_ all: [any DirectiveFeature.Type]) {
    let forward = all.compactMap { ForwardKinds.of($0) }
    let upstreams = forward.compactMap { $0.upstream }
    let passes = forward.compactMap { $0.pass }
    ofHTTPUpstream = upstreams.filter { $0.kinds.contains(.http) }
    ofStreamUpstream = upstreams.filter { $0.kinds.contains(.stream) }
    ofHTTPPass = passes.filter { $0.kinds.contains(.http) }
    ofStreamPass = passes.filter { $0.kinds.contains(.stream) }
    instructions = ofHTTPPass.compactMap { $0.instruction }
    balancing = forward.compactMap { $0.balance }
  }
}

extension FeatureDirectives {
  /// Those that name an upstream.
  package func ofUpstream(_ kind: TrafficKind) -> [any UpstreamFeature.Type] {
    let list = self[PassFeatureList.self]
    return kind == .http ? list.ofHTTPUpstream : list.ofStreamUpstream
  }

  /// Those that say something of what goes to an upstream.
  package func ofPass(_ kind: TrafficKind) -> [any PassFeature.Type] {
    let list = self[PassFeatureList.self]
    return kind == .http ? list.ofHTTPPass : list.ofStreamPass
  }

  /// The line at a level by which a feature opens bodies; nil: they go as they come.
  package func openingLine(_ scope: Scope) -> Directive? {
    ofPass(.http).lazy.compactMap { $0.openingLine(scope) }.first
  }
}

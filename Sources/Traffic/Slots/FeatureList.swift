import SPIFFE
package import Upstream

/// All features with what they run. The list is handed to what reads configurations and to what serves them, so neither
/// names a feature.
package final class FeatureList: Sendable {
  /// Those of the list, as far as a configuration is read.
  package let directives: FeatureDirectives
  /// Those that do more than to be read.
  package let all: [any Feature.Type]
  let ofLocation: [any LocationFeature.Type]
  package let entryParts: [any EntryPart.Type]
  let errorWordings: [any ErrorWording.Type]

  package init(_ list: [any DirectiveFeature.Type]) {
    directives = FeatureDirectives(list)
    all = list.compactMap { ($0.asFeature as? RunningFeature)?.type }
    ofLocation = all.compactMap { $0.asLocationFeature }
    entryParts = all.flatMap { $0.entryParts }
    errorWordings = all.compactMap { $0.asErrorWording }
  }

  /// Loads what the features' files have.
  package func load(
    _ http: HTTPSettings, sharing shared: SharedState, _ loader: inout MaterialLoader
  ) -> GenerationParts {
    var parts = GenerationParts()
    for feature in all { feature.load(http, shared, &loader, &parts) }
    return parts
  }

  /// Adds what features know of the servers of groups, whose names are resolved. `former`: the generation that serves until
  /// now.
  package func prepare(
    _ groups: inout [ResolvedGroup], _ http: HTTPSettings, after former: Generation?, _ parts: inout GenerationParts
  ) {
    for feature in all { feature.prepare(&groups, http, after: former, &parts) }
  }
}

extension SharedState {
  /// What files are loaded with.
  package var materialSources: MaterialSources {
    MaterialSources(tokens: tokens, workload: workload.current) { [self] path in
      features.all.lazy.compactMap { $0.heldCertificate(at: path, self) }.first
    }
  }
}

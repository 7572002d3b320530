// What the features of a location say of it.

extension LocationSettings {
  package var hasContent: Bool { content != nil }

  package func hasSameKindOfContent(as other: LocationSettings) -> Bool {
    content.map { ObjectIdentifier(type(of: $0)) } == other.content.map { ObjectIdentifier(type(of: $0)) }
  }

  package func contentWords(_ http: HTTPSettings) -> String { content?.words(http) ?? "no upstream" }

  /// The directives that keep clients out, in the order of `Features.all`.
  package var guardingDirectives: [String] { features.compactMap(\.guardingDirective) }

  /// The features' lines of the policy that `check` prints.
  package var policy: [(label: String, text: String)] { features.flatMap(\.policy) }

  /// The features' lines of the policy of a server of `stream` for what it does before TLS.
  package var openingPolicy: [(label: String, text: String)] { features.flatMap(\.openingPolicy) }

  /// The features' lines about who the clients of a server block are.
  package func clientPolicy(of server: ServerSettings) -> [(label: String, text: String)] {
    features.flatMap { $0.clientPolicy(of: server) }
  }
}

extension FeatureDirectives {
  /// The lines of the policy of a server block of `http`. `root`: its part outside locations.
  package func serverPolicy(_ root: LocationSettings) -> [(label: String, text: String)] {
    ofHTTPLocation.flatMap { $0.serverPolicy(root) }
  }

  /// Says what the features of two locations differ in.
  package func compare(
    _ old: LocationSettings, _ new: LocationSettings, _ names: ComparedNames, _ found: inout TrustChanges
  ) {
    func compare<F: LocationDirectives>(_ feature: F.Type) { F.compare(old[F.self], new[F.self], names, &found) }
    for feature in ofLocation { compare(feature) }
  }
}

package import Crypto
package import Upstream

/// A feature: what nginx has in one module. Its directives, its variables, what it does in a location and what `check` says
/// of it stand in one folder.
///
/// Who adds a feature makes a folder, and adds its type to `Features.all`.
package protocol Feature: DirectiveFeature {
  /// Adds what the metrics show of the feature. Called on a thread of the pool.
  static func measure(_ snapshot: MetricsSnapshot, _ page: inout MetricsWriter)
  /// What an operator should look at, for the status page and `health`. `now`: seconds since 1970.
  static func problems(_ shared: SharedState, _ generation: Generation, at now: Int64) -> [StatusProblem]
  /// The servers of groups that the feature watches, each with whether it is up.
  static func serversUp(_ generation: Generation) -> [UpstreamSeries: Bool]
  /// Loads the files of `fileUses`, or reads once what requests read, before a generation is made. Blocks. Faults go to the
  /// loader; what was loaded goes to the feature's part of the generation.
  static func load(
    _ http: HTTPSettings, _ shared: SharedState, _ loader: inout MaterialLoader, _ parts: inout GenerationParts)
  /// A certificate that the feature has got by itself, and that is in memory alone because its file could not be written.
  static func heldCertificate(at path: String, _ shared: SharedState) -> CertifiedKey?
  /// What responds to requests before a server block is chosen for them.
  static var entryParts: [any EntryPart.Type] { get }
  /// Adds what the feature knows of the servers of groups, whose names are resolved, before a generation is made. `former`:
  /// the generation that serves until now.
  static func prepare(
    _ groups: inout [ResolvedGroup], _ http: HTTPSettings, after former: Generation?, _ parts: inout GenerationParts)
  /// What the feature keeps over generations and does without being asked (`SharedPart.serve`, `close`).
  static var sharedParts: [any SharedPart.Type] { get }
  /// What the feature keeps in a worker and does without being asked, in the order in which they are told of events.
  static var workerParts: [WorkerPart.Type] { get }
  /// The same in a worker's generation.
  static var liveParts: [LivePart.Type] { get }
  /// The feature itself, if locations have it (`DirectiveFeature.atLocations`).
  static var asLocationFeature: (any LocationFeature.Type)? { get }
  /// The feature itself, if it words errors.
  static var asErrorWording: (any ErrorWording.Type)? { get }
}

extension Feature {
  package static func measure(_ snapshot: MetricsSnapshot, _ page: inout MetricsWriter) {}
  package static func problems(_ shared: SharedState, _ generation: Generation, at now: Int64) -> [StatusProblem] { [] }
  package static func serversUp(_ generation: Generation) -> [UpstreamSeries: Bool] { [:] }
  package static func load(
    _ http: HTTPSettings, _ shared: SharedState, _ loader: inout MaterialLoader, _ parts: inout GenerationParts
  ) {}
  package static func heldCertificate(at path: String, _ shared: SharedState) -> CertifiedKey? { nil }
  package static var entryParts: [any EntryPart.Type] { [] }
  package static func prepare(
    _ groups: inout [ResolvedGroup], _ http: HTTPSettings, after former: Generation?, _ parts: inout GenerationParts
  ) {}
  package static var sharedParts: [any SharedPart.Type] { [] }
  package static var workerParts: [WorkerPart.Type] { [] }
  package static var liveParts: [LivePart.Type] { [] }
  package static var asFeature: Any? { RunningFeature(type: self) }
  package static var asLocationFeature: (any LocationFeature.Type)? { nil }
  package static var asErrorWording: (any ErrorWording.Type)? { nil }
}

/// A feature of locations, as one location has it.
package protocol LocationFeature: Feature, LocationDirectives {
  /// Adds what the requests of the location run. Called once in each worker.
  func compile(_ parts: inout LocationParts, _ makers: LiveMakers)
}

extension LocationFeature {
  package static var asLocationFeature: (any LocationFeature.Type)? { self }
  package func compile(_ parts: inout LocationParts, _ makers: LiveMakers) {}

  /// Adds what the requests of a location run of the feature, if it has the feature.
  static func compile(_ settings: LocationSettings, _ parts: inout LocationParts, _ makers: LiveMakers) {
    settings[Self.self]?.compile(&parts, makers)
  }
}

/// A feature that responds to requests.
package protocol ContentFeature: LocationFeature, ContentDirectives {}

/// A feature whose clients read sallyport's own errors elsewhere than in a page.
package protocol ErrorWording: Feature {
  /// Responds with the error. Returns false if the client reads pages.
  static func answer(_ failure: ErrorResponse, _ exchange: Exchange) -> Bool
}

extension ErrorWording {
  package static var asErrorWording: (any ErrorWording.Type)? { self }
}

/// A feature that runs, as one that is read says it of itself. A cast to this type is a comparison, and one to the protocol is a
/// search among all conformances of the program, for each feature at each start.
package struct RunningFeature {
  package let type: any Feature.Type
}

package import Crypto
import Upstream
import Enrolment
import Language
package import TLS
import Observability

/// Every feature, in the order in which nginx's modules act: steps of one phase run in it, and responses pass filters in it.
package enum Features {
  static let all: [any Feature.Type] = [
    Main.self, Workload.self, CoreHTTP.self, Listen.self, HTTP2.self, ServerNames.self, ClientBody.self,
    ResponseFraming.self,
    ACMECertificates.self, ServerTLS.self, ClientTrust.self,
    ClientLimits.self, SharedStore.self, GuessStore.self, NameResolution.self, UpstreamGroups.self, Balance.self,
    Sticky.self, HealthChecks.self,
    StreamHealthChecks.self,
    StreamCore.self, StreamPreread.self, StartTLS.self, StreamSet.self,
    Map.self, Geo.self, SplitClients.self, Keyval.self, ClientAccess.self, ClientIdentity.self, RealClientCert.self,
    RealIP.self,
    Rewrite.self,
    Referers.self, LimitExcept.self, TraceContext.self, OpenTelemetry.self, LimitReq.self, LimitConn.self,
    Access.self, SatisfyAny.self, AuthBasic.self, AuthDelay.self, AuthRequest.self,
    PathReadingRules.self,
    Signatures.self, FileSettings.self, ContentTypes.self, Mirror.self, LogSubrequest.self,
    MessageEnvelopes.self, ProxyPass.self, UpstreamPass.self, GRPC.self, StreamProxy.self, StreamReturn.self,
    StreamPass.self,
    UpstreamTLS.self, ProxyAuth.self,
    MetricsLocation.self, StatusLocation.self, APILocation.self, StubStatus.self, EnrolmentSettings.self,
    Gzip.self, LimitRate.self, AddTrailer.self,
    Expires.self, AddHeader.self, Charset.self, EarlyHints.self, ErrorPages.self, AccessLogs.self, ErrorLogs.self,
  ]

  /// Those that respond to requests in a location of `http`, or serve a connection in `stream`.
  static func contents(of kind: TrafficKind) -> [any ContentFeature.Type] {
    all.compactMap { $0 as? any ContentFeature.Type }.filter { $0.kinds.contains(kind) }
  }

  /// What connections are made with that no location names.
  package static func upstreamTLS(_ http: HTTPSettings) -> [UpstreamTLSSettings] {
    all.flatMap { $0.upstreamTLS(http) }
  }

  /// Loads what the features' files have.
  package static func load(_ http: HTTPSettings, _ loader: inout MaterialLoader) -> GenerationParts {
    var parts = GenerationParts()
    for feature in all { feature.load(http, &loader, &parts) }
    return parts
  }

  /// Those that name an upstream.
  static func ofUpstream(_ kind: TrafficKind) -> [any UpstreamFeature.Type] {
    kind == .http ? ofHTTPUpstream : ofStreamUpstream
  }
  private static let ofHTTPUpstream = upstreams(of: .http)
  private static let ofStreamUpstream = upstreams(of: .stream)
  private static func upstreams(of kind: TrafficKind) -> [any UpstreamFeature.Type] {
    all.compactMap { $0 as? any UpstreamFeature.Type }.filter { $0.kinds.contains(kind) }
  }

  /// Those that say something of what goes to an upstream.
  static func ofPass(_ kind: TrafficKind) -> [any PassFeature.Type] { kind == .http ? ofHTTPPass : ofStreamPass }
  private static let ofHTTPPass = passes(of: .http)
  private static let ofStreamPass = passes(of: .stream)
  private static func passes(of kind: TrafficKind) -> [any PassFeature.Type] {
    all.compactMap { $0 as? any PassFeature.Type }.filter { $0.kinds.contains(kind) }
  }

  static let errorWordings: [any ErrorWording.Type] = all.compactMap { $0 as? any ErrorWording.Type }

  /// What fields of upstreams' responses tell features.
  static let instructions: [UpstreamInstruction] = ofHTTPPass.compactMap { $0.instruction }

  /// The line at a level by which a feature opens bodies; nil: they go as they come.
  static func openingLine(_ scope: Scope) -> Directive? { ofHTTPPass.lazy.compactMap { $0.openingLine(scope) }.first }

  static let ofLocation: [any LocationFeature.Type] = all.compactMap { $0 as? any LocationFeature.Type }

  private static let ofHTTP = all.filter { $0.kinds.contains(.http) }
  private static let ofStream = all.filter { $0.kinds.contains(.stream) }

  static let ofHTTPLocation = ofLocation.filter { $0.kinds.contains(.http) }

  /// The certificate that a feature holds for a file that it could not write; nil: none does.
  package static func heldCertificate(at path: String, _ shared: SharedState) -> CertifiedKey? {
    all.lazy.compactMap { $0.heldCertificate(at: path, shared) }.first
  }

  static let entryParts: [any EntryPart.Type] = all.flatMap { $0.entryParts }
  private static let ofStreamServer = ofLocation.filter { $0.kinds.contains(.stream) }

  static let apiObjects: [any APIObjects] = all.flatMap { $0.apiObjects }

  /// The definitions of all features, by directive.
  static let definitions: [String: Definition] = all.reduce(into: [:]) { all, feature in
    all.merge(feature.definitions) { first, _ in first }
  }

  /// The variables of all features, by name: those of `http`.
  static let variables = variables(of: .http)
  /// Those of `stream`.
  static let streamVariables = variables(of: .stream)

  private static func variables(of kind: TrafficKind) -> [String: FeatureVariable] {
    all.reduce(into: [:]) { all, feature in
      for variable in feature.variables where variable.kinds.contains(kind) { all[variable.name] = variable }
    }
  }

  /// The rows of a chapter.
  static func directives(of chapter: Chapter) -> [DirectiveEntry] {
    all.filter { $0.chapter == chapter }.flatMap { $0.directives }
  }

  /// What a level says, for each feature that it says something of.
  static func read(_ level: Level, _ builder: inout SettingsBuilder) -> [any LocationFeature] {
    (level.isOfStream ? ofStreamServer : ofHTTPLocation).compactMap { read($0, level, &builder) }
  }

  /// Each feature's warnings of a level.
  static func judge(_ level: Level, _ builder: inout SettingsBuilder) {
    for feature in level.isOfStream ? ofStream : ofHTTP { feature.judge(level, &builder) }
  }

  private static func read<F: LocationFeature>(
    _ feature: F.Type, _ level: Level, _ builder: inout SettingsBuilder
  ) -> (any LocationFeature)? {
    feature.read(level, &builder)
  }
}

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

  /// The features' lines of the policy of a server block of `http`, of which this is the part outside locations.
  package var serverPolicy: [(label: String, text: String)] {
    Features.ofHTTPLocation.flatMap { $0.serverPolicy(self) }
  }

  /// The features' lines about who the clients of a server block are.
  package func clientPolicy(of server: ServerSettings) -> [(label: String, text: String)] {
    features.flatMap { $0.clientPolicy(of: server) }
  }

  /// Says what the features of two locations differ in.
  package static func compareFeatures(
    _ old: LocationSettings, _ new: LocationSettings, _ names: ComparedNames, _ found: inout TrustChanges
  ) {
    func compare<F: LocationFeature>(_ feature: F.Type) { F.compare(old[F.self], new[F.self], names, &found) }
    for feature in Features.ofLocation { compare(feature) }
  }
}

extension SettingsBuilder {
  /// Refuses a location with two sources of content. `line`: names a content that is not an upstream.
  mutating func refuseSecondContent(at line: Directive, _ scope: Scope) {
    guard let pass = UpstreamPass.line(in: scope) else { return }
    error(
      line.location, "\"\(line.name)\" beside \"proxy_pass\": a location can have only one content handler",
      hint: "use a separate location; proxy_pass is at \(pass.location)")
  }
}

package import Language
package import Observability
package import TLS

/// A feature, as far as a configuration is read: what its lines say, before anything runs. One that has nothing else, as the
/// names of servers, is only this.
package protocol DirectiveFeature: SendableMetatype {
  /// The chapter of the manual that has its directives.
  static var chapter: Chapter { get }
  /// In the order of the manual.
  static var directives: [DirectiveEntry] { get }
  static var variables: [FeatureVariable] { get }
  /// By the name of a directive: the variables and regular expressions that its lines define for the whole configuration.
  static var definitions: [String: Definition] { get }
  /// Whether locations of `http`, servers of `stream`, or both have the feature. Two features can have directives of one
  /// name, one in each.
  static var kinds: Set<TrafficKind> { get }
  /// Reads the lines of `http`, or of `stream`, that servers and locations refer to: zones, formats, tables.
  static func begin(_ http: Scope, _ builder: inout SettingsBuilder)
  /// Refuses or warns of directives at a level by what stands beside them: such as have no effect there, and such as mean what
  /// they mean in nginx, and let in or tell somebody whom their author hardly meant.
  static func judge(_ level: Level, _ builder: inout SettingsBuilder)
  /// The files that its lines outside locations name.
  static func fileUses(_ http: HTTPSettings) -> [FileUse]
  /// The logs that the feature writes by itself: they are opened as access logs are, and reopened with them.
  static func logFiles(_ http: HTTPSettings) -> [(path: String, location: SourceLocation?)]
  /// What connections of its own, not those of locations, are made with.
  static func upstreamTLS(_ http: HTTPSettings) -> [UpstreamTLSSettings]
  /// The files in which the process keeps what the API changes.
  static func stateFiles(_ http: HTTPSettings) -> [String]
  /// Reads the lines of the main context.
  static func begin(_ scope: Scope, _ main: inout MainSettings, _ builder: inout SettingsBuilder)
  /// Whether a server block's lines give TLS to all its listeners, whatever their own lines say.
  static func encryptsListeners(_ server: Scope, _ builder: inout SettingsBuilder) -> Bool
  /// The listeners of a server block. `place`: the block's.
  static func listenLines(
    _ server: Scope, at place: SourceLocation, allTLS: Bool, _ builder: inout SettingsBuilder
  ) -> [ListenLine]
  /// Words of `listen` that are the feature's.
  static var listenParameters: [ListenParameter] { get }
  /// Reads what lines of a server block say of the block itself, outside its locations, which were read before. A feature
  /// may complete what an earlier one in `Features.all` has read.
  static func read(_ block: inout ServerBlock, _ builder: inout SettingsBuilder)
  /// Reports lines of a server block that are valid each alone, and contradict each other or have no effect.
  static func judge(_ block: ServerBlock, _ builder: inout SettingsBuilder)
  /// Reports what contradicts itself across listeners and servers, those of `http` and of `stream` so far.
  static func judge(
    _ listeners: [ListenerSettings], _ servers: [ServerSettings], _ builder: inout SettingsBuilder)
  /// What the lines of a certificate and its key name, if the feature gets certificates by itself and one of the lines
  /// means it; nil: neither does.
  static func certificate(
    _ line: Directive, _ key: Directive?, _ server: Scope, _ builder: inout SettingsBuilder
  ) -> OwnCertificate?
  /// What the feature makes of each server block of `http`.
  static var serverParts: [any ServerPart.Type] { get }
  /// The feature itself, if its lines say something at locations, which nobody says anew; nil: they don't. A cast would say
  /// the same, but for each answer the runtime searches all conformances of the program: at each start these searches took
  /// longer than to read the configuration.
  static var atLocations: (any LocationDirectives.Type)? { get }
  /// The same for a feature that responds to requests.
  static var asContent: (any ContentDirectives.Type)? { get }
  /// The same for a feature that does more than to be read (`RunningFeature`), which this file doesn't know.
  static var asFeature: Any? { get }
  /// The same for what Forward's kinds of features say of themselves: a value whose type only Forward knows.
  static var ofForward: Any? { get }
}

extension DirectiveFeature {
  package static var variables: [FeatureVariable] { [] }
  package static var definitions: [String: Definition] { [:] }
  package static var kinds: Set<TrafficKind> { [.http] }
  package static func begin(_ http: Scope, _ builder: inout SettingsBuilder) {}
  package static func judge(_ level: Level, _ builder: inout SettingsBuilder) {}
  package static func fileUses(_ http: HTTPSettings) -> [FileUse] { [] }
  package static func logFiles(_ http: HTTPSettings) -> [(path: String, location: SourceLocation?)] { [] }
  package static func upstreamTLS(_ http: HTTPSettings) -> [UpstreamTLSSettings] { [] }
  package static func stateFiles(_ http: HTTPSettings) -> [String] { [] }
  package static func begin(_ scope: Scope, _ main: inout MainSettings, _ builder: inout SettingsBuilder) {}
  package static func encryptsListeners(_ server: Scope, _ builder: inout SettingsBuilder) -> Bool { false }
  package static func listenLines(
    _ server: Scope, at place: SourceLocation, allTLS: Bool, _ builder: inout SettingsBuilder
  ) -> [ListenLine] { [] }
  package static var listenParameters: [ListenParameter] { [] }
  package static func read(_ block: inout ServerBlock, _ builder: inout SettingsBuilder) {}
  package static func judge(_ block: ServerBlock, _ builder: inout SettingsBuilder) {}
  package static func judge(
    _ listeners: [ListenerSettings], _ servers: [ServerSettings], _ builder: inout SettingsBuilder
  ) {}
  package static func certificate(
    _ line: Directive, _ key: Directive?, _ server: Scope, _ builder: inout SettingsBuilder
  ) -> OwnCertificate? { nil }
  package static var serverParts: [any ServerPart.Type] { [] }
  package static var atLocations: (any LocationDirectives.Type)? { nil }
  package static var asContent: (any ContentDirectives.Type)? { nil }
  package static var asFeature: Any? { nil }
  package static var ofForward: Any? { nil }
}

/// What the lines of a feature say at a location: an immutable value, which all workers share.
package protocol LocationDirectives: DirectiveFeature, Sendable {
  /// Reads the directives in effect at a level. nil: the feature does nothing there. Errors go to the builder.
  static func read(_ level: Level, _ builder: inout SettingsBuilder) -> Self?
  /// The files that the location names.
  func fileUses(_ location: LocationSettings) -> [FileUse]
  /// The locations that requests reach only by way of this one.
  var conditional: [LocationSettings] { get }
  /// Lines of the level let every client in, whatever the other features of the access phase say.
  static func admitsEverybody(_ scope: Scope) -> Bool
  /// Lines of the level admit only some clients, before any phase.
  static func admitsOnlySome(_ scope: Scope) -> Bool
  /// Lines of the level itself refuse requests.
  static func refuses(_ scope: Scope) -> Bool
  /// The named locations to which requests go on, each with what sends them there and with its place.
  var namedTargets: [(name: String, act: Wording, place: SourceLocation)] { get }
  /// The line in effect at a level that keeps clients out in the access phase or later; nil: none does.
  static func guardingLine(_ scope: Scope) -> GuardingLine?
  /// What the lines of a level respond to each of its requests, before its content; nil: they don't.
  static func fixedResponse(_ scope: Scope) -> FixedResponse?
  /// A line of the level itself may set anew what regular expressions have captured.
  static func mayCapture(_ scope: Scope) -> Bool
  /// The texts with variables of which lines of the level itself say that a file of such a name must be there. Other
  /// requests don't get to the level's content.
  static func requiredFiles(_ scope: Scope) -> [String]
  /// The paths of the same server block that subrequests for requests of a level go to.
  static func subrequestPaths(_ scope: Scope) -> [String]
  /// The directive that keeps clients out of the location; nil: none does.
  var guardingDirective: String? { get }
  /// Whether some request gets a response of the feature, although it is no content.
  var mayRespond: Bool { get }
  /// A path that lacks but the slash at the end of the location's is sent to the location.
  var addsSlashes: Bool { get }
  /// Whether requests can bring the certificates of other clients than the connection's.
  var relaysClients: Bool { get }
  /// What requests of the location set variables to.
  var assignments: [Assignment] { get }
  /// The variables, by slot, whose values come from somebody who was asked about the client.
  var toldSlots: [Int] { get }
  /// Whether the client's name is that of a user whose password was checked.
  var asksPasswords: Bool { get }
  /// The names of fields that clients' requests never bring to an upstream of the server block.
  var removedFields: [[UInt8]] { get }
  /// What the feature says of who may enter the location, for `path_readings`; nil: nothing.
  var entryRule: EntryRule? { get }
  /// The fields that an upstream gets because of the directives in effect at a level, if no line sets them. One whose value
  /// is empty isn't sent, and neither is the client's.
  static func upstreamFields(_ scope: Scope) -> [(name: String, value: Template)]
  /// The location shows counts of requests and attempts. Without such a location, nobody counts them.
  var showsCounts: Bool { get }
  /// Nothing but the unix sockets of its server keeps strangers from the location, so it refuses everybody who has come by
  /// anything else.
  var isGuardedBySocket: Bool { get }
  /// Host names whose addresses the feature needs.
  var hosts: [HostUse] { get }
  /// Lines of the policy that `check` prints, each with its label.
  var policy: [(label: String, text: String)] { get }
  /// Lines of the policy of a server of `stream` for what it does before TLS.
  var openingPolicy: [(label: String, text: String)] { get }
  /// Lines of the policy of a server block, after those of its locations.
  static func serverPolicy(_ root: LocationSettings) -> [(label: String, text: String)]
  /// Lines of the policy about who the clients of a server block are, beside those of its handshakes.
  func clientPolicy(of server: ServerSettings) -> [(label: String, text: String)]
  /// What the feature asks of clients, and where it leads requests, for `sallyport ways`.
  var ways: LocationWays { get }
  /// Says what a change means for who gets in and where requests go, for `check --diff`. nil: the feature is not there.
  static func compare(_ old: Self?, _ new: Self?, _ names: ComparedNames, _ found: inout TrustChanges)
}

extension LocationDirectives {
  package func fileUses(_ location: LocationSettings) -> [FileUse] { [] }
  package var conditional: [LocationSettings] { [] }
  package static func admitsEverybody(_ scope: Scope) -> Bool { false }
  package static func admitsOnlySome(_ scope: Scope) -> Bool { false }
  package static func refuses(_ scope: Scope) -> Bool { false }
  package var namedTargets: [(name: String, act: Wording, place: SourceLocation)] { [] }
  package static func guardingLine(_ scope: Scope) -> GuardingLine? { nil }
  package static func fixedResponse(_ scope: Scope) -> FixedResponse? { nil }
  package static func mayCapture(_ scope: Scope) -> Bool { false }
  package static func requiredFiles(_ scope: Scope) -> [String] { [] }
  package static func subrequestPaths(_ scope: Scope) -> [String] { [] }
  package var guardingDirective: String? { nil }
  package var mayRespond: Bool { false }
  package var addsSlashes: Bool { false }
  package var relaysClients: Bool { false }
  package var assignments: [Assignment] { [] }
  package var toldSlots: [Int] { [] }
  package var asksPasswords: Bool { false }
  package var removedFields: [[UInt8]] { [] }
  package var entryRule: EntryRule? { nil }
  package static func upstreamFields(_ scope: Scope) -> [(name: String, value: Template)] { [] }
  package var showsCounts: Bool { false }
  package var isGuardedBySocket: Bool { false }
  package var policy: [(label: String, text: String)] { [] }
  package var openingPolicy: [(label: String, text: String)] { [] }
  package var hosts: [HostUse] { [] }
  package var ways: LocationWays { LocationWays() }
  package static func serverPolicy(_ root: LocationSettings) -> [(label: String, text: String)] { [] }
  package func clientPolicy(of server: ServerSettings) -> [(label: String, text: String)] { [] }
  package static func compare(_ old: Self?, _ new: Self?, _ names: ComparedNames, _ found: inout TrustChanges) {}
}

/// What the lines of a feature say that responds to requests. A location has the content of one feature at most: the last of `Features.all` that
/// its lines name.
package protocol ContentDirectives: LocationDirectives {
  /// The line of the level itself that names this content, whose row is the feature's first; nil: none does.
  static func line(in scope: Scope) -> Directive?
  /// The same, where other features of the list can name the content.
  static func line(in scope: Scope, of features: FeatureDirectives) -> Directive?
  /// It is for operators alone: a listener that has nothing else keeps places for its clients.
  static var isForOperators: Bool { get }
  /// What the content does, for `check --diff`.
  func words(_ http: HTTPSettings) -> String
}

extension LocationDirectives {
  package static var atLocations: (any LocationDirectives.Type)? { self }
}

extension ContentDirectives {
  package static var asContent: (any ContentDirectives.Type)? { self }
  package static var isForOperators: Bool { false }
  package static func line(in scope: Scope) -> Directive? { directives.first?.ownLine(in: scope) }
  package static func line(in scope: Scope, of features: FeatureDirectives) -> Directive? { line(in: scope) }
}

package import Crypto
package import Observability
package import Transport

/// Where requests of a location go on inside the configuration, for `sallyport ways`.
package struct RequestLead: Sendable {
  /// When the request leaves, which decides what has been asked of its client by then.
  package enum Departure: Sendable {
    /// Before the location itself is entered, for methods that `limit_except` doesn't list.
    case entrance
    /// Among the rewrite directives.
    case rewrite
    /// In place of an error with one of these codes, whatever has led to it: a refusal of the client too.
    case failure(Set<Int>)
    /// As a subrequest of the access phase. The client gets nothing of its response.
    case question
    /// As a subrequest behind the access phase. The client gets nothing of its response.
    case copy
    /// Behind the access phase, or by the content.
    case content
  }

  package enum Target: Sendable {
    /// A path of the same server block, with variables perhaps.
    case path(Template)
    case named(String)
    /// A block inside the location.
    case block(LocationSettings)
    /// Somebody else names the path or the named location.
    case anywhere
    /// A listener, for a session of `stream`. Variables may name it.
    case listener(Template)
  }

  package let departure: Departure
  package let target: Target
  /// The directive that leads there.
  package let words: String
  package let place: SourceLocation?
  /// What must hold for the request to leave; nil: it always does.
  package let condition: AccessCondition?

  package init(
    _ departure: Departure, to target: Target, _ words: String, at place: SourceLocation? = nil,
    if condition: AccessCondition? = nil
  ) {
    self.departure = departure
    self.target = target
    self.words = words
    self.place = place
    self.condition = condition
  }
}

/// A response that a location's rewrite directives send themselves.
package struct EarlyResponse: Sendable {
  package let status: Int
  package let words: String
  /// nil: every request gets it that comes so far.
  package let condition: AccessCondition?

  package init(status: Int, _ words: String, if condition: AccessCondition? = nil) {
    self.status = status
    self.words = words
    self.condition = condition
  }
}

/// How fronts whose word is taken send a client's certificate, for a trial.
package struct RelayingFronts: Sendable {
  /// One of each front that is one by its address.
  package let addresses: [SocketAddress]
  /// The lines `Name: value` for certificates, leaf first.
  package let lines: @Sendable ([Certificate]) -> [String]

  package init(at addresses: [SocketAddress], lines: @escaping @Sendable ([Certificate]) -> [String]) {
    self.addresses = addresses
    self.lines = lines
  }
}

/// What a feature says of the ways by a location, for `sallyport ways`.
package struct LocationWays: Sendable {
  package var conditions: [AccessCondition] = []
  package var leads: [RequestLead] = []
  package var responses: [EarlyResponse] = []
  /// `satisfy any`: one condition of the access phase is enough.
  package var oneIsEnough = false
  /// Every request gets a response, or goes elsewhere, before the access phase.
  package var endsEarly = false
  /// The files that a location without another content serves, in words; nil: none.
  package var files: String?
  /// Paths that requests have at the upstream in place of their own.
  package var sentPaths: [Template] = []
  /// Whose word about the client's address is taken; empty: nobody's. Then conditions on addresses judge what these say.
  package var addressesSaidBy: [String] = []
  /// Any client's word about its own address is taken.
  package var addressesSaidByAnybody = false
  /// Whose word about the client's certificate is taken; empty: nobody's.
  package var certificatesSaidBy: [String] = []
  /// Those who say which certificate a client has; nil: nobody.
  package var fronts: RelayingFronts?
  /// What whoever comes to the content can change or get by it, so that ways elsewhere open: in words.
  package var opens: [String] = []
  /// Other readings of a path are judged, too: in these words.
  package var judgedReadings: String?

  package init(
    conditions: [AccessCondition] = [], leads: [RequestLead] = [], responses: [EarlyResponse] = []
  ) {
    self.conditions = conditions
    self.leads = leads
    self.responses = responses
  }

  /// Adds what another feature says.
  package mutating func add(_ other: LocationWays) {
    conditions += other.conditions
    leads += other.leads
    responses += other.responses
    oneIsEnough = oneIsEnough || other.oneIsEnough
    endsEarly = endsEarly || other.endsEarly
    files = files ?? other.files
    sentPaths += other.sentPaths
    addressesSaidBy += other.addressesSaidBy
    addressesSaidByAnybody = addressesSaidByAnybody || other.addressesSaidByAnybody
    certificatesSaidBy += other.certificatesSaidBy
    fronts = fronts ?? other.fronts
    opens += other.opens
    judgedReadings = judgedReadings ?? other.judgedReadings
  }
}

extension LocationSettings {
  /// What all features say of the ways by the location.
  package var ways: LocationWays {
    var ways = LocationWays()
    for feature in features { ways.add(feature.ways) }
    return ways
  }
}

import Identity
import Observability

/// What the features of a location add to it, in one worker.
struct LocationParts {
  /// All that the configuration says of the location.
  let settings: LocationSettings
  /// Whether the location is the part of a server block outside its locations.
  let isOfServer: Bool
  var steps = PhaseSteps()
  /// What a server block itself does before a location is found.
  var server = ServerEntry()
  /// Which clients may enter the location; nil: all. Each entry asks, also that by an internal redirect.
  var clientRules: ClientRules?
  /// The content of a location that names none; nil: there is none then.
  var fallback: LiveContent?
  /// The error log says which variables of `set` have no value.
  var warnsOfUnset = true
  /// The Content-Type of texts.
  var types = TypeSettings()
  /// nil: the location has no content of its own.
  var content: LiveContent?
  /// What happens to the heads of the responses, the first filter first.
  var headFilters: [HeadFilter] = []
  /// What happens to the responses, the first filter first.
  var filters: [ResponseFilter] = []
  /// What happens to interim responses of an upstream.
  var interimHooks: [InterimHook] = []
  /// What is written of an exchange that ends here, in order.
  var logSteps: [LogStep] = []
  /// nil: that of the main level.
  var errorLog: ErrorLog?
  /// What a feature's variables or the way of a request ask for, by its type.
  var objects: [AnyObject] = []
  /// The locations inside that have the content of this one.
  var blocks: [LocationBlock] = []
  /// nil: each request that comes to the location stays there.
  var entrance: LocationEntrance?
  /// nil: errors have the standard pages.
  var errorResponder: ErrorResponder?
  /// nil: a denial of the access phase is responded to at once.
  var denialResponder: DenialResponder?

  init(_ settings: LocationSettings, isOfServer: Bool) {
    self.settings = settings
    self.isOfServer = isOfServer
  }
}

/// What the features of a server block do with its requests before a location is found, in one worker.
struct ServerEntry {
  /// nil: the client has the address of the connection's peer.
  var addressStep: ClientAddressStep?
  /// nil: the client of the connection is that of its requests.
  var relayedClientStep: RelayedClientStep?
  var rewrite: [PhaseStep] = []
}

/// Sends some requests that come to a location to another one.
class LocationEntrance {
  /// nil: the request stays.
  func other(for exchange: Exchange) -> LiveLocation? { nil }
}

/// A location that requests reach only by way of the one around it: the block of an `if` or a `limit_except`.
struct LocationBlock {
  let settings: LocationSettings
  /// The rewrite steps that it has from the location around it; an exchange runs the rest of them there.
  let rewrite: [PhaseStep]
  /// Takes the location, when it is compiled.
  let didCompile: (LiveLocation) -> Void

  init(settings: LocationSettings, rewrite: [PhaseStep] = [], didCompile: @escaping (LiveLocation) -> Void) {
    self.settings = settings
    self.rewrite = rewrite
    self.didCompile = didCompile
  }
}

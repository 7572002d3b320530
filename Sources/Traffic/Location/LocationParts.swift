package import Identity
package import Observability

/// What the features of a location add to it, in one worker.
package struct LocationParts {
  /// All that the configuration says of the location.
  package let settings: LocationSettings
  /// Whether the location is the part of a server block outside its locations.
  package let isOfServer: Bool
  package var steps = PhaseSteps()
  /// What a server block itself does before a location is found.
  package var server = ServerEntry()
  /// Which clients may enter the location; nil: all. Each entry asks, also that by an internal redirect.
  package var clientRules: ClientRules?
  /// The content of a location that names none; nil: there is none then.
  package var fallback: LiveContent?
  /// The error log says which variables of `set` have no value.
  package var warnsOfUnset = true
  /// The Content-Type of texts.
  package var types = TypeSettings()
  /// nil: the location has no content of its own.
  package var content: LiveContent?
  /// What happens to the heads of the responses, the first filter first.
  package var headFilters: [HeadFilter] = []
  /// What happens to the responses, the first filter first.
  package var filters: [ResponseFilter] = []
  /// What happens to interim responses of an upstream.
  package var interimHooks: [InterimHook] = []
  /// What is written of an exchange that ends here, in order.
  package var logSteps: [LogStep] = []
  /// What is told of the clients of a server block; nobody asks other locations.
  package var watches: [ClientWatch] = []
  /// nil: that of the main level.
  package var errorLog: ErrorLog?
  /// What a feature's variables or the way of a request ask for, by its type.
  package var objects: [AnyObject] = []
  /// The locations inside that have the content of this one.
  package var blocks: [LocationBlock] = []
  /// nil: each request that comes to the location stays there.
  package var entrance: LocationEntrance?
  /// nil: errors have the standard pages.
  package var errorResponder: ErrorResponder?
  /// nil: a denial of the access phase is responded to at once.
  package var denialResponder: DenialResponder?

  package init(_ settings: LocationSettings, isOfServer: Bool) {
    self.settings = settings
    self.isOfServer = isOfServer
  }
}

/// What the features of a server block do with its requests before a location is found, in one worker.
package struct ServerEntry {
  /// nil: the client has the address of the connection's peer.
  package var addressStep: ClientAddressStep?
  /// nil: the client of the connection is that of its requests.
  package var relayedClientStep: RelayedClientStep?
  package var rewrite: [PhaseStep] = []
}

/// Sends some requests that come to a location to another one.
open class LocationEntrance {
  public init() {}

  /// nil: the request stays.
  open func other(for exchange: Exchange) -> LiveLocation? { nil }
}

/// A location that requests reach only by way of the one around it: the block of an `if` or a `limit_except`.
package struct LocationBlock {
  package let settings: LocationSettings
  /// The rewrite steps that it has from the location around it; an exchange runs the rest of them there.
  package let rewrite: [PhaseStep]
  /// Takes the location, when it is compiled.
  let didCompile: (LiveLocation) -> Void

  package init(settings: LocationSettings, rewrite: [PhaseStep] = [], didCompile: @escaping (LiveLocation) -> Void) {
    self.settings = settings
    self.rewrite = rewrite
    self.didCompile = didCompile
  }
}

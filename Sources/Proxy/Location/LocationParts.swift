import Identity

/// What the features of a location add to it, in one worker.
struct LocationParts {
  /// All that the configuration says of the location.
  let settings: LocationSettings
  /// Whether the location is the part of a server block outside its locations.
  let isOfServer: Bool
  var steps = PhaseSteps()
  /// Which clients may enter the location; nil: all. Each entry asks, also that by an internal redirect.
  var clientRules: ClientRules?
  /// nil: the location has no content of its own.
  var content: LiveContent?
  /// What happens to the responses, the first filter first.
  var filters: [ResponseFilter] = []
  /// What a feature's variables or the way of a request ask for, by its type.
  var objects: [AnyObject] = []

  init(_ settings: LocationSettings, isOfServer: Bool) {
    self.settings = settings
    self.isOfServer = isOfServer
  }
}

/// What the features of a location add to it, in one worker.
struct LocationParts {
  var steps = PhaseSteps()
  /// What happens to the responses, the first filter first.
  var filters: [ResponseFilter] = []
  /// What a feature's variables or the way of a request ask for, by its type.
  var objects: [AnyObject] = []
}

import Traffic

/// A file with a state that the API wrote, and that has none any more: after a fault of the disk, a copy that ended
/// early, or a change by hand. It costs its zone or group what it knew, and nothing else stops.
package enum DamagedState {
  /// What happens to the file, for a diagnostic's hint.
  package static let keeping = "a start or a reload gives the file a name that ends in .damaged"
}

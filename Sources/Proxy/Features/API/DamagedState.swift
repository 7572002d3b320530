package import Upstream

/// A file with a state that the API wrote, and that has none any more: after a fault of the disk, a copy that ended
/// early, or a change by hand. It costs its zone or group what it knew, and nothing else stops.
package enum DamagedState {
  /// What happens to the file, for a diagnostic's hint.
  package static let keeping = "a start or a reload gives the file a name that ends in .damaged"
}

extension SharedState {
  /// Writes the servers that this process knows of a group to its `state`, in place of a damaged file. Blocks.
  package func rewriteState(of group: UpstreamGroupSettings) throws(ServerState.Fault) {
    guard let path = group.stateFile, let lines = groupLists.lines(of: group) else { return }
    try ServerState.write(lines, to: path, isOfStream: group.isOfStream)
  }
}

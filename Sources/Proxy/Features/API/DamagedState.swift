package import Crypto
import Glibc
package import Upstream

/// A file with a state that the API wrote, and that has none any more: after a fault of the disk, a copy that ended
/// early, or a change by hand. It costs its zone or group what it knew, and nothing else stops.
package enum DamagedState {
  /// What happens to the file, for a diagnostic's hint.
  package static let keeping = "a start or a reload gives the file a name that ends in .damaged"

  private static let most = 99

  /// Gives the file another name, so that no later state replaces it. Returns that name. Blocks.
  package static func setAside(_ path: String) throws(NewFile.Failure) -> String {
    let names = ["\(path).damaged"] + (2...most).map { "\(path).damaged.\($0)" }
    // With so many, the last one is replaced.
    let name = names.first { access($0, F_OK) != 0 } ?? "\(path).damaged.\(most)"
    guard rename(path, name) == 0 else { throw NewFile.Failure("rename", path) }
    try NewFile.sync(NewFile.folder(of: path))
    return name
  }
}

extension SharedState {
  /// Writes the servers that this process knows of a group to its `state`, in place of a damaged file. Blocks.
  package func rewriteState(of group: UpstreamGroupSettings) throws(ServerState.Fault) {
    guard let path = group.stateFile, let lines = groupLists.lines(of: group) else { return }
    try ServerState.write(lines, to: path, isOfStream: group.isOfStream)
  }
}

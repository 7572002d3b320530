import Observability
import Traffic
import Transport
import Upstream

extension Worker {
  /// What requests to the API have changed and no `state` keeps: it ends with the process.
  package var forgottenChanges: [String] {
    guard let live else { return [] }
    var lines: [String] = []
    for group in live.zonedGroups where group.settings.stateFile == nil {
      let name = group.settings.name, changes = group.changedServers
      for member in group.members {
        if changes.added.contains(member.address) {
          lines.append("server \(member.address) of upstream \"\(name)\", which was added")
        } else if member.isChanged {
          let state = member.isDown ? ", which was set down" : member.isDraining ? ", which was draining" : ""
          lines.append("the change of server \(member.address) of upstream \"\(name)\"\(state)")
        }
      }
      lines += changes.removed.map { "the removal of server \($0) from upstream \"\(name)\"" }.sorted()
    }
    if let override = metrics.process.logLevels?.current {
      lines.append(
        "the level \(override.level.name) of error logs, which had \(DurationWords.of(seconds: Int64(clamping: override.rest()))) left"
      )
    }
    return lines + shared.apiFeatures.all.flatMap { $0.forgottenChanges(live, now: loop.now) }
  }
}

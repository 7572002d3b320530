import Configuration
import Language
import Traffic
import Transport

extension HealthAnswer {
  /// The lines of a configuration's files that don't serve, in one sentence; nil: all of them do, or nobody can tell. `now`:
  /// the files as they are, the main one first.
  package func unserved(_ now: [(path: String, bytes: [UInt8])]) -> String? {
    let places = sources.differences(from: now)
    if places.isEmpty { return nil }
    let more = places.count > Self.mostPlaces ? ["and \(places.count - Self.mostPlaces) more"] : []
    let words = (places.prefix(Self.mostPlaces) + more).joined(separator: "; ")
    return "the files say something else than what serves\(refusedReload == nil ? ", until a reload" : ""): \(words)"
  }

  private static let mostPlaces = 8
}

/// What a configuration says and the process that runs it doesn't have, and the other way round: lines and addresses, for
/// `sallyport check --running`.
package enum ListenDifference {
  /// Empty if no process answers for the configuration, or if nothing differs. Addresses are not compared if the configuration
  /// can't be read, or if there are too many of them to tell.
  package static func lines(configuration path: String) -> [String] {
    let report = HealthQuestion(HealthName.names(configuration: path), sought: path, within: 3, onlyLive: true).ask()
    guard let answer = report.answer, let process = report.process else { return [] }
    let refused = answer.refusedReload.map { ["the last reload was refused: \($0)"] } ?? []
    let told = refused + (answer.unserved(ConfigurationDump(ConfigurationSource(path)).files).map { [$0] } ?? [])
    guard answer.listeners.count < HealthAnswer.maximumListeners,
      let listeners = Configuration.read(path: path).settings?.http.listeners
    else { return told }
    return told + lines(listeners, bound: answer.listeners.map(\.address), by: process) { SocketHolder.find($0) }
  }

  /// `bound`: what the process has. `holder`: who has an address that the process doesn't have.
  static func lines(
    _ listeners: [ListenerSettings], bound: [String], by process: Int32, holder: (BoundAddress) -> SocketHolder?
  ) -> [String] {
    let held = bound.compactMap { HealthQuestion.bound($0) }
    var lines: [String] = []
    for listener in listeners {
      guard let address = BoundAddress(listener), !bound.contains("\(listener.address)") else { continue }
      let missing = "process \(process) does not listen on \(listener.address), which the file names"
      if let own = held.first(where: { $0.overlaps(address) }) {
        lines.append("\(missing): a reload takes that over from \(own.address)")
      } else if let other = holder(address), other.process?.identifier != process {
        lines.append("\(missing), and can't: \(other.words)")
      } else {
        lines.append("\(missing): a reload does")
      }
    }
    // What a socket unit has is bound under an address that the file doesn't say.
    let hasUnits = listeners.contains { BoundAddress($0) == nil }
    for address in bound where !hasUnits && !listeners.contains(where: { "\($0.address)" == address }) {
      lines.append("process \(process) listens on \(address), which the file does not name: a reload gives it up")
    }
    return lines
  }
}

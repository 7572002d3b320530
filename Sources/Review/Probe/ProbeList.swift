import Crypto
import Observability
package import TLS
package import Transport

/// The lines of `sallyport probe --config FILE` for servers that need no whole report.
package enum ProbeList {
  /// A server with which all is well.
  package static func line(
    _ report: ProbeReport, of url: String, at address: SocketAddress, places: [String]
  ) -> String {
    let facts = [report.protocolName, report.presented.map { "we present \($0.subject)" } ?? ""]
    let words = facts.filter { !$0.isEmpty }.joined(separator: ", ")
    var note = ""
    if case .reportOnly(let warning) = report.trust { note = "; \(warning)" }
    return LogEscape.visible("ok      \(url) at \(address): \(words)\(note)") + forLines(places)
  }

  /// An upstream that was not looked at.
  package static func line(_ unprobed: ProbePlan.Unprobed) -> String {
    LogEscape.visible("skipped \(unprobed.target): \(unprobed.reason)") + forLines([unprobed.place])
  }

  private static func forLines(_ places: [String]) -> String {
    places.map { "\n        for \(LogEscape.visible($0))" }.joined()
  }

  /// The last line: how many servers there are, and with which of them something is wrong.
  package static func verdict(_ outcomes: [(server: String, isWell: Bool)]) -> String {
    let bad = outcomes.filter { !$0.isWell }.map(\.server)
    let count = outcomes.count.of("server")
    if bad.isEmpty { return "\(count): all well" }
    return LogEscape.visible("\(count): \(bad.count) not well: \(bad.joined(separator: ", "))")
  }
}

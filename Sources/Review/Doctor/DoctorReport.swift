import Observability

/// What `sallyport doctor` found: a page that a person reads in a minute, or JSON for a ticket. It has names of files,
/// addresses, subjects of certificates and counts; it has no key, no password and no line of the configuration.
package struct DoctorReport: Sendable {
  /// In the order of their weight.
  package enum State: String, Sendable, CaseIterable {
    case good, unknown, warning, failed

    /// The first word of a line.
    var word: String {
      switch self {
      case .good: "ok    "
      case .unknown: "?     "
      case .warning: "WARN  "
      case .failed: "FAILED"
      }
    }
  }

  /// In the order of the page.
  package enum Section: String, Sendable, CaseIterable {
    case service, machine, configuration, listeners, upstreams, certificates, orders, stores, changes
  }

  package struct Finding: Sendable, Equatable {
    package let section: Section
    package let state: State
    package let text: String
  }

  package private(set) var findings: [Finding] = []

  package init() {}

  package mutating func add(_ section: Section, _ state: State, _ text: String) {
    findings.append(Finding(section: section, state: state, text: LogEscape.visible(text.onOneLine)))
  }

  package func count(_ state: State) -> Int { findings.reduce(0) { $0 + ($1.state == state ? 1 : 0) } }

  /// Nothing has failed, and nobody has to look at anything.
  package var state: State { count(.failed) > 0 ? .failed : count(.warning) > 0 ? .warning : .good }

  // MARK: For a person

  /// What is wrong comes first, each with its section. Below stands a line for each section with what is well.
  /// `isVerbose`: a line for each finding that is well.
  package func lines(isVerbose: Bool) -> [String] {
    var lines = ["\(count(.failed)) failed, \(count(.warning)) to look at, \(count(.good)) well", ""]
    for state in [State.failed, .warning, .unknown] {
      lines += findings.filter { $0.state == state }.map(Self.line)
    }
    if count(.good) < findings.count { lines.append("") }
    for section in Section.allCases {
      let good = findings.filter { $0.section == section && $0.state == .good }
      if isVerbose || good.count == 1 {
        lines += good.map(Self.line)
      } else if !good.isEmpty {
        lines.append(Self.line(section, .good, "\(good.count) checks, such as: \(good[0].text)"))
      }
    }
    return lines
  }

  private static func line(_ finding: Finding) -> String { line(finding.section, finding.state, finding.text) }

  private static func line(_ section: Section, _ state: State, _ text: String) -> String {
    let name = section.rawValue
    return "\(state.word)  \(name)\(String(repeating: " ", count: max(1, 15 - name.utf8.count)))\(text)"
  }

  // MARK: For a program

  /// One object. Names never change; new ones may be added.
  package func json(version: String, now: Int64) -> String {
    var json = JSONText()
    json.object { json in
      json.member("state", state.rawValue)
      json.member("version", version)
      json.member("time", now)
      json.array("findings", findings) { finding, json in
        json.object {
          $0.member("section", finding.section.rawValue)
          $0.member("state", finding.state.rawValue)
          $0.member("text", finding.text)
        }
      }
    }
    return json.text
  }
}

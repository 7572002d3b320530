/// Something that an operator should look at, for the top of the status page.
package struct StatusProblem: Equatable {
  /// In the order of the page.
  package enum Severity: String, CaseIterable {
    /// Clients or upstreams are affected now.
    case error
    /// It will be an error, or may be one.
    case warning
  }

  /// What it is about, in the order of the page among problems of one severity.
  package enum Topic: CaseIterable {
    case reload, files, workload, renewals, certificates, lists, refusals, spans, stores, ongoing, upstreams, process
  }

  let topic: Topic
  package let severity: Severity
  package let text: String

  package init(_ topic: Topic, _ severity: Severity, _ text: String) {
    self.topic = topic
    self.severity = severity
    self.text = text
  }

  /// Errors first, and the problems of one topic in the order in which they were told.
  package static func inOrder(_ problems: [StatusProblem]) -> [StatusProblem] {
    Severity.allCases.flatMap { severity in
      Topic.allCases.flatMap { topic in problems.filter { $0.severity == severity && $0.topic == topic } }
    }
  }
}

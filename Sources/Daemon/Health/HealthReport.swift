import Glibc
import Observability

/// One thing that `sallyport health` found, for a line of its own.
package struct HealthFact: Sendable, Hashable {
  package enum Subject: String, Sendable, Hashable {
    case process, generation, reload, workers, listener, certificate
  }

  package let subject: Subject
  package let isGood: Bool
  package let text: String
}

/// What `sallyport health` found: healthy if every fact is good.
package struct HealthReport: Sendable, Hashable {
  package private(set) var facts: [HealthFact] = []
  /// What the process said; nil if no process answered.
  package private(set) var answer: HealthAnswer?
  package private(set) var process: Int32?

  package var isHealthy: Bool { facts.allSatisfy(\.isGood) }

  /// No process answered.
  init(failure: String) { add(.process, false, failure) }

  init(_ answer: HealthAnswer, process: Int32, user: UInt32) {
    self.answer = answer
    self.process = process
    add(
      .process, true, "\(process) of user \(user), sallyport \(answer.version), configuration \(answer.configuration)")
    add(.generation, answer.generation > 0, "\(answer.generation)")
    // The former generation serves on, so this does not make the process unhealthy.
    if let refused = answer.refusedReload { add(.reload, true, "the last one was refused: \(refused)") }
    let answering = answer.workers - answer.silent.count
    let silent = answer.silent.map { "\($0)" }.joined(separator: ", ")
    add(
      .workers, answering > 0 && answer.silent.isEmpty,
      "\(answering) of \(answer.workers) answer" + (silent.isEmpty ? "" : "; silent: \(silent)"))
  }

  mutating func add(_ subject: HealthFact.Subject, _ isGood: Bool, _ text: String) {
    facts.append(HealthFact(subject: subject, isGood: isGood, text: text))
  }

  /// Judges the certificates that the process presents, by this machine's clock.
  mutating func judgeCertificates(now: Int64) {
    guard let answer else { return }
    for certificate in answer.certificates {
      let (isGood, text) = Self.judge(certificate, now)
      add(.certificate, isGood, "\(certificate.file) \(text)")
    }
    let left = answer.certificateCount - answer.certificates.count
    if left > 0 { add(.certificate, true, "\(left) more, which end later") }
  }

  private static func judge(_ certificate: HealthAnswer.Validity, _ now: Int64) -> (isGood: Bool, text: String) {
    guard let begin = certificate.notBefore, let end = certificate.notAfter else {
      return (false, "has a validity that can't be read")
    }
    if begin > now { return (false, "is not valid yet: it begins \(days(begin.subtractingReportingOverflow(now)))") }
    // As OpenSSL, which counts the last second as past.
    if end <= now { return (false, "has expired") }
    return (true, "is valid and ends \(days(end.subtractingReportingOverflow(now)))")
  }

  private static func days(_ distance: (partialValue: Int64, overflow: Bool)) -> String {
    let seconds = distance.overflow ? Int64.max : distance.partialValue
    return seconds < 86_400 ? "within a day" : "in \(seconds / 86_400) \(seconds / 86_400 == 1 ? "day" : "days")"
  }

  // MARK: Text

  /// Root asks processes of strangers, too. So control characters are escaped, which a terminal would obey.
  package var lines: [String] {
    facts.map { LogEscape.visible("\($0.isGood ? "ok    " : "FAILED")  \($0.subject.rawValue): \($0.text)") }
  }

  package var json: String {
    var text = JSONText()
    text.object { object in
      object.member("healthy", isHealthy)
      object.member("process", process.map { Int($0) })
      object.member("version", answer?.version)
      object.member("configuration", answer?.configuration)
      object.member("generation", answer?.generation)
      object.member("workers", answer?.workers)
      object.member("workersAnswering", answer.map { $0.workers - $0.silent.count })
      object.member("reloadRefused", answer?.refusedReload)
      object.array("facts", facts) { fact, array in
        array.object {
          $0.member("subject", fact.subject.rawValue)
          $0.member("ok", fact.isGood)
          $0.member("text", fact.text)
        }
      }
    }
    return text.text
  }
}

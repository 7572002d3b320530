import Crypto
import Features
import Forward
import Glibc
import Observability
import Traffic

/// One thing that `sallyport health` found, for a line of its own.
package struct HealthFact: Sendable, Hashable {
  package enum Subject: String, Sendable, Hashable {
    case process, generation, reload, workers, listener, certificate
    case authority = "CA"
    case list = "revocation list"
    case spiffe = "SPIFFE"
    case store = "shared store"
    case file
    case register, log
    case state = "state file"
    case staple = "OCSP response"
    case refusals = "refused clients"
    case upstream

    /// `kind`: that of a fault that goes on.
    init(kind: String) {
      self =
        switch OngoingFaults.Kind(rawValue: kind) {
        case .register, .upkeep: .register
        case .state: .state
        case .staple: .staple
        case .log, .record: .log
        case nil where kind == HealthAnswer.Fault.refusals: .refusals
        case nil where kind == HealthAnswer.Fault.connections: .workers
        case nil where kind == HealthAnswer.Fault.upstream: .upstream
        case .helper, nil: .process
        }
    }
  }

  /// In the order of their weight.
  package enum State: String, Sendable, Hashable, Comparable, CaseIterable {
    case good
    /// The process serves. Somebody should look, before it doesn't.
    case warning
    case failed

    package static func < (one: Self, other: Self) -> Bool { one.weight < other.weight }
    private var weight: Int { Self.allCases.firstIndex(of: self) ?? 0 }

    /// The first word of a line.
    var word: String {
      switch self {
      case .good: "ok    "
      case .warning: "WARN  "
      case .failed: "FAILED"
      }
    }
  }

  package let subject: Subject
  package let state: State
  package let text: String
}

/// What `sallyport health` found: as healthy as its worst fact.
package struct HealthReport: Sendable, Hashable {
  package private(set) var facts: [HealthFact] = []
  /// What the process said; nil if no process answered.
  package private(set) var answer: HealthAnswer?
  package private(set) var process: Int32?
  /// Who had taken the process's name when it answered.
  package private(set) var user: UInt32?

  package var state: HealthFact.State { facts.map(\.state).max() ?? .good }

  /// The same for a probe that takes a process out of service: one that keeps the former content of a file serves, and all
  /// machines that got the same broken file, or ask the same upstream, would go at once.
  package var readiness: HealthFact.State {
    facts.filter { ![.file, .upstream].contains($0.subject) }.map(\.state).max() ?? .good
  }

  /// No process answered.
  init(failure: String) { add(.process, .failed, failure) }

  init(_ answer: HealthAnswer, process: Int32, user: UInt32) {
    self.answer = answer
    self.process = process
    self.user = user
    add(
      .process, .good, "\(process) of user \(user), sallyport \(answer.version), configuration \(answer.configuration)")
    add(.generation, answer.generation > 0 ? .good : .failed, "\(answer.generation)")
    let answering = answer.workers - answer.silent.count
    let silent = answer.silent.map { "\($0)" }.joined(separator: ", ")
    add(
      .workers, answering > 0 && answer.silent.isEmpty ? .good : .failed,
      "\(answering) of \(answer.workers) answer" + (silent.isEmpty ? "" : "; silent: \(silent)"))
  }

  mutating func add(_ subject: HealthFact.Subject, _ state: HealthFact.State, _ text: String) {
    facts.append(HealthFact(subject: subject, state: state, text: text))
  }

  /// The former generation serves on, and a restart would end it.
  mutating func judgeReload() {
    if let refused = answer?.refusedReload { add(.reload, .warning, "the last one was refused: \(refused)") }
  }

  /// Judges what the process presents and what it verifies others by, by this machine's clock.
  mutating func judgeEnds(now: Int64) {
    guard let answer else { return }
    for certificate in answer.certificates {
      let (state, text) = Self.judge(certificate, answer.notice, now)
      add(.certificate, state, "\(certificate.file) \(text)")
    }
    if let problem = answer.workloadProblem { add(.spiffe, problem.isFatal ? .failed : .warning, problem.text) }
    let left = answer.certificateCount - answer.certificates.count
    if left > 0 { add(.certificate, .good, "\(left) more, which end later") }
    // A file of CAs may hold many, and some that have ended and that nobody uses. So only these are told.
    for authority in answer.authorities {
      let (state, text) = Self.judge(authority, answer.notice, now)
      if state != .good { add(.authority, .warning, "\(authority.file) \(text)") }
    }
    for file in answer.files { add(.file, file.isStale ? .failed : .warning, file.text) }
    for fault in answer.faults {
      add(HealthFact.Subject(kind: fault.kind), fault.isFatal ? .failed : .warning, fault.text)
    }
    for store in answer.stores { add(.store, store.isGood ? .good : .warning, store.text) }
    for list in answer.lists { judge(list, answer.notice, now) }
    for trouble in answer.troubles { add(.certificate, trouble.isServing ? .warning : .failed, trouble.text) }
  }

  private mutating func judge(_ list: HealthAnswer.List, _ notice: ExpiryNotice, _ now: Int64) {
    let name = "that of \(list.issuer)"
    let ends = list.end.map { ExpiryWords.ends($0, at: now) } ?? "has no end"
    switch notice.listAge(from: list.update, to: list.end, at: now) {
    case .future:
      let others = answer?.lists.filter { $0.issuer == list.issuer && $0.update <= now && $0.end ?? .max > now } ?? []
      let words = "\(name) is of the future, so its CA or this machine has a wrong clock"
      if others.isEmpty {
        add(.list, .failed, "\(words): everybody of this CA is refused")
      } else {
        add(.list, .warning, "\(words): the one before is in use")
      }
    case .begun(.valid): add(.list, .good, "\(name) \(ends)")
    case .begun(.ending): add(.list, .warning, "\(name) \(ends)")
    case .begun(.ended): add(.list, .failed, "\(name) has ended: everybody of this CA is refused")
    }
  }

  private static func judge(
    _ certificate: HealthAnswer.Validity, _ notice: ExpiryNotice, _ now: Int64
  ) -> (state: HealthFact.State, text: String) {
    guard let begin = certificate.notBefore, let end = certificate.notAfter else {
      return (.failed, "has a validity that can't be read")
    }
    if begin > now { return (.failed, "is not valid yet: it begins \(ExpiryWords.span(from: now, to: begin))") }
    switch notice.age(from: begin, to: end, at: now) {
    case .valid: return (.good, "is valid and \(ExpiryWords.ends(end, at: now))")
    case .ending: return (.warning, ExpiryWords.ends(end, at: now))
    case .ended: return (.failed, "has expired")
    }
  }

  // MARK: Text

  /// Root asks processes of strangers, too. So control characters are escaped, which a terminal would obey.
  package var lines: [String] {
    facts.map { LogEscape.visible("\($0.state.word)  \($0.subject.rawValue): \($0.text)") }
  }

  package var json: String {
    var text = JSONText()
    text.object { object in
      object.member("healthy", state != .failed)
      object.member("state", state.rawValue)
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
          $0.member("ok", fact.state != .failed)
          $0.member("state", fact.state.rawValue)
          $0.member("text", fact.text)
        }
      }
    }
    return text.text
  }
}

import Traffic
import Forward
import Features
import Crypto
import Dispatch
import Glibc
import Language
import Observability
import TLS
import TestSupport
import Testing
import Transport

@testable import Daemon

@Suite struct `The answer to a question about health` {
  private static var full: HealthAnswer {
    var answer = HealthAnswer()
    answer.version = "1.2.3"
    answer.configuration = "/etc/sally port/x.conf"
    answer.generation = 7
    answer.workers = 4
    answer.silent = [1, 3]
    answer.refusedReload = "x.conf:1:2: error: unknown directive \"x\""
    answer.reload = ReloadResult(number: 3, state: .refused, words: "a b")
    answer.reopening = ReloadResult(number: 1, words: "the logs are open anew")
    (answer.failedReplacements, answer.failedReplacement) = (2, "it ended before it served")
    answer.listeners = [
      .init(opening: .tls, expectsHeader: true, address: "[::]:443"),
      .init(opening: .plain, expectsHeader: false, address: "unix:/run/a b"),
      .init(opening: .refusingTLS, expectsHeader: false, address: "10.0.0.1:1"),
      .init(opening: .postgres, expectsHeader: false, address: "10.0.0.1:2"),
    ]
    answer.mark = HealthMark(bytes: Array(0..<16))
    answer.sources = SourceMarks([("/etc/a b.conf", Array("x;\ny;\n".utf8)), ("/etc/c.conf", [])])
    answer.certificates = [
      .init(notBefore: -5, notAfter: 9, file: "a b.crt"), .init(notBefore: nil, notAfter: nil, file: "c"),
    ]
    answer.certificateCount = 2
    answer.authorities = [.init(notBefore: 1, notAfter: 2, file: "CN=a b")]
    answer.lists = [.init(update: 1, end: 2, issuer: "CN=a b"), .init(update: -3, end: nil, issuer: "CN=c")]
    answer.notice = .before(seconds: 5)
    answer.workloadProblem = (false, "the agent can't be followed")
    answer.faults = [.init(kind: "helper", text: "a b has ended"), .init(kind: "later", text: "c")]
    answer.files = [.init(isStale: true, text: "NOT in effect: a b"), .init(isStale: false, text: "c")]
    return answer
  }

  @Test func `comes back as it was`() throws {
    #expect(HealthAnswer(text: Self.full.text) == Self.full)
    var empty = HealthAnswer()
    empty.version = "-"
    empty.configuration = "-"
    #expect(HealthAnswer(text: HealthAnswer().text) == empty)
  }

  @Test func `keeps each value on its line`() throws {
    var answer = Self.full
    answer.refusedReload = "a\nworkers 9\nend\n"
    #expect(HealthAnswer(text: answer.text)?.workers == 4)
    answer.refusedReload = String(repeating: "x", count: 1 << 20)
    answer.listeners = Array(repeating: answer.listeners[0], count: 5000)
    answer.certificates = Array(repeating: answer.certificates[0], count: 5000)
    #expect(answer.text.utf8.count < HealthAnswer.maximumLength)
    #expect(HealthAnswer(text: answer.text)?.listeners.count == HealthAnswer.maximumListeners)
  }

  @Test func `what the files said comes whole or not at all, because a part would look like a difference`() throws {
    var answer = Self.full
    let main = [UInt8](repeating: 0x61, count: 20_001).enumerated().map { $0.offset % 2 == 1 ? 0x0A : $0.element }
    answer.sources = SourceMarks([("/etc/a.conf", main)])
    #expect(try #require(HealthAnswer(text: answer.text)).sources.files.isEmpty)
    answer.sources = SourceMarks([("/etc/a.conf", Array(main.prefix(8_000)))])
    #expect(HealthAnswer(text: answer.text) == answer)
    (answer.sources, answer.refusedReload) = (SourceMarks([("/etc/a.conf", Array("a;\n".utf8))]), nil)
    #expect(answer.unserved([("/etc/a.conf", Array("a;\n".utf8))]) == nil && answer.unserved([]) == nil)
    #expect(
      answer.unserved([("x/a.conf", Array("a;\nb;\n".utf8))])
        == "the files say something else than what serves, until a reload: x/a.conf:2")
  }

  @Test func `a hint stands behind its message, on the same line`() throws {
    var answer = Self.full
    answer.refusedReload =
      Diagnostic(.error, at: nil, "unknown directive \"lisen\"", hint: "did you mean \"listen\"?").description
    let words = "error: unknown directive \"lisen\"; hint: did you mean \"listen\"?"
    #expect(HealthAnswer(text: answer.text)?.refusedReload == words)
    #expect(ReloadResult(number: 1, state: .refused, words: answer.refusedReload ?? "").line == "1 refused \(words)\n")
  }

  @Test func `no process writes to the terminal of who asks`() throws {
    let text = HealthAnswer().text.replacing("version -", with: "version \u{1B}[2J\u{9B}31m")
    let report = HealthReport(try #require(HealthAnswer(text: text)), process: 1, user: 2)
    #expect(
      report.lines[0].contains("\\")
        && !report.lines[0].unicodeScalars.contains { $0.value == 0x1B || $0.value == 0x9B })
  }

  @Test func `is taken whole or not at all`() {
    let text = Self.full.text
    for count in 0..<text.utf8.count {
      #expect(HealthAnswer(text: String(decoding: text.utf8.prefix(count), as: UTF8.self)) == nil)
    }
    for wrong in [
      "workers -1", "workers x", "silent -1", "listener tls", "listener odd bare x", "certificate 1 x y", "word",
      "authority 1 x y", "list 1", "list x 1 a",
      "list 1 x a", "notice -1", "notice x",
      "replacement 1", "replacement x y", "fault helper", "mark 00", "mark x", "marks 0000", "marks x",
    ] {
      #expect(HealthAnswer(text: text.replacing("\nend\n", with: "\n\(wrong)\nend\n")) == nil, "\(wrong)")
    }
    #expect(HealthAnswer(text: text.replacing("\nend\n", with: "\nlater word\nend\n")) == Self.full)
  }

  @Test func `a worker that hangs, an expired certificate and an early one are bad facts`() {
    func isHealthy(_ change: (inout HealthAnswer) -> Void) -> Bool {
      var answer = Self.full
      answer.silent = []
      answer.files = []
      answer.faults = []
      answer.workloadProblem = nil
      (answer.authorities, answer.lists, answer.notice) = ([], [], .standard)
      answer.certificates = [.init(notBefore: 0, notAfter: 200, file: "a")]
      answer.certificateCount = 1
      change(&answer)
      var report = HealthReport(answer, process: 1, user: 2)
      report.judgeEnds(now: 100)
      return report.state == .good
    }
    #expect(isHealthy { _ in })
    #expect(!isHealthy { $0.silent = [2] })
    #expect(!isHealthy { $0.workloadProblem = (true, "no identity") })
    #expect(!isHealthy { $0.workloadProblem = (false, "no agent") })
    for kind in OngoingFaults.Kind.allCases {
      #expect(!isHealthy { $0.faults = [.init(kind: kind.rawValue, text: "x")] }, "\(kind)")
    }
    #expect(!isHealthy { $0.faults = [.init(kind: "later", text: "x")] })
    #expect(!isHealthy { $0.faults = [.init(kind: HealthAnswer.Fault.refusals, text: "x")] })
    #expect(!isHealthy { $0.workers = 0 })
    #expect(!isHealthy { $0.generation = 0 })
    #expect(!isHealthy { $0.certificates[0].notBefore = 101 })
    #expect(!isHealthy { $0.certificates[0].notAfter = 100 })
    #expect(!isHealthy { $0.certificates[0].notAfter = nil })
    #expect(!isHealthy { $0.certificates[0].notBefore = nil })
    #expect(isHealthy { $0.certificates[0].notAfter = .max })
  }

  @Test func `what keeps clients out has failed, and what refuses many of them is to be looked at`() throws {
    var answer = HealthAnswer()
    (answer.generation, answer.workers) = (1, 1)
    answer.faults = [
      .init(kind: OngoingFaults.Kind.log.rawValue, text: "the audit log can't be written", isFatal: true),
      .init(kind: HealthAnswer.Fault.refusals, text: "limit_req zone \"a\" has refused 30 of 60 requests"),
    ]
    let heard = try #require(HealthAnswer(text: answer.text))
    #expect(heard.faults == answer.faults)
    var report = HealthReport(heard, process: 1, user: 2)
    report.judgeEnds(now: 100)
    #expect(
      report.lines.suffix(2) == [
        "FAILED  log: the audit log can't be written",
        "WARN    refused clients: limit_req zone \"a\" has refused 30 of 60 requests",
      ])
    #expect(report.readiness == .failed)
    // All machines ask the same upstream.
    answer.faults = [
      .init(kind: HealthAnswer.Fault.upstream, text: "0 of 2 servers of upstream app are up", isFatal: true)
    ]
    report = HealthReport(answer, process: 1, user: 2)
    report.judgeEnds(now: 100)
    #expect(report.lines.last == "FAILED  upstream: 0 of 2 servers of upstream app are up")
    #expect(report.readiness == .good && report.state == .failed)
  }

  @Test func `an address of all interfaces is asked on the loopback`() {
    #expect(HealthQuestion.address("0.0.0.0:80") == SocketAddress(literal: "127.0.0.1", port: 80))
    #expect(HealthQuestion.address("[::]:80") == SocketAddress(literal: "::1", port: 80))
    #expect(HealthQuestion.address("10.1.2.3:80") == SocketAddress(literal: "10.1.2.3", port: 80))
    #expect(HealthQuestion.address("unix:/a:b") == .unix(path: "/a:b"))
    for wrong in ["", "x", "1.2.3.4", "1.2.3.4:99999", ":80", "[::1:80"] {
      #expect(HealthQuestion.address(wrong) == nil, "\(wrong)")
    }
  }
}

@Suite struct `A round of questions to workers` {
  @Test func `asks a silent worker only once`() {
    var roll = WorkerRoll(count: 3)
    #expect(roll.silent.isEmpty)
    #expect(roll.begin() == [0, 1, 2])
    roll.answered(0)
    roll.answered(2)
    #expect(roll.silent == [1])
    #expect(roll.begin() == [0, 2])
    roll.answered(1)
    roll.answered(7)
    #expect(roll.silent == [0, 2])
  }
}

@Suite struct `A process that is asked about its health` {
  @Test func `says which worker hangs, and serves nobody else's questions`() async throws {
    let fleet = try WorkerFleet(count: 2, connections: 8, shared: SharedState(features: Features.all))
    let name = HealthName(listening: .systemd(name: "test-\(getpid())"))
    let listener = await MainActor.run {
      HealthListener([name], fleet) {
        ErrorLog([])
      } describe: {
        var answer = HealthAnswer()
        answer.generation = 1
        return answer
      }
    }
    func ask() async throws -> HealthReport {
      try await offPool { HealthQuestion([name], sought: "the test", within: 30, onlyLive: true).ask() }
    }
    #expect(try await ask().state == .good)
    // Worker 1 hangs until the end of the test.
    let hung = DispatchSemaphore(value: 0)
    await withCheckedContinuation { (running: CheckedContinuation<Void, Never>) in
      fleet.each { index, _ in
        if index == 1 {
          running.resume()
          hung.wait()
        }
      } then: {
      }
    }
    for _ in 1...2 {
      let report = try await ask()
      #expect(!(report.state == .good))
      #expect(report.answer?.silent == [1])
    }
    hung.signal()
    try await until("worker 1 answers") { try await ask().state == .good }
    // A client that never reads, and one that talks, keep nobody from an answer.
    let idle = try AbstractSocket.connect(to: name.description)
    defer { close(idle) }
    // The answer may have come already, and the socket be closed.
    signal(SIGPIPE, SIG_IGN)
    _ = write(idle, "x", 1)
    #expect(try await ask().state == .good)
    await MainActor.run { listener.close() }
    // The socket closes in a later turn of the main queue.
    try await until("the socket to be closed") {
      try await ask().lines == ["FAILED  process: no process runs the test"]
    }
    #expect(try await ask().state == .failed)
  }
}

/// A number that was left to another process must not get a signal in the name of the first one.
@Suite struct `The user of a process` {
  @Test func `is the effective one`() {
    #expect(ProcessUser.effective(in: "Name:\ta\nUid:\t1\t2\t3\t4\nGid:\t9\t9\t9\t9\n") == 2)
    #expect(ProcessUser.of(getpid()) == geteuid())
    for status in ["", "Uid:\n", "Uid:\t1\n", "Uid:\t1\tx\n"] { #expect(ProcessUser.effective(in: status) == nil) }
    #expect(ProcessUser.of(0) == nil && ProcessUser.of(-1) == nil)
  }
}

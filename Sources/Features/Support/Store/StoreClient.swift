import Bytes
import DequeModule
import Forward
import Glibc
import HTTP
import Observability
import Redis
import TLS
import Traffic
import Transport
import Upstream

/// Why the store gave no answer, in words.
struct StoreFault: Error, Equatable {
  let reason: String
}

/// The connection of one generation in one worker to a store: what is asked of it, in order, and the answers.
///
///     idle ─► opening ─► ready ─► down ─► opening …
///
/// All that is asked in one turn of the loop leaves in one write. A store that doesn't answer in time, refuses the login or
/// can't be reached is down: whatever waits has its fault at once, and so has what is asked until the store is reached
/// again, so that no request waits for it more than once. Tries to reach it follow each other at growing distances.
final class StoreClient: AttemptObserver {
  typealias Answer<Value> = Result<Value, StoreFault>
  /// Takes what came of a question: a reply, or why none comes. Returns false if the reply is none that the question has.
  /// It has then done nothing, and is called once more, with the fault.
  typealias Taker = (Answer<RedisReply>) -> Bool

  private enum Phase { case idle, opening, ready, down, closed }

  private struct Question {
    let deadline: UInt64
    let take: Taker

    func fail(_ fault: StoreFault) { _ = take(.failure(fault)) }
  }

  /// Asked before the first connection is ready.
  private struct Waiting {
    let question: Question
    let append: (inout ByteBuffer, RedisSession) -> Void
  }

  let settings: SharedStoreSettings
  let record: StoreRecord
  private(set) lazy var holds = StoreHolds(self, loop: loop)
  /// Called when a connection is ready, before anything that is asked on it: what the store lost must be told again.
  var didConnect: [() -> Void] = []

  private let group: () -> UpstreamGroup?
  private let trust: UpstreamTrust
  private let login: RedisLogin
  private let loop: EventLoop
  private let tell: (LogLevel, String) -> Void
  private var phase = Phase.idle
  private var stream: UpstreamStream?
  private var session: RedisSession
  private var asked: Deque<Question> = []
  private var waiting: Deque<Waiting> = []
  private var output = ByteBuffer()
  private lazy var flusher = Flusher(self)
  /// Looks for what has waited too long.
  private var watch: OneShotTimer?
  /// The login must be over by then.
  private var openBy: UInt64?
  private var retry: OneShotTimer?
  /// Connections that failed, in a row.
  private var failures = 0
  private var answered = 0

  private static let mostQuestions = 1 << 16
  /// Milliseconds for a connection, with its handshake and login: more than one answer may take.
  private static let openTime = 2000
  private static let longestPause = 5000

  init(
    _ settings: SharedStoreSettings, record: StoreRecord, trust: UpstreamTrust, password: SecretBytes?, loop: EventLoop,
    group: @escaping () -> UpstreamGroup?, tell: @escaping (LogLevel, String) -> Void
  ) {
    self.settings = settings
    self.record = record
    self.trust = trust
    self.group = group
    self.loop = loop
    self.tell = tell
    login = RedisLogin(user: settings.user, password: password, database: settings.database)
    session = RedisSession(login, scripts: StoreScript.allCases.map(\.text))
    super.init()
  }

  // MARK: Asking

  /// Why nothing can be asked now; nil: `ask` waits for an answer.
  var fault: StoreFault? {
    switch phase {
    case .ready, .idle: nil
    case .opening: failures == 0 ? nil : StoreFault(reason: record.counts.reason)
    case .down, .closed: StoreFault(reason: record.counts.reason)
    }
  }

  /// A taker that reads the reply. `read`: nil for what is no reply to the question.
  static func reading<Value>(
    _ read: @escaping (RedisReply) -> Value?, _ then: @escaping (Answer<Value>) -> Void
  ) -> Taker {
    { answer in
      switch answer {
      case .success(let reply):
        guard let value = read(reply) else { return false }
        then(.success(value))
      case .failure(let fault): then(.failure(fault))
      }
      return true
    }
  }

  /// Runs a script. `then` gets the answer later, never within this call.
  func ask(_ script: StoreScript, keys: [[UInt8]], _ arguments: [[UInt8]], then: @escaping Taker) {
    // Without a closure for the command, which only the time before the first connection needs.
    if phase == .ready, begin(then) {
      session.append(script: script.rawValue, keys: keys, arguments, to: &output)
      return
    }
    askLater({ $1.append(script: script.rawValue, keys: keys, arguments, to: &$0) }, then)
  }

  /// `arguments`: made when the question goes out.
  func ask(
    _ script: StoreScript, keys: [[UInt8]], arguments: @escaping () -> [[UInt8]], then: @escaping Taker
  ) {
    if phase == .ready { return ask(script, keys: keys, arguments(), then: then) }
    askLater({ $1.append(script: script.rawValue, keys: keys, arguments(), to: &$0) }, then)
  }

  var isReady: Bool { phase == .ready }

  /// Has the store remember a key for so many milliseconds, unless it knows it (`NoveltyAnswer`).
  func remember(_ key: [UInt8], milliseconds: UInt64, then: @escaping Taker) {
    let words = ["SET", "", "1", "NX", "PX", "\(max(1, milliseconds))"].map { $0.isEmpty ? key : Array($0.utf8) }
    if phase == .ready, begin(then) { return RedisCommand.append(words, to: &output) }
    askLater({ output, _ in RedisCommand.append(words, to: &output) }, then)
  }

  /// Sends a command whose answer nobody waits for; without a connection it is not sent.
  func send(_ words: [[UInt8]]) {
    if phase == .ready, begin({ _ in true }) { RedisCommand.append(words, to: &output) }
  }

  /// Notes a question whose command the caller appends now; the connection is ready. Returns false if too much is asked
  /// already.
  private func begin(_ take: @escaping Taker) -> Bool {
    guard asked.count < Self.mostQuestions else { return false }
    asked.append(Question(deadline: loop.now &+ UInt64(settings.timeout), take: take))
    session.expect()
    loop.again(flusher)
    if watch == nil { watchDeadlines() }
    return true
  }

  private func askLater(
    _ append: @escaping (inout ByteBuffer, RedisSession) -> Void, _ take: @escaping Taker
  ) {
    guard phase != .ready, waiting.count < Self.mostQuestions, fault == nil else {
      let fault = fault ?? StoreFault(reason: "too much is asked already")
      record.didNotAnswer(1, fault.reason)
      // Never within this call.
      let box = LoopBox(take)
      return loop.post { _ = box.value(.failure(fault)) }
    }
    let question = Question(deadline: loop.now &+ UInt64(settings.timeout), take: take)
    waiting.append(Waiting(question: question, append: append))
    if phase == .idle { open() }
    watchDeadlines()
  }

  fileprivate func flush() {
    guard phase == .ready, !output.isEmpty else { return }
    // The connection may outlive the store's certificate, or a list by which it was judged.
    if let refusal = stream?.session.refusal(by: nil, at: Int64(time(nil))) { return lose(refusal.description) }
    stream?.send(body: output.readable)
    output.removeAll()
    // An idle client must not keep the buffer of a busy hour.
    if output.storageSize > 64 * 1024 { output.release() }
  }

  // MARK: The connection

  /// Connects, unless a connection is there or being made.
  func open() {
    guard phase == .idle || phase == .down else { return }
    phase = .opening
    openBy = loop.now &+ UInt64(Self.openTime)
    session = RedisSession(login, scripts: StoreScript.allCases.map(\.text))
    guard let group = group() else { return lose("the configuration has no server") }
    var selection = Selection()
    guard let ticket = group.pick(&selection) else { return lose("no server can be asked") }
    var timeouts = UpstreamTimeouts()
    timeouts.connect = Self.openTime
    let attempt = AttemptSettings(timeouts: timeouts, headLimits: HeadLimits())
    if let failure = group.begin(self, on: ticket, trust: trust, settings: attempt, isRetry: false) {
      return lose(Self.words(failure))
    }
    watchDeadlines()
  }

  override func attemptDidBegin(_ stream: UpstreamStream) { self.stream = stream }

  override func attemptDidOpen(_ stream: UpstreamStream) {
    stream.send(body: session.opening.readable)
    stream.resume()
  }

  override func tunnelBytes(_ bytes: UnsafeRawBufferPointer) {
    guard phase == .opening || phase == .ready else { return }
    session.take(bytes)
    // A reply may end the client: an exchange that it moves can end its generation.
    while phase == .opening || phase == .ready, let event = session.next() { take(event) }
    if answered > 0 {
      record.didAnswer(answered)
      answered = 0
    }
  }

  private func take(_ event: RedisSession.Event) {
    switch event {
    case .ready: becomeReady()
    case .lost(let fault): lose(fault.description)
    case .reply(.error(let refusal)):
      guard let question = asked.popFirst() else { return lose(RedisFault.unasked.description) }
      record.didRefuse(refusal.description)
      let fault = StoreFault(reason: refusal.description)
      if refusal.isOfConnection { lose(refusal.description) } else { tell(.error, describe(refusal.description)) }
      question.fail(fault)
    case .reply(let reply):
      guard let question = asked.popFirst() else { return lose(RedisFault.unasked.description) }
      guard question.take(.success(reply)) else {
        let fault = StoreFault(reason: RedisFault.other.description)
        // First of all: who asked may ask again, and must find that nothing can be asked.
        lose(fault.reason, unanswered: 1)
        return question.fail(fault)
      }
      answered += 1
    }
  }

  private func becomeReady() {
    let hadFailed = failures > 0
    phase = .ready
    failures = 0
    openBy = nil
    record.didConnect()
    if hadFailed { tell(.notice, "shared store \"\(settings.name)\" (\(settings.address)) is reached again") }
    for each in didConnect { each() }
    while let next = waiting.popFirst() {
      next.append(&output, session)
      session.expect()
      asked.append(next.question)
    }
    flush()
  }

  override func tunnelDidEnd(inGoodOrder: Bool) { lose("it closed the connection") }

  override func attemptDidFail(_ failure: AttemptFailure) {
    stream = nil
    lose(Self.words(failure))
  }

  private static func words(_ failure: AttemptFailure) -> String {
    switch failure {
    case .connect(let error): "\(error)"
    case .connectTimeout: "it took no connection in time"
    case .tls(let reason): reason
    case .noRoom: "no place under worker_connections is free for the connection"
    case .noServer: "no server can be asked"
    default: "the connection broke"
    }
  }

  private func describe(_ reason: String) -> String {
    "shared store \"\(settings.name)\" (\(settings.address)): \(reason)"
  }

  /// The connection is of no use: everything that waits has its fault, and another connection follows later.
  /// `unanswered`: questions that have no answer and are no longer among those that wait.
  private func lose(_ reason: String, unanswered: Int = 0) {
    guard phase == .opening || phase == .ready else { return }
    record.didLose(wasReady: phase == .ready, reason)
    phase = .down
    openBy = nil
    output.removeAll()
    drop()
    failures = min(failures + 1, 1 << 20)
    tell(.error, describe(reason))
    let pause = min(50 << min(failures, 10), Self.longestPause)
    retry = loop.after(pause - Int.random(in: 0...(pause / 4))) { [weak self] in
      self?.retry = nil
      self?.open()
    }
    failAll(StoreFault(reason: reason), unanswered: unanswered)
  }

  private func drop() {
    guard let stream = stream.take() else { return }
    if let tcp = stream as? TCPUpstreamStream { tcp.end(.orderly) } else { stream.abandon() }
  }

  private func failAll(_ fault: StoreFault, unanswered: Int = 0) {
    watch?.cancel()
    watch = nil
    let questions = Array(asked) + waiting.map(\.question)
    asked.removeAll()
    waiting.removeAll()
    if questions.count + unanswered > 0 { record.didNotAnswer(questions.count + unanswered, fault.reason) }
    for question in questions { question.fail(fault) }
  }

  // MARK: Time

  private func watchDeadlines() {
    guard watch == nil, let next = nextDeadline else { return }
    watch = loop.after(next > loop.now ? Int(clamping: next - loop.now) : 0) { [weak self] in
      self?.watch = nil
      self?.timeDidPass()
      self?.watchDeadlines()
    }
  }

  private var nextDeadline: UInt64? {
    [asked.first?.deadline, waiting.first?.question.deadline, openBy].compactMap { $0 }.min()
  }

  private func timeDidPass() {
    let now = loop.now
    if let first = asked.first, first.deadline <= now {
      return lose("it did not answer within \(settings.timeout) ms")
    }
    if let openBy, openBy <= now { return lose("it took no login within \(Self.openTime) ms") }
    // The connection may still come; who has waited long enough goes on without.
    while let first = waiting.first, first.question.deadline <= now {
      waiting.removeFirst()
      let fault = StoreFault(reason: "it is not reached yet")
      record.didNotAnswer(1, fault.reason)
      first.question.fail(fault)
    }
  }

  // MARK: The end

  /// The generation ends.
  func close() {
    guard phase != .closed else { return }
    let wasReady = phase == .ready
    holds.close()
    if wasReady { flush() }
    phase = .closed
    if wasReady { record.didLose(wasReady: true, "") }
    retry?.cancel()
    retry = nil
    drop()
    failAll(StoreFault(reason: "the configuration is no longer in use"))
  }

  fileprivate var eventLoop: EventLoop { loop }
}

/// Sends what was asked in one turn of the loop.
private final class Flusher: EventTarget {
  /// nil: it has ended since it asked for its turn.
  private weak var client: StoreClient?

  init(_ client: StoreClient) {
    self.client = client
    super.init(loop: client.eventLoop)
  }

  override func again() { client?.flush() }
}

import CLinux
import Dispatch
import Glibc
import Observability
import Transport

/// Answers `sallyport health` on abstract unix sockets, on the main queue.
///
/// Only root and the process's own user get an answer; every other connection is closed at once. A client's bytes are
/// never read, so a client can't change anything. Each answer waits for the workers, one second at most. At most 16
/// clients wait.
@MainActor
final class HealthListener {
  private struct Question {
    let client: Int32
    let number: UInt64
  }

  private let fleet: WorkerFleet
  private let log: @MainActor () -> ErrorLog
  /// The answer, without what the workers say.
  private let describe: @MainActor () -> HealthAnswer
  private var missing: [HealthName]
  /// Those for which a further name is bound.
  private var spared: Set<HealthName> = []
  private var doors: [Door] = []
  private var questions: [Question] = []
  private var roll: WorkerRoll
  private var nextNumber: UInt64 = 0
  private var isClosed = false
  private var hasComplained = false
  /// Why the last reload was refused.
  var refusedReload: String?
  private var failedReplacements = 0
  private var failedReplacement: String?

  private static let maximumQuestions = 16
  private static let patience = DispatchTimeInterval.seconds(1)

  init(
    _ names: [HealthName], _ fleet: WorkerFleet, log: @escaping @MainActor () -> ErrorLog,
    describe: @escaping @MainActor () -> HealthAnswer
  ) {
    self.fleet = fleet
    self.log = log
    self.describe = describe
    missing = names
    roll = WorkerRoll(count: fleet.count)
    open()
  }

  /// Binds the names that are not bound yet. Another process may hold one: the one before it, which still ends, or a
  /// stranger's. So this binds a further name meanwhile, and tries again every second.
  private func open() {
    guard !isClosed else { return }
    missing.removeAll { name in
      do throws(SocketError) {
        let descriptor = try AbstractSocket.listen(on: name.description, backlog: 64)
        doors.append(Door(descriptor) { [unowned self] in accepted($0) })
        return true
      } catch {
        complain(error)
        if error.code == EADDRINUSE { bindSpare(of: name) }
        // Not allowed at all: that does not change while the process runs.
        return error.code != EADDRINUSE && !error.isExhaustion
      }
    }
    guard !missing.isEmpty else { return }
    DispatchQueue.main.asyncAfter(deadline: .now() + .seconds(1)) { [weak self] in
      MainActor.assumeIsolated { self?.open() }
    }
  }

  private func bindSpare(of name: HealthName) {
    guard !spared.contains(name) else { return }
    do throws(SocketError) {
      let descriptor = try AbstractSocket.listen(on: name.spare, backlog: 64)
      spared.insert(name)
      doors.append(Door(descriptor) { [unowned self] in accepted($0) })
    } catch {
      complain(error)
    }
  }

  private func complain(_ error: SocketError) {
    guard !hasComplained else { return }
    hasComplained = true
    log().warn("sallyport health can't ask this process by its usual name yet: \(error)")
  }

  /// Gives the names up, for the process that comes next. Nobody gets an answer any more.
  func close() {
    isClosed = true
    for door in doors { door.close() }
    doors = []
    for question in questions { Glibc.close(question.client) }
    questions = []
  }

  /// A new binary did not start: for `sallyport reload --restart`, which waits for it.
  func noteFailedReplacement(_ reason: String) {
    failedReplacements &+= 1
    failedReplacement = reason
  }

  // MARK: Questions

  private func accepted(_ client: Int32) {
    guard let peer = AbstractSocket.peer(of: client), peer.user == 0 || peer.user == geteuid(),
      questions.count < Self.maximumQuestions, !isClosed
    else {
      Glibc.close(client)
      return
    }
    let number = nextNumber
    nextNumber &+= 1
    questions.append(Question(client: client, number: number))
    fleet.ask(roll.begin()) { [weak self] worker in
      guard let self else { return }
      roll.answered(worker)
      if roll.silent.isEmpty { answer { _ in true } }
    }
    DispatchQueue.main.asyncAfter(deadline: .now() + Self.patience) { [weak self] in
      MainActor.assumeIsolated { self?.answer { $0 == number } }
    }
  }

  private func answer(_ isDue: (UInt64) -> Bool) {
    let due = questions.filter { isDue($0.number) }
    guard !due.isEmpty else { return }
    questions.removeAll { isDue($0.number) }
    var answer = describe()
    answer.refusedReload = refusedReload
    answer.failedReplacements = failedReplacements
    answer.failedReplacement = failedReplacement
    answer.workers = fleet.count
    answer.silent = roll.silent
    let bytes = Array(answer.text.utf8)
    for question in due {
      // The buffer of a new socket takes more than the longest answer. If it does not, the client sees a text without
      // its end.
      bytes.withUnsafeBytes { if let base = $0.baseAddress { _ = linux_send(question.client, base, $0.count) } }
      Glibc.close(question.client)
    }
  }
}

/// One listening socket, with the dispatch source that accepts from it.
@MainActor
private final class Door {
  private let source: any DispatchSourceRead
  private let accepted: @MainActor (Int32) -> Void
  private var isPaused = false
  private var isClosed = false

  init(_ descriptor: Int32, _ accepted: @escaping @MainActor (Int32) -> Void) {
    self.accepted = accepted
    source = DispatchSource.makeReadSource(fileDescriptor: descriptor, queue: .main)
    source.setEventHandler { [weak self] in MainActor.assumeIsolated { self?.accept(descriptor) } }
    source.setCancelHandler { Glibc.close(descriptor) }
    source.activate()
  }

  private func accept(_ descriptor: Int32) {
    do throws(SocketError) {
      // A bounded number for each event, so that other work of the main queue comes between.
      for _ in 0..<16 {
        guard let client = try Sockets.accept(descriptor) else { return }
        accepted(client.descriptor)
      }
    } catch {
      // No descriptor is free. The event would come again at once.
      pause()
    }
  }

  private func pause() {
    guard !isPaused, !isClosed else { return }
    isPaused = true
    source.suspend()
    DispatchQueue.main.asyncAfter(deadline: .now() + .seconds(1)) { [weak self] in
      MainActor.assumeIsolated { self?.resume() }
    }
  }

  private func resume() {
    guard isPaused else { return }
    isPaused = false
    source.resume()
  }

  func close() {
    guard !isClosed else { return }
    isClosed = true
    // A suspended source would never run its cancel handler.
    resume()
    source.cancel()
  }
}

import Audit
import Bytes
import Crypto
import Glibc
import Observability
import Synchronization
import Traffic

/// Writes one audit log: all workers give it events, and its own thread makes lines of them, one chain for all.
///
/// The queue is bounded. An event that finds no room is lost, and a line says how many were.
// @unchecked: `line` is only used on `thread`.
final class AuditWriter: LogKeeper, @unchecked Sendable {
  /// What the thread has of the file.
  private struct Line {
    var file: AuditFile
    let log: LogFile
    var key: SignatureKey?
    /// Milliseconds.
    var every: Int
    var isRequired: Bool
    /// Events that are not written yet, because the disk is full, say.
    var unwritten: [AuditEvent] = []
    /// Lines since the last signature.
    var unsigned = 0
    var willSign = false
    /// Another file is about to follow.
    var isHeld = false
    /// The fault that was told of.
    var fault: String?
    /// How many clients it had kept out when that was told last.
    var toldTurnedAway: UInt64 = 0
    var errorLog: ErrorLog
  }

  private struct Waiting {
    var events: [AuditEvent] = []
    var lost: Int64 = 0
    var isScheduled = false
    /// Nothing can be written now.
    var isFailing = false
    /// The file is open.
    var isAttached = false
    /// Clients whose connections were closed for want of a line (`required`), since the log can't be written.
    var turnedAway: UInt64 = 0
  }

  /// The events that may wait, some 600 octets each.
  static let limit = 16_384
  /// The events of one write.
  private static let batch = 1024
  /// Milliseconds until a failed write is tried again.
  private static let pause = 1000

  let path: String
  private let process: String
  private let shared: SharedState
  private let thread = LogThread()
  private let waiting = Mutex(Waiting())
  private var line: Line?

  init(_ path: String, process: String, _ shared: SharedState) {
    self.path = path
    self.process = process
    self.shared = shared
  }

  /// Takes an event. Returns false if it is lost, or can't be written now.
  @discardableResult
  func take(_ event: AuditEvent) -> Bool {
    let (isTaken, begins) = waiting.withLock { waiting in
      guard waiting.events.count < Self.limit else {
        waiting.lost &+= 1
        // Nobody opens the file for a rehearsal, which must not be cut.
        return (!waiting.isAttached, false)
      }
      waiting.events.append(event)
      let begins = !waiting.isScheduled && waiting.isAttached && !waiting.isFailing
      if begins { waiting.isScheduled = true }
      return (!waiting.isFailing, begins)
    }
    if begins { thread.run { [self] in drain() } }
    return isTaken
  }

  /// Counts a client that didn't get in because its line found no room.
  func clientWasTurnedAway() { waiting.withLock { $0.turnedAway &+= 1 } }

  // MARK: The file

  /// From now on, lines go to this file. `first`: what the log begins with, before the events that wait.
  func attach(_ log: LogFile, _ settings: AuditSettings, _ key: SignatureKey?, _ errorLog: ErrorLog, first: AuditEvent)
  {
    thread.runAndWait {
      if line?.log !== log {
        line = Line(
          file: AuditFile(log), log: log, every: settings.every, isRequired: settings.isRequired, errorLog: errorLog)
        log.keep(by: self)
      }
      line?.key = key
      line?.every = settings.every
      line?.isRequired = settings.isRequired
      if let fault = line?.fault { noteFault(fault) }
      line?.errorLog = errorLog
      waiting.withLock { waiting in
        waiting.events.insert(first, at: 0)
        (waiting.isAttached, waiting.isScheduled) = (true, true)
      }
      drain()
    }
  }

  /// Writes what waits. On the thread.
  private func drain() {
    while line?.isHeld == false {
      // Those that could not be written go first, and nothing joins them: the queue has the limit.
      if let unwritten = line?.unwritten, !unwritten.isEmpty {
        guard write(unwritten) else { return retryLater(unwritten) }
        line?.unwritten = []
        continue
      }
      let (events, lost) = waiting.withLock { waiting in
        let events = Array(waiting.events.prefix(Self.batch))
        waiting.events.removeFirst(events.count)
        let lost = waiting.lost
        waiting.lost = 0
        if events.isEmpty, lost == 0 { waiting.isScheduled = false }
        return (events, lost)
      }
      var all = events
      if lost > 0 {
        var event = AuditEvent(.lost, at: AuditTime.now)
        event.add("count", lost)
        all.append(event)
      }
      if all.isEmpty { return }
      guard write(all) else { return retryLater(all) }
    }
    waiting.withLock { $0.isScheduled = false }
  }

  /// Returns false if nothing was written. `closes`: the file ends with them, and their signature, which one write has: who
  /// finds the end goes on elsewhere.
  private func write(_ events: [AuditEvent], closes: Bool = false) -> Bool {
    guard var line else { return false }
    let process = process, key = closes ? line.key : nil, moment = AuditTime.now
    do throws(AuditFile.Fault) {
      let complaint = try line.file.append(at: moment, process: process, closes: closes) { chain in
        let lines = events.flatMap { chain.line($0, by: process) }
        return lines + (key.flatMap { chain.signature(by: $0, at: moment, process: process) } ?? [])
      }
      line.unsigned = key == nil ? line.unsigned + events.count : 0
      self.line = line
      didWrite()
      if let complaint { tellOfChange(complaint) }
      signLater()
      return true
    } catch {
      // It may be another one now.
      self.line?.file = line.file
      didFail(error)
      return false
    }
  }

  private func retryLater(_ events: [AuditEvent]) {
    line?.unwritten = events
    waiting.withLock { $0.isFailing = true }
    countAgain()
    thread.run(in: Self.pause) { [self] in drain() }
  }

  // MARK: Faults

  private func didFail(_ fault: AuditFile.Fault) {
    let reason = fault.reason
    guard line?.fault != reason else { return }
    line?.fault = reason
    line?.errorLog.alert(
      "the audit log \(path) can't be written: \(reason); its lines wait, and then are lost\(effect)")
    noteFault(reason)
  }

  /// What a log that can't be written means for clients.
  private var effect: String {
    guard let line, line.isRequired else { return "" }
    let turnedAway = line.toldTurnedAway > 0 ? ": \(Self.clients(line.toldTurnedAway)) so far" : ""
    return "; nobody gets in meanwhile (required)\(turnedAway)"
  }

  /// Tells how many clients the failure has kept out by now.
  private func countAgain() {
    guard let line, let fault = line.fault, line.isRequired else { return }
    let turnedAway = waiting.withLock { $0.turnedAway }
    guard turnedAway != line.toldTurnedAway else { return }
    self.line?.toldTurnedAway = turnedAway
    // The first is told at once: until then, nobody knows whether anybody comes.
    if line.toldTurnedAway == 0 {
      line.errorLog.alert("the audit log \(path) keeps clients out: \(Self.clients(turnedAway)) so far (required)")
    }
    noteFault(fault)
  }

  private static func clients(_ count: UInt64) -> String { count == 1 ? "1 client" : "\(count) clients" }

  private func noteFault(_ reason: String) {
    shared.ongoing.note(
      .log, path, "The audit log \(path) can't be written: \(reason)\(effect)", isFatal: line?.isRequired == true)
  }

  private func didWrite() {
    let turnedAway = waiting.withLock { waiting in
      waiting.isFailing = false
      defer { waiting.turnedAway = 0 }
      return waiting.turnedAway
    }
    guard line?.fault != nil else { return }
    line?.fault = nil
    line?.toldTurnedAway = 0
    line?.errorLog.notice(
      "the audit log \(path) is written again\(turnedAway > 0 ? "; \(Self.clients(turnedAway)) did not get in meanwhile" : "")"
    )
    shared.ongoing.note(.log, path, nil)
  }

  private func tellOfChange(_ reason: String) {
    line?.errorLog.alert(
      "the audit log \(path) was changed by somebody else: \(reason); sallyport audit verify tells where")
    shared.ongoing.note(.log, path, "The audit log \(path) was changed by somebody else: \(reason)")
  }

  // MARK: Signatures

  /// Signs within the time of `every`.
  private func signLater() {
    guard let line, line.key != nil, line.unsigned > 0, !line.willSign else { return }
    self.line?.willSign = true
    thread.run(in: line.every) { [self] in
      self.line?.willSign = false
      sign()
    }
  }

  /// Signs all lines so far, and has the disk take them.
  private func sign() {
    guard var line, line.unsigned > 0, !line.isHeld else { return }
    defer { self.line?.file.synchronize() }
    guard let key = line.key else { return }
    let moment = AuditTime.now, process = process
    do throws(AuditFile.Fault) {
      let complaint = try line.file.append(at: moment, process: process) { chain in
        chain.signature(by: key, at: moment, process: process) ?? []
      }
      line.unsigned = 0
      self.line = line
      if let complaint { tellOfChange(complaint) }
    } catch {
      // It may be another one now.
      self.line?.file = line.file
      didFail(error)
      signLater()
    }
  }

  // MARK: Rotation and end

  func willReopen() {
    thread.runAndWait {
      drain()
      // Another process may have ended the file, and this one gone on in the next.
      if line?.file.isMoved == true { finish(.rotate) }
      line?.isHeld = true
    }
  }

  func didReopen() {
    thread.runAndWait {
      line?.isHeld = false
      line?.file.fileDidChange()
      // The first line of a new file.
      _ = write([])
      drain()
    }
  }

  /// Writes all that waits, and a last line for this file or this process.
  private func finish(_ kind: AuditEvent.Kind) {
    drain()
    guard line != nil else { return }
    _ = write([AuditEvent(kind, at: AuditTime.now)], closes: kind == .rotate)
    if kind == .rotate { line?.file.synchronize() } else { sign() }
    guard let chain = line?.file.chain else { return }
    line?.errorLog.notice(
      "the audit log \(path) ends with line \(chain.number), SHA-256 \(Hex.encode(chain.hash))")
  }

  /// The process ends, or the configuration names the file no more. Waits for a second at most.
  func close() {
    thread.run(waiting: 1000) { [self] in
      finish(.stop)
      line = nil
      waiting.withLock { $0.isAttached = false }
    }
  }
}

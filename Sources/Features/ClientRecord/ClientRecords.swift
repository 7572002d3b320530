import Forward
import Glibc
import Observability
import Synchronization
package import Traffic
import Transport

/// The records of the process, by the paths of their files. They outlive a reload.
package final class ClientRecords: SharedPart {
  private struct State {
    var files: [String: RecordFile] = [:]
  }

  private let state = Mutex(State())
  private let pool: BlockingPool
  private let faults: OngoingFaults

  package init(_ shared: SharedState) {
    pool = shared.pool
    faults = shared.ongoing
  }

  /// The file of these settings. Several server blocks and all workers share it.
  func file(_ record: ClientRecord) -> RecordFile {
    state.withLock { state in
      if let known = state.files[record.path] {
        known.take(record.bounds)
        return known
      }
      let fresh = RecordFile(record.path, record.bounds, pool, faults)
      state.files[record.path] = fresh
      return fresh
    }
  }

  package func serve(_ generation: Generation) {
    var wanted: Set<String> = []
    for server in generation.http.servers {
      if let record = server.root[ClientRecord.self] { wanted.insert(record.path) }
    }
    let (files, former) = state.withLock { state in
      let former = state.files.filter { !wanted.contains($0.key) }
      state.files = state.files.filter { wanted.contains($0.key) }
      return (Array(state.files.values), Array(former.values))
    }
    // A file that the configuration names no more gets what its last clients have left, too.
    for file in former { file.retire() }
    for file in files {
      file.tell(in: generation.errorLog)
      // A start or a reload tells at once whether the file can be written.
      file.write()
    }
  }

  /// About each minute. Writes what has waited long enough, and forgets who has not come for too long.
  func tick() { for file in state.withLock({ Array($0.files.values) }) { file.write() } }

  package func close() {
    let files = state.withLock { Array($0.files.values) }
    for file in files { file.retire() }
    for _ in 0..<100 where files.contains(where: \.isBusy) { usleep(10_000) }
  }
}

/// Has the worker with the first loop look after the records each minute.
final class RecordUpkeep: WorkerPart {
  private var doneAt: UInt64 = 0
  private static let interval: UInt64 = 60_000

  override func tick(now: UInt64) {
    guard worker.loop.index == 0, now &- doneAt >= Self.interval else { return }
    doneAt = now
    worker.shared[ClientRecords.self].tick()
  }
}

/// The file of a `client_record`. Workers hand over what they have seen; a thread of the pool writes it.
///
/// Nothing waits for it: if the disk is full or slow, visits are dropped beyond a bound, and a warning says so once.
final class RecordFile: Sendable {
  private struct State {
    var seen: [SeenVisit] = []
    var bounds: RecordWriter.Bounds
    var log: ErrorLog?
    /// A job waits or runs.
    var isBusy = false
    /// Something came that the running job doesn't know of.
    var isAsked = false
    var isRetired = false
    var lost = 0
    var isFailing = false
  }

  let path: String
  private let state: Mutex<State>
  /// Only a job locks it.
  private let writer: Mutex<RecordWriter>
  private let pool: BlockingPool
  private let faults: OngoingFaults

  /// Visits that may wait for the thread; each has a client's certificates, some 6 KiB.
  private static let most = 8192

  init(_ path: String, _ bounds: RecordWriter.Bounds, _ pool: BlockingPool, _ faults: OngoingFaults) {
    self.path = path
    state = Mutex(State(bounds: bounds))
    writer = Mutex(RecordWriter(path, bounds))
    self.pool = pool
    self.faults = faults
  }

  var isBusy: Bool { state.withLock(\.isBusy) }

  func take(_ bounds: RecordWriter.Bounds) { state.withLock { $0.bounds = bounds } }

  func tell(in log: ErrorLog) { state.withLock { $0.log = log } }

  /// Takes what a worker has seen.
  func take(_ seen: [SeenVisit]) {
    state.withLock { state in
      let room = Self.most - state.seen.count
      state.seen += seen.prefix(max(0, room))
      state.lost += max(0, seen.count - room)
    }
    write()
  }

  /// From now on, whatever comes is written at once.
  func retire() {
    state.withLock { $0.isRetired = true }
    write()
  }

  /// Writes what is due, on a thread of the pool.
  func write() {
    let begins = state.withLock { state in
      state.isAsked = true
      guard !state.isBusy else { return false }
      state.isBusy = true
      return true
    }
    guard begins else { return }
    let outcome = pool.run(.stateFiles, for: path) { [self] in work() }
    if !outcome.isTaken { state.withLock { $0.isBusy = false } }
  }

  // MARK: On a thread of the pool

  private func work() {
    while let (seen, bounds, isLast, dropped) = next() {
      var fault: String?, damage: String?, lost = dropped
      writer.withLock { writer in
        writer.bounds = bounds
        writer.add(seen)
        do throws(RecordWriter.Fault) {
          try writer.write(now: Int64(time(nil)), isLast: isLast)
        } catch { fault = error.description }
        damage = writer.takeDamage()
        lost += writer.takeLost()
      }
      tell(fault, damage, lost)
    }
  }

  /// nil: nobody has asked for more.
  private func next() -> (seen: [SeenVisit], bounds: RecordWriter.Bounds, isLast: Bool, lost: Int)? {
    state.withLock { state in
      guard state.isAsked else {
        state.isBusy = false
        return nil
      }
      state.isAsked = false
      defer { (state.seen, state.lost) = ([], 0) }
      return (state.seen, state.bounds, state.isRetired, state.lost)
    }
  }

  /// Tells once that the record is incomplete, and once that it isn't any more.
  private func tell(_ fault: String?, _ damage: String?, _ lost: Int) {
    let why = fault ?? (lost > 0 ? "there was no room for \(lost) visits" : nil)
    let (log, isNews) = state.withLock { state in
      let isNews = state.isFailing != (why != nil)
      state.isFailing = why != nil
      return (state.log, isNews)
    }
    faults.note(.record, path, why.map { "the record of clients \"\(path)\" is incomplete: \($0)" })
    if let damage { log?.warn("the record of clients \"\(path)\" can't be read, and has another name now: \(damage)") }
    guard isNews else { return }
    if let why {
      log?.warn("the record of clients \"\(path)\" is incomplete, and nothing else is affected: \(why)")
    } else {
      log?.notice("the record of clients \"\(path)\" is written again")
    }
  }
}

import Forward
import Synchronization
package import Traffic

/// How a store stands, for the log, metrics, `status` and `health`: one for all workers and generations.
final class StoreRecord: Sendable {
  struct Counts: Sendable, Equatable {
    /// Commands that the store answered.
    var answered: UInt64 = 0
    /// Commands that the store refused.
    var refused: UInt64 = 0
    /// Commands that got no answer: none could be sent, or none came in time.
    var unanswered: UInt64 = 0
    /// Connections that are ready.
    var ready = 0
    /// Why no connection is, or why the last command was refused; empty: nothing is wrong.
    var reason = ""
  }

  private let state = Mutex(Counts())

  var counts: Counts { state.withLock { $0 } }

  func didAnswer(_ count: Int) {
    state.withLock {
      $0.answered &+= UInt64(count)
      $0.reason = ""
    }
  }
  func didRefuse(_ reason: String) {
    state.withLock {
      $0.refused &+= 1
      $0.reason = reason
    }
  }
  func didNotAnswer(_ count: Int, _ reason: String) {
    state.withLock {
      $0.unanswered &+= UInt64(count)
      $0.reason = reason
    }
  }
  func didConnect() {
    state.withLock {
      $0.ready += 1
      $0.reason = ""
    }
  }
  func didLose(wasReady: Bool, _ reason: String) {
    state.withLock {
      if wasReady { $0.ready -= 1 }
      $0.reason = reason
    }
  }
}

/// The records of all stores by name.
final class StoreRecords: SharedPart {
  private let records = Mutex<[String: StoreRecord]>([:])

  init(_ shared: SharedState) {}

  func record(of store: String) -> StoreRecord {
    records.withLock { records in
      let record = records[store] ?? StoreRecord()
      records[store] = record
      return record
    }
  }

  var all: [(store: String, counts: StoreRecord.Counts)] {
    records.withLock { $0 }.map { ($0.key, $0.value.counts) }.sorted { $0.store < $1.store }
  }
}

extension StoreRecord.Counts {
  /// What is wrong with the store; nil: nothing.
  var problem: String? {
    if ready == 0 { return "can't be asked: \(reason.isEmpty ? "no connection is ready yet" : reason)" }
    return reason.isEmpty ? nil : "refuses: \(reason)"
  }
}

extension SharedState {
  /// How the stores of a configuration stand, in words for `health`.
  package func storeStates(of http: HTTPSettings) -> [(isGood: Bool, text: String)] {
    http.sharedStores.map { store in
      let problem = self[StoreRecords.self].record(of: store.name).counts.problem
      return (problem == nil, "\(store.name) (\(store.address)) \(problem ?? "is reached")")
    }
  }
}

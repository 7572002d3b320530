import Dispatch
import Glibc
import Observability
import SPIFFE

/// Keeps the stream to the agent that the configuration in effect names, tells the log of it, and has what serves loaded
/// anew when a message changes something.
@MainActor
final class WorkloadFollower {
  private let identity: WorkloadIdentity
  private let currentLog: @MainActor () -> ErrorLog
  private let reload: @MainActor () -> Void
  private var path: String?
  private var client: WorkloadClient?
  /// A news of a former client is not told.
  private var serial = 0
  private var toldFailure: String?
  private var hasToldEnd = false
  private var toldFaults: [String] = []
  private var waiting: (@MainActor () -> Void)?

  /// How long a start waits for the first message of an agent that takes the connection. A process that replaces another
  /// one would refuse the clients of the other until then.
  nonisolated static let patience = DispatchTimeInterval.seconds(3)

  init(
    _ identity: WorkloadIdentity, logging currentLog: @escaping @MainActor () -> ErrorLog,
    reload: @escaping @MainActor () -> Void
  ) {
    self.identity = identity
    self.currentLog = currentLog
    self.reload = reload
  }

  private var errorLog: ErrorLog { currentLog() }

  /// Follows the agent at this path from now on; nil follows none. Another agent's identity doesn't count any more.
  func follow(_ path: String?) {
    guard path != self.path else { return }
    client?.stop()
    client = nil
    self.path = path
    serial += 1
    toldFailure = nil
    identity.update {
      $0.endpoint = path.map { "unix:\($0)" }
      $0.condition = .unasked
      if path == nil { $0.material = nil }
    }
    guard let path else { return }
    let client = WorkloadClient(path, identity) { [weak self, serial] news in
      DispatchQueue.main.async { MainActor.assumeIsolated { self?.hear(news, of: serial) } }
    }
    self.client = client
    client.start()
  }

  /// Calls `proceed` once the agent has answered, or has failed to, but not later than a start may wait.
  func whenAnswered(_ proceed: @escaping @MainActor () -> Void) {
    guard client != nil else { return proceed() }
    waiting = proceed
    DispatchQueue.main.asyncAfter(deadline: .now() + Self.patience) { [self] in
      MainActor.assumeIsolated { stopWaiting() }
    }
  }

  private func stopWaiting() {
    let proceed = waiting
    waiting = nil
    proceed?()
  }

  private func hear(_ news: WorkloadNews, of serial: Int) {
    guard serial == self.serial, let path else { return }
    switch news {
    case .taken(let material, let isNew):
      toldFailure = nil
      hasToldEnd = false
      for fault in material.faults where !toldFaults.contains(fault) {
        errorLog.crit("SPIFFE: NOT in effect, of a message of the agent at unix:\(path): \(fault)")
      }
      if material.faults.isEmpty, !toldFaults.isEmpty {
        errorLog.notice("SPIFFE: the last message of the agent at unix:\(path) is in effect as a whole")
      }
      toldFaults = material.faults
      guard isNew else { break }
      let ids = material.ids
      let domains = material.bundles.keys.sorted().map(\.name).joined(separator: ", ")
      errorLog.notice("SPIFFE: identity \(ids), trust domains \(domains), from the agent at unix:\(path)")
      if waiting == nil { reload() }
    case .refused(let reason):
      guard isNew(reason) else { break }
      errorLog.error("SPIFFE: a message of the agent at unix:\(path) is not used: \(reason)")
    case .failed(let reason):
      guard isNew(reason) else { break }
      errorLog.error("SPIFFE: the agent at unix:\(path) can't be followed, trying again: \(reason)")
    case .withdrawn(let reason):
      errorLog.alert("SPIFFE: the identity is given up, and handshakes that need it are refused: \(reason)")
      reload()
    }
    stopWaiting()
  }

  /// An agent that is away for hours fails every ten seconds by the same reason.
  private func isNew(_ reason: String) -> Bool {
    defer { toldFailure = reason }
    return toldFailure != reason
  }

  /// Looks each second whether the identity has ended.
  func watchEnd() {
    guard let client, let path, !hasToldEnd, let end = identity.current.material?.end, Int64(time(nil)) >= end else {
      return
    }
    hasToldEnd = true
    errorLog.alert(
      "SPIFFE: the identity has ended, and the agent at unix:\(path) sent no other: handshakes that need it are refused"
    )
    client.askAgain()
  }
}

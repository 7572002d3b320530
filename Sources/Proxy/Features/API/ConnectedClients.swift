import Bytes
import Crypto
import Synchronization
import TLS
import Transport

/// The workers of the process: what one of them is asked about all clients, each answers on its own loop.
final class WorkerDirectory: Sendable {
  private struct Entry: Sendable {
    let loop: EventLoop
    let worker: LoopBox<WeakWorker>
  }

  private final class WeakWorker {
    weak var worker: Worker?
    init(_ worker: Worker) { self.worker = worker }
  }

  private let entries = Mutex<[Entry]>([])

  func add(_ worker: Worker) {
    let entry = Entry(loop: worker.loop, worker: LoopBox(WeakWorker(worker)))
    entries.withLock { $0.append(entry) }
  }

  /// Asks every worker, and gives the answers to `then` on this loop, later.
  func ask<Value: Sendable>(
    from loop: EventLoop, _ question: @escaping @Sendable (Worker) -> Value, then: @escaping ([Value]) -> Void
  ) {
    let all = entries.withLock { $0 }
    let gathering = LoopBox(Gathering(all.count, then))
    for entry in all {
      entry.loop.post {
        let value = entry.worker.value.worker.map(question)
        loop.post { gathering.value.take(value) }
      }
    }
  }

  private final class Gathering<Value> {
    private var missing: Int
    private var values: [Value] = []
    private let then: ([Value]) -> Void

    init(_ count: Int, _ then: @escaping ([Value]) -> Void) {
      missing = count
      self.then = then
    }

    func take(_ value: Value?) {
      if let value { values.append(value) }
      missing -= 1
      if missing == 0 { then(values) }
    }
  }
}

/// A client's connection, for the API.
struct ConnectedClient: Sendable {
  let address: String
  let kind: TrafficKind
  let seconds: UInt64
  let requests: Int
  let certificate: Certificate?
  let isVerified: Bool

  /// More than these are not listed.
  static let limit = 10_000
}

extension Worker {
  /// The clients that are connected, in no order.
  var connectedClients: [ConnectedClient] {
    sessions.values.prefix(ConnectedClient.limit).map { session in
      ConnectedClient(
        address: "\(session.facts.peer)", kind: session.servers.settings.kind, seconds: session.age / 1000,
        requests: session.requests, certificate: session.facts.clientVerdict?.certificate,
        isVerified: session.facts.isVerified)
    }
  }

  /// Cuts the connections of a client at once, and returns how many there were.
  package func cut(clientsNamed name: ClientName) -> Int {
    let named = sessions.values.filter { $0.facts.clientVerdict?.certificate.map(name.names) ?? false }
    for session in named { session.cut() }
    return named.count
  }
}

import Forward
import Observability
import TLS
import Traffic
import Transport
import Upstream

/// The stores of a generation in one worker.
final class LiveStores: LivePart {
  private let clients: [String: StoreClient]
  private let guessStore: StoreUse?

  required init(_ makers: LiveMakers) {
    let (http, generation, shared) = (makers.generation.http, makers.generation, makers.shared)
    guessStore = http[SharedStores.self].guesses
    let groups = makers[LiveGroups.self]
    let (log, records) = (Self.teller(makers), shared[StoreRecords.self])
    // An explanation asks nothing outside the process.
    let stores = makers.trace == nil ? http.sharedStores : []
    clients = Dictionary(
      stores.map { settings in
        let trust = UpstreamTrust(
          context: settings.tls.flatMap { generation.upstreamContexts[$0] }, name: settings.host, connection: .tcp)
        let client = StoreClient(
          settings, record: records.record(of: settings.name), trust: trust,
          password: settings.passwordFile.flatMap { generation[StorePasswords.self].words[$0] }, loop: makers.loop,
          group: { groups.newest(settings.group) }, tell: log)
        return (settings.name, client)
      }, uniquingKeysWith: { first, _ in first })
    super.init(makers)
  }

  /// Writes what is told of a store. Faults that repeat are folded.
  static func teller(_ makers: LiveMakers) -> (LogLevel, String) -> Void {
    { [log = makers.generation.errorLog, shared = makers.shared, unowned loop = makers.loop] level, text in
      guard level > .notice else { return log.log(level, text) }
      if shared.faults.note(text, about: "", .none, level, log, now: loop.now).writes { log.log(level, text) }
    }
  }

  subscript(use: StoreUse?) -> StoreClient? { use.flatMap { clients[$0.store] } }
  subscript(name: String) -> StoreClient? { clients[name] }

  /// Where wrong passwords count (`enrolment_failures_store`); nil: in this process alone.
  var guesses: StoreGuesses? {
    guessStore.flatMap { use in clients[use.store].map { StoreGuesses(store: $0, failing: use.failing) } }
  }

  /// Connects to each, so that the first request finds a connection.
  override func open() { for client in clients.values { client.open() } }
  override func close() { for client in clients.values { client.close() } }
}

/// Follows the keys of session tickets in stores, in the first worker of a process.
final class StoredTickets: LivePart {
  private let followers: [StoreTickets]

  required init(_ makers: LiveMakers) {
    let names = makers.loop.index == 0 ? Set(makers.generation.http.servers.compactMap { $0.tls?.ticketStore }) : []
    followers = names.compactMap { name in
      makers[LiveStores.self][name].map {
        StoreTickets($0, makers.shared.ticketRings.ring(of: name), loop: makers.loop)
      }
    }
    super.init(makers)
  }

  override func close() { for follower in followers { follower.close() } }
}

package import Crypto
package import Observability
package import TLS
package import Transport
package import Upstream

/// What locations are compiled with.
public struct LiveMakers {
  package let generation: Generation
  package let worker: Worker
  /// What features keep in this generation.
  package let parts = LiveParts()
  /// The index of the server block.
  package var server = 0
  /// The fields of the server block that its locations remove from clients' requests for another reason.
  package var removedNames: [[UInt8]] = []
  /// Those of the server block.
  package var conditionals = ConditionalLocations()

  package var shared: SharedState { worker.shared }
  package var loop: EventLoop { worker.loop }
  /// nil but for `sallyport check --explain`.
  package var trace: ExplainTrace? { worker.trace }

  package func errorLog(_ settings: [ErrorLogSettings]) -> ErrorLog {
    generation.errorLogs[settings] ?? generation.errorLog
  }
}

/// A generation in one worker: compiled, with its own pools and balancers. It ends when its last client has gone.
public final class LiveGeneration {
  package let generation: Generation
  package let servers: [LiveServer]
  /// By the identity of their contexts, which they hold.
  private let serversOfContexts: [ObjectIdentifier: LiveServer]
  package let listeners: [VirtualServers]
  package let parts: LiveParts
  /// By slot; nil for variables that are set.
  package let variables: [LiveVariable?]
  /// The CRLs by which its server blocks judge clients, each once.
  package private(set) lazy var revocations: [RevocationList] = {
    var known: Set<[UInt8]> = []
    return generation.serverContexts.flatMap { $0?.revocations ?? [] }.filter { known.insert($0.sha256).inserted }
  }()
  /// Connections of clients that it serves.
  package var clients = 0
  /// Cuts those that are left of a previous generation; nil without `worker_shutdown_timeout`.
  package var shutdown: OneShotTimer?

  package init(_ generation: Generation, _ worker: Worker) {
    self.generation = generation
    let makers = LiveMakers(generation: generation, worker: worker)
    let shared = worker.shared
    let servers = generation.http.servers.enumerated().map { index, settings in
      var makers = makers
      makers.server = index
      makers.removedNames = settings.root.features.flatMap(\.removedFields)
      makers.conditionals = ConditionalLocations()
      return LiveServer(
        settings: settings, context: generation.serverContexts[index],
        root: LiveLocation(settings: settings.root, makers: makers, isRoot: true),
        conditionals: makers.conditionals)
    }
    self.servers = servers
    for kind in shared.features.all.flatMap({ $0.liveParts }) { _ = makers[kind] }
    self.parts = makers.parts
    self.serversOfContexts = Dictionary(
      servers.compactMap { server in server.context.map { (ObjectIdentifier($0), server) } },
      uniquingKeysWith: { first, _ in first })
    self.listeners = generation.http.listeners.map {
      VirtualServers($0, all: servers, challenges: shared.challengeCertificates, healthMark: shared.healthMark)
    }
    let computed = generation.http.computed
    let last = computed.keys.max() ?? -1
    self.variables = (0..<(last + 1)).map { computed[$0]?.live(makers) }
  }

  /// The server block of a context that a handshake chose.
  package func server(of context: ServerTLSContext) -> LiveServer? { serversOfContexts[ObjectIdentifier(context)] }

  /// The listener with this address, or with the same port on every address of its family.
  package func listenerIndex(at address: ListenAddress) -> Int? { generation.http.listeners.index(of: address) }

  /// The groups of upstream servers that may keep idle connections.
  package var groups: [UpstreamGroup] { parts.all.flatMap(\.groups) }

  /// Closes idle connections. No new exchange begins in this generation.
  package func close() {
    for part in parts.all.reversed() { part.close() }
  }
}

public import Transport

/// One event loop's share of the proxy: its listeners, clients and upstream connections. Lives on its loop.
public final class Worker {
  public let loop: EventLoop
  public let budget: ConnectionBudget

  public init(loop: EventLoop, connections: Int) {
    self.loop = loop
    self.budget = ConnectionBudget(limit: connections)
  }

  /// Serves a generation from now on: new connections are its own, those of the one before end as they become idle.
  /// `failed` hears of a socket that can't be listened on.
  public func serve(_ generation: Generation, sockets: [ListenerSocket], failed: (SocketError) -> Void) {}

  /// Takes no more connections, lets exchanges end, and then calls `drained` once (QUIT).
  public func drain(_ drained: @escaping @Sendable () -> Void) {}

  /// Cuts every connection (TERM, or the end of `worker_shutdown_timeout`).
  public func stopAtOnce() {}

  /// Writes what access logs hold back: before the files are reopened, and at the end.
  public func flushLogs() {}
}

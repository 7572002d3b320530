import Observability
public import Proxy

/// `worker_processes`: here event loops in one process.
public enum WorkerCount: Sendable, Hashable {
  case auto
  case fixed(Int)
}

/// The main context and `events {}`.
public struct MainSettings: Sendable {
  public var workers: WorkerCount = .fixed(1)
  /// `user`; nil: not said.
  public var user: String?
  public var group: String?
  /// As resolved against the configuration's folder; nil: none is written.
  public var pidFile: String?
  public var errorLogs: [ErrorLogSettings] = []
  /// `worker_rlimit_nofile`
  public var openFiles: UInt64?
  /// Bytes (`worker_rlimit_core`); 0: no core is written.
  public var coreSize: UInt64 = 0
  /// Milliseconds; 0 waits without end (`worker_shutdown_timeout`).
  public var shutdownTimeout = 0
  /// Connections of one worker, of clients and to upstreams together (`worker_connections`).
  public var workerConnections = 512
  public init() {}

  /// Who serves when root starts the process: the directive's default is nobody, and root only where it is said aloud.
  package var servingUser: String { user ?? "nobody" }
}

/// The root: everything a configuration says, parsed and checked, nothing loaded.
public struct Settings: Sendable {
  public var main: MainSettings
  public var http: HTTPSettings
  /// Of the main file: relative names resolve against it.
  public var folder: String

  public init(main: MainSettings, http: HTTPSettings, folder: String) {
    self.main = main
    self.http = http
    self.folder = folder
  }
}

package import Language
package import Observability

/// `worker_processes`: in sallyport, the number of event loops in one process.
public enum WorkerCount: Sendable, Hashable {
  case auto
  case fixed(Int)
}

/// `sandbox`: by what the process restricts itself.
public enum SandboxSettings: String, Sendable, Hashable, CaseIterable {
  case on, off, landlock, seccomp

  package var restrictsFiles: Bool { self == .on || self == .landlock }
  package var restrictsCalls: Bool { self == .on || self == .seccomp }
}

/// The settings of the main context and `events {}`.
public struct MainSettings: RowSettings, Sendable {
  public var workers: WorkerCount = .fixed(1)
  /// `user`; nil if the directive is missing.
  public var user: String?
  public var group: String?
  public var sandbox = SandboxSettings.on
  /// The path of the PID file, resolved against the configuration's folder; nil if no file is written.
  public var pidFile: String?
  /// Of that path.
  package var pidFileLocation: SourceLocation?
  public var errorLogs: [ErrorLogSettings] = []
  /// `worker_rlimit_nofile`
  public var openFiles: UInt64?
  /// The most bytes of a core file (`worker_rlimit_core`); 0: no core file is written.
  public var coreSize: UInt64 = 0
  /// Milliseconds to wait for exchanges at shutdown (`worker_shutdown_timeout`); 0 waits without limit.
  public var shutdownTimeout = 0
  /// The most connections of one worker, with clients and upstreams together (`worker_connections`).
  public var workerConnections = 512
  /// The path of the SPIFFE agent's socket (`spiffe_endpoint`); nil: the environment says it.
  public var workloadEndpoint: String?
  public init() {}

  /// The user that serves when root starts the process. The default is nobody; root serves only if `user` names root.
  package var servingUser: String { user ?? "nobody" }
}

/// The root of the settings: all of a configuration, parsed and checked, with no file loaded.
public struct Settings: Sendable {
  public var main: MainSettings
  public var http: HTTPSettings
  /// The folder of the main file; relative names resolve against it.
  public var folder: String
  /// What the files said that these settings were read from; empty for a text without a file.
  package var sources = SourceMarks()
}

import Glibc
public import Observability
import Synchronization

/// Figures of the process, as the kernel tells them; nil where it doesn't, such as without /proc.
public struct ProcessFigures: Sendable {
  /// Bytes of memory that the process has in RAM.
  public var residentMemory: Int64?
  /// Milliseconds of CPU time, of all threads.
  public var cpuTime: Int64?
  public var openDescriptors: Int64?
  public var descriptorLimit: Int64?
  public init() {}
}

/// What asked for a reload.
public enum ReloadKind: String, Sendable, CaseIterable {
  /// HUP.
  case configuration
  /// A file changed that the configuration names.
  case files
}

/// How a reload ended.
public enum ReloadResult: String, Sendable, CaseIterable {
  case loaded, refused
}

/// The reloads of the process since its start.
public struct ReloadHistory: Sendable {
  public private(set) var counts: [ReloadKind: [ReloadResult: UInt64]] = [:]
  /// Seconds since 1970: when what serves was loaded.
  public private(set) var loadedAt: Int64
  /// The last reload, if it was refused: when, and the first of the reasons.
  public private(set) var refusal: (at: Int64, reason: String)?

  init(startedAt: Int64) { loadedAt = startedAt }

  public func count(_ kind: ReloadKind, _ result: ReloadResult) -> UInt64 { counts[kind]?[result] ?? 0 }

  /// `refusal`: nil if what was asked for serves now.
  mutating func note(_ kind: ReloadKind, refusal reason: String?, at now: Int64) {
    counts[kind, default: [:]][reason == nil ? .loaded : .refused, default: 0] &+= 1
    if let reason { refusal = (now, reason) } else { (loadedAt, refusal) = (now, nil) }
  }
}

/// How a request for a revocation list ended.
public enum FetchResult: String, Sendable, CaseIterable {
  case taken, unchanged, failed
}

/// What came of the requests for the revocation list at one URL.
public struct FetchHistory: Sendable {
  public private(set) var counts: [FetchResult: UInt64] = [:]
  /// Seconds since 1970; nil before the first success.
  public private(set) var succeededAt: Int64?

  public init() {}

  mutating func note(_ result: FetchResult, at now: Int64) {
    counts[result, default: 0] &+= 1
    if result != .failed { succeededAt = now }
  }
}

/// What the main queue tells the metrics: reloads, lost log lines, and figures of the process that no event loop may ask for.
public final class ProcessRecord: Sendable {
  /// Seconds since 1970.
  public let startedAt = Int64(time(nil))
  private let startTick = MonotonicClock.seconds
  /// Seconds since the start, whatever happened to the wall clock.
  public var age: Int64 { MonotonicClock.seconds - startTick }
  /// By URL. The configuration and `RevocationPoints.limit` bound how many there are.
  private let fetchStates = Mutex<[String: FetchHistory]>([:])
  private let state: Mutex<(reloads: ReloadHistory, figures: ProcessFigures, logs: LogFiles?)>
  private let acme = Mutex<[ACMERenewalState]>([])

  public init() { state = Mutex((ReloadHistory(startedAt: startedAt), ProcessFigures(), nil)) }

  /// The certificates that the process renews by itself.
  public var renewals: [ACMERenewalState] { acme.withLock { $0 } }
  public func take(_ renewals: [ACMERenewalState]) { acme.withLock { $0 = renewals } }

  /// The lines that logs have lost, by log. Logs that have lost none may be missing.
  public var lostLines: [String: UInt64] { state.withLock { $0.logs }?.lostLines ?? [:] }
  public func follow(_ logs: LogFiles) { state.withLock { $0.logs = logs } }

  public var reloads: ReloadHistory { state.withLock { $0.reloads } }
  public var figures: ProcessFigures { state.withLock { $0.figures } }

  public func didReload(_ kind: ReloadKind, refusal: String? = nil) {
    let now = Int64(time(nil))
    state.withLock { $0.reloads.note(kind, refusal: refusal, at: now) }
  }

  public var fetches: [String: FetchHistory] { fetchStates.withLock { $0 } }

  public func didFetch(_ url: String, _ result: FetchResult) {
    let now = Int64(time(nil))
    fetchStates.withLock { $0[url, default: FetchHistory()].note(result, at: now) }
  }

  /// Forgets the URLs that are not fetched any more.
  public func keepFetches(of urls: Set<String>) {
    fetchStates.withLock { states in
      states = states.filter { urls.contains($0.key) }
      for url in urls where states[url] == nil { states[url] = FetchHistory() }
    }
  }

  public func take(_ figures: ProcessFigures) { state.withLock { $0.figures = figures } }
}

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
  /// The last reload, if it was refused: when, and the first of the reasons. A configuration stays refused until one is
  /// taken.
  public private(set) var refusal: (at: Int64, reason: String)?
  /// Since when each reload was refused, in seconds since 1970; nil if the last one was not.
  public private(set) var refusedSince: Int64?
  /// What asked for the reload that was refused.
  private var refusedKind = ReloadKind.files

  package init(startedAt: Int64) { loadedAt = startedAt }

  /// ` (refused since … UTC, the last time … UTC)`; empty if the last reload was not refused.
  package var refusalTimes: String {
    guard let refusal, let since = refusedSince else { return "" }
    let last = refusal.at == since ? "" : ", the last time \(Moment(refusal.at, utc: true).words) UTC"
    return " (refused since \(Moment(since, utc: true).words) UTC\(last))"
  }

  public func count(_ kind: ReloadKind, _ result: ReloadResult) -> UInt64 { counts[kind]?[result] ?? 0 }

  /// `refusal`: nil if what was asked for serves now.
  package mutating func note(_ kind: ReloadKind, refusal reason: String?, at now: Int64) {
    counts[kind, default: [:]][reason == nil ? .loaded : .refused, default: 0] &+= 1
    if let reason {
      refusedKind = refusal != nil && refusedKind == .configuration ? .configuration : kind
      refusal = (now, reason)
      refusedSince = refusedSince ?? now
      return
    }
    loadedAt = now
    // Files follow a configuration that was refused, and don't mend it.
    if kind == .configuration || refusedKind == .files { (refusal, refusedSince) = (nil, nil) }
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
  /// Those that failed since the last one that did not.
  public private(set) var failures = 0
  /// Why the last one failed.
  public private(set) var reason = ""
  /// Seconds since 1970: the end of the list in use; nil if there is none. A list without an end has none before `.max`.
  public private(set) var listEnd: Int64?

  public init() {}

  /// `reason`: nil if it didn't fail.
  package mutating func note(_ result: FetchResult, _ reason: String?, listEnd: Int64?, at now: Int64) {
    counts[result, default: 0] &+= 1
    self.listEnd = listEnd
    if let reason {
      (failures, self.reason) = (min(failures, 1 << 20) + 1, reason)
    } else {
      (failures, self.reason, succeededAt) = (0, "", now)
    }
  }

  /// What somebody should look at; nil: all is well, or nothing has failed yet. `isServing`: there is a list that has not
  /// ended.
  public func trouble(of url: String, at now: Int64) -> (words: String, isServing: Bool)? {
    guard failures > 0 else { return nil }
    let what = "The revocation list \(url)", times = "\(failures) \(failures == 1 ? "request" : "requests")"
    guard let listEnd, listEnd > now else {
      let state = listEnd == nil ? "is not there" : "has ended"
      return ("\(what) \(state), so clients of its CA are refused; \(times) failed: \(reason)", false)
    }
    // One failure says nothing yet: the list in use serves, and the next request may succeed.
    return failures < 3 ? nil : ("\(what) could not be fetched again, \(times) failed: \(reason)", true)
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
  private struct State: Sendable {
    var reloads: ReloadHistory
    var figures = ProcessFigures()
    var logs: LogFiles?
    var files = WatchedFiles()
    var configuration = ""
  }

  private let state: Mutex<State>

  public init() { state = Mutex(State(reloads: ReloadHistory(startedAt: startedAt))) }

  package var files: WatchedFiles { state.withLock { $0.files } }
  public func take(_ files: WatchedFiles) { state.withLock { $0.files = files } }

  /// How whoever started the process named the configuration.
  package var configuration: String { state.withLock { $0.configuration } }
  public func take(configuration: String) { state.withLock { $0.configuration = configuration } }

  /// What error logs got at `error` or above; nil as long as the process has none.
  package var errors: RecentErrors? { state.withLock { $0.logs }?.errors }

  /// The levels of error logs; nil as long as the process has none.
  package var logLevels: ErrorLogLevels? { state.withLock { $0.logs }?.levels }

  /// The lines that logs have lost, by log. Logs that have lost none may be missing.
  public var lostLines: [String: UInt64] { state.withLock { $0.logs }?.lostLines ?? [:] }
  public func follow(_ logs: LogFiles) { state.withLock { $0.logs = logs } }

  /// The logs that lose lines now.
  package var losingLogs: [OngoingFaults.Fault] {
    (state.withLock { $0.logs }?.losing ?? []).map { log in
      OngoingFaults.Fault(kind: .log, name: log.path, words: "the log \(log.path) loses lines: \(log.reason)")
    }
  }

  public var reloads: ReloadHistory { state.withLock { $0.reloads } }
  public var figures: ProcessFigures { state.withLock { $0.figures } }

  public func didReload(_ kind: ReloadKind, refusal: String? = nil) {
    let now = Int64(time(nil))
    state.withLock { $0.reloads.note(kind, refusal: refusal, at: now) }
  }

  public var fetches: [String: FetchHistory] { fetchStates.withLock { $0 } }

  /// `reason`: why it failed. `listEnd`: as `FetchHistory.listEnd`.
  public func didFetch(_ url: String, _ result: FetchResult, _ reason: String? = nil, listEnd: Int64?) {
    let now = Int64(time(nil))
    fetchStates.withLock { $0[url, default: FetchHistory()].note(result, reason, listEnd: listEnd, at: now) }
  }

  /// What somebody should look at among the revocation lists that the process fetches.
  public func troubles(at now: Int64) -> [(words: String, isServing: Bool)] {
    fetches.sorted { $0.key < $1.key }.compactMap { $0.value.trouble(of: $0.key, at: now) }
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

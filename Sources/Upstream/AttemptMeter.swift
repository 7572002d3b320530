public import HTTP
public import Observability
public import TLS

/// What one worker counts of one server of a group. The worker's loop writes, any thread reads.
public final class AttemptMeter: Sendable {
  /// How an attempt came out, as metrics name it: the class of the response's status, or why there was none.
  public enum Result: String, CaseIterable, Sendable {
    case informational = "1xx"
    case successful = "2xx"
    case redirection = "3xx"
    case clientError = "4xx"
    case serverError = "5xx"
    case connect
    case connectTimeout = "connect-timeout"
    /// sallyport refused the server, or the handshake failed.
    case tls
    case sendTimeout = "send-timeout"
    case readTimeout = "read-timeout"
    /// The server closed the connection before a response.
    case closed
    case broken
    /// The response is malformed.
    case invalid
    case refusedStream = "refused-stream"
    case reset
    /// `worker_connections` are used up, or another resource of this process.
    case noRoom = "no-room"
    /// The client left, or the request went on elsewhere, before there was a response.
    case abandoned
    /// In `stream`: the connection was opened.
    case connected

    /// Whether it is the server that failed, or that could not be used.
    var isFailure: Bool {
      switch self {
      case .informational, .successful, .redirection, .clientError, .serverError, .abandoned, .connected: false
      case .connect, .connectTimeout, .tls, .sendTimeout, .readTimeout, .closed, .broken, .invalid, .refusedStream,
        .reset, .noRoom:
        true
      }
    }
  }

  private static let places = Dictionary(Result.allCases.enumerated().map { ($1, $0) }) { first, _ in first }
  @usableFromInline static let firstBucket = 18
  @usableFromInline static let sum = firstBucket + TimeBuckets.count
  private static let truncated = sum + 1
  private static let opened = sum + 2
  private static let idle = sum + 3
  private static let open = sum + 4
  private static let unavailable = sum + 5

  private static let received = sum + 6
  private static let sent = sum + 7

  private static let responses = sum + 8
  private static let responseSum = sum + 9
  private static let downtime = sum + 10

  @usableFromInline static let firstCode = sum + 11
  private static let firstFault = firstCode + StatusPlaces.count
  /// The results of trust by which the certificate of a server isn't what the configuration demands.
  public static let trustFaults: [TrustOutcome] = [.chain, .expired, .revoked, .name, .pin, .reportOnlyMismatch]

  @usableFromInline let row = CountRow(AttemptMeter.firstFault + AttemptMeter.trustFaults.count)
  @usableFromInline let places = StatusPlaces.shared

  public init() {}

  /// The head of a response came so many milliseconds after the attempt began.
  @inlinable
  public func didRespond(_ status: Int, after time: UInt64) {
    row.add(at: Self.firstCode + places.place(of: status))
    row.add(at: Self.firstBucket + TimeBuckets.place(of: time))
    row.add(time, at: Self.sum)
  }

  /// A connection of `stream` was open so many milliseconds after its attempt began.
  public func didOpen(after time: UInt64) {
    didEnd(.connected)
    row.add(at: Self.firstBucket + TimeBuckets.place(of: time))
    row.add(time, at: Self.sum)
  }

  public func didEnd(_ result: Result) {
    if let place = Self.places[result] { row.add(at: place) }
  }

  /// A handshake with the server was judged.
  public func didJudge(_ outcome: TrustOutcome) {
    if let place = Self.trustFaults.firstIndex(of: outcome) { row.add(at: Self.firstFault + place) }
  }

  /// A response ended early, after its head was counted.
  public func didTruncate() { row.add(at: Self.truncated) }

  /// An attempt has ended; bytes without TLS. `time`: the milliseconds since it began; nil: there was no response.
  public func didMove(received: UInt64, sent: UInt64, after time: UInt64?) {
    row.add(received, at: Self.received)
    row.add(sent, at: Self.sent)
    guard let time else { return }
    row.add(at: Self.responses)
    row.add(time, at: Self.responseSum)
  }

  /// The server got no requests for so many milliseconds, because of its failures or of its health checks.
  func wasOut(for time: UInt64) { row.add(time, at: Self.downtime) }

  /// A connection to the server was begun.
  func didConnect() { row.add(at: Self.opened) }

  /// Samples of the moment. `isUnavailable`: the worker leaves the server out because of its failures.
  func set(idle: Int, open: Int, isUnavailable: Bool) {
    row.set(UInt64(clamping: idle), at: Self.idle)
    row.set(UInt64(clamping: open), at: Self.open)
    row.set(isUnavailable ? 1 : 0, at: Self.unavailable)
  }

  /// Adds these counts to those of the other workers.
  public func add(to totals: inout AttemptTotals) {
    for (place, _) in Result.allCases.enumerated() { totals.results[place] &+= row.value(at: place) }
    let codes = (0..<StatusPlaces.count).map { row.value(at: Self.firstCode + $0) }
    for (place, count) in codes.enumerated() { totals.codes[place] &+= count }
    // The results begin with the classes.
    for (place, count) in StatusPlaces.byClass(codes).enumerated() { totals.results[place] &+= count }
    for place in 0..<TimeBuckets.count { totals.times.buckets[place] &+= row.value(at: Self.firstBucket + place) }
    totals.times.sum &+= row.value(at: Self.sum)
    for place in Self.trustFaults.indices { totals.trustFaults[place] &+= row.value(at: Self.firstFault + place) }
    totals.truncated &+= row.value(at: Self.truncated)
    totals.opened &+= row.value(at: Self.opened)
    totals.received &+= row.value(at: Self.received)
    totals.sent &+= row.value(at: Self.sent)
    totals.responses &+= row.value(at: Self.responses)
    totals.responseTime &+= row.value(at: Self.responseSum)
    totals.downtime &+= row.value(at: Self.downtime)
    totals.idle &+= row.value(at: Self.idle)
    totals.open &+= row.value(at: Self.open)
    if row.value(at: Self.unavailable) != 0 { totals.isUnavailable = true }
  }
}

/// The counts of one server of a group, over all workers.
public struct AttemptTotals: Sendable {
  /// In the order of `AttemptMeter.Result`.
  public var results = [UInt64](repeating: 0, count: AttemptMeter.Result.allCases.count)
  /// By place (`StatusPlaces`).
  public var codes = [UInt64](repeating: 0, count: StatusPlaces.count)
  /// In the order of `AttemptMeter.trustFaults`.
  public var trustFaults = [UInt64](repeating: 0, count: AttemptMeter.trustFaults.count)
  public var times = TimeHistogram()
  public var truncated: UInt64 = 0
  public var opened: UInt64 = 0
  /// Bytes of attempts that have ended.
  public var received: UInt64 = 0
  public var sent: UInt64 = 0
  /// Attempts with a response that have ended, and their milliseconds in all.
  public var responses: UInt64 = 0
  public var responseTime: UInt64 = 0
  /// Milliseconds, to a second.
  public var downtime: UInt64 = 0
  public var idle: UInt64 = 0
  public var open: UInt64 = 0
  /// A worker leaves the server out because of its failures.
  public var isUnavailable = false
  public init() {}

  public var attempts: UInt64 { results.reduce(0, &+) }

  /// Attempts without a response.
  public var failures: UInt64 {
    zip(AttemptMeter.Result.allCases, results).reduce(0) { $1.0.isFailure ? $0 &+ $1.1 : $0 }
  }

  /// Attempts whose response was an error of the server.
  public var serverErrors: UInt64 {
    zip(AttemptMeter.Result.allCases, results).reduce(0) { $1.0 == .serverError ? $0 &+ $1.1 : $0 }
  }
}

/// The meters of a group's servers, in one worker.
public final class GroupMeter: Sendable {
  private let servers: [AttemptMeter]
  /// Requests for which no server of the group could be tried.
  public let exhausted: CountRow

  /// `servers`: by index in the group's servers.
  public init(_ servers: [AttemptMeter], exhausted: CountRow) {
    self.servers = servers
    self.exhausted = exhausted
  }

  public func server(_ index: Int) -> AttemptMeter? { servers.indices.contains(index) ? servers[index] : nil }
}

extension AttemptMeter.Result {
  /// nil: no server was tried.
  public init?(_ failure: AttemptFailure) {
    switch failure {
    case .noServer: return nil
    case .connect, .proxy(_, .connect), .proxy(_, .answer): self = .connect
    case .noRoom: self = .noRoom
    case .connectTimeout, .proxy(_, .timeout): self = .connectTimeout
    case .tls: self = .tls
    case .sendTimeout: self = .sendTimeout
    case .readTimeout: self = .readTimeout
    case .closedBeforeHead: self = .closed
    case .broken: self = .broken
    case .invalidHead, .invalidStream, .invalidBody, .unsolicitedBytes: self = .invalid
    case .refusedStream: self = .refusedStream
    case .reset: self = .reset
    }
  }
}

/// What a peer of an HTTP/2 connection can do too much of. The connection ends with ENHANCE_YOUR_CALM, or the stream is
/// refused; the log has the sentence, and the metrics have the count.
public enum HTTP2Limit: String, CaseIterable, Sendable {
  case concurrentStreams = "concurrent_streams"
  case headerList = "header_list"
  case resets, pings, settings, priorities
  case windowUpdates = "window_updates"
  case emptyData = "empty_data"
  case continuations
  case unknownFrames = "unknown_frames"
  case smallWindows = "small_windows"
  case stalledStreams = "stalled_streams"
  case unwantedFrames = "unwanted_frames"

  public var reason: StaticString {
    switch self {
    case .concurrentStreams: "client has more streams open than http2_max_concurrent_streams"
    case .headerList: "client sent a header list larger than large_client_header_buffers"
    case .resets: "client sent too many RST_STREAM frames, or frames that reset a stream"
    case .pings: "client sent too many PING frames"
    case .settings: "client sent too many SETTINGS frames"
    case .priorities: "client sent too many PRIORITY frames"
    case .windowUpdates: "client sent too many WINDOW_UPDATE frames"
    case .emptyData: "client sent too many DATA frames without data"
    case .continuations: "client sent too many CONTINUATION frames"
    case .unknownFrames: "client sent too many frames of unknown types"
    case .smallWindows: "client takes its responses in too small pieces"
    case .stalledStreams: "client gave a stream no window for send_timeout"
    case .unwantedFrames: "client sent too much on streams that are over"
    }
  }
}

/// Counts the frames of a connection that cost work and carry no request, and says when they are too many.
///
/// Each kind has a budget: a burst, which fills again at a rate. Legitimate clients stay far below; a client that keeps
/// within the budget costs less than one that sends requests. Times are milliseconds of the caller's clock.
public struct HTTP2Bounds: Sendable {
  private struct Budget {
    let burst: UInt64, perSecond: UInt64
    /// Thousandths of a unit: of a frame, or of a byte.
    private var used: UInt64 = 0
    private var at: UInt64 = 0

    init(_ burst: UInt64, perSecond: UInt64) {
      self.burst = burst &* 1000
      self.perSecond = perSecond
    }

    private func rest(at now: UInt64) -> UInt64 {
      let refill = (now >= at ? now &- at : 0).multipliedReportingOverflow(by: perSecond)
      return refill.overflow || refill.partialValue >= used ? 0 : used &- refill.partialValue
    }

    mutating func take(_ now: UInt64, units: UInt64 = 1) -> Bool {
      used = min(rest(at: now), burst) &+ units &* 1000
      at = now
      return used <= burst
    }

    /// Whether more than so many are in use.
    func exceeds(_ count: UInt64, _ now: UInt64) -> Bool { rest(at: now) > count &* 1000 }

    mutating func giveBack(_ count: UInt64) { used = used > count &* 1000 ? used &- count &* 1000 : 0 }
  }

  private var resets = Budget(1000, perSecond: 50)
  private var pings = Budget(200, perSecond: 10)
  private var settings = Budget(50, perSecond: 2)
  private var priorities = Budget(1000, perSecond: 50)
  private var windowUpdates = Budget(5000, perSecond: 200)
  private var emptyData = Budget(100, perSecond: 10)
  private var unknownFrames = Budget(500, perSecond: 20)
  private var smallWindows = Budget(500, perSecond: 20)
  /// Large heads alone end no connection.
  private var largeHeads = Budget(300, perSecond: 100)
  /// Bytes on streams that are over, beyond those that a reset of ours explains.
  private var unwanted = Budget(1 << 20, perSecond: 64 << 10)
  /// Bytes that the peer may have sent on streams before it learned that they are over.
  private var inFlight: UInt64 = 0
  private var continuations = 0

  /// CONTINUATION frames of one header block. A list within our limits needs two.
  private static let continuationLimit = 7
  /// What reading any frame costs, in bytes: a frame with one byte takes nearly as long as one with hundreds.
  private static let frameCost: UInt64 = 256
  /// The largest sum of `inFlight`. A peer sends at most a connection's window before it reads of a reset.
  private static let inFlightLimit: UInt64 = 4 << 20
  /// Decoded bytes from which on a head counts as large.
  private static let largeHead = 8192

  public init() {}

  /// Counts a frame of the peer. Returns the limit that it exceeds.
  public mutating func take(_ kind: HTTP2FrameKind, length: Int, endsStream: Bool, now: UInt64) -> HTTP2Limit? {
    switch kind {
    case .data: return length > 0 || endsStream || emptyData.take(now) ? nil : .emptyData
    case .headers:
      continuations = 0
      return nil
    case .continuation:
      continuations += 1
      return continuations <= Self.continuationLimit ? nil : .continuations
    case .reset: return takeReset(now: now)
    case .ping: return pings.take(now) ? nil : .pings
    case .settings: return settings.take(now) ? nil : .settings
    case .priority: return priorities.take(now) ? nil : .priorities
    case .windowUpdate: return windowUpdates.take(now) ? nil : .windowUpdates
    // A client's is an error of the connection, and an upstream has been told to send none.
    case .goAway, .pushPromise, .other: return unknownFrames.take(now) ? nil : .unknownFrames
    }
  }

  /// Counts a frame of a body or of a head on a stream that is over, or whose body nobody takes. libnghttp2 reads such
  /// frames, ignores them and gives the connection's window back.
  public mutating func takeUnwanted(length: Int, now: UInt64) -> HTTP2Limit? {
    let cost = Self.frameCost &+ UInt64(clamping: length)
    let explained = min(inFlight, cost)
    inFlight &-= explained
    return unwanted.take(now, units: cost &- explained) ? nil : .unwantedFrames
  }

  /// A stream was given up by this side. Its peer may have sent a whole window before it learns of that.
  public mutating func didGiveUp(window: Int32) {
    inFlight = min(inFlight &+ UInt64(clamping: window), Self.inFlightLimit)
  }

  /// Counts a stream that ended by a reset: the peer's, or ours because of the peer's errors (CVE-2025-8671).
  public mutating func takeReset(now: UInt64) -> HTTP2Limit? { resets.take(now) ? nil : .resets }

  /// Counts the decoded bytes of a header block. A client can send kilobytes of fields as a few bytes (RFC 7541 §7.3).
  public mutating func didDecode(_ bytes: Int, now: UInt64) { if bytes > Self.largeHead { _ = largeHeads.take(now) } }

  /// Whether the client causes far more work than it does, by resets (over 50) or by large heads (over 200, above 100 a
  /// second), so that the connection must be read slowly. The limits alone would let a client that connects again and
  /// again keep a worker busy.
  public func isStrained(now: UInt64) -> Bool { resets.exceeds(50, now) || largeHeads.exceeds(200, now) }

  /// Counts a DATA frame to the peer. `isCut`: the peer's window allowed only a small part of what was ready.
  public mutating func didSend(isCut: Bool, now: UInt64) -> HTTP2Limit? {
    windowUpdates.giveBack(4)
    // Some clients measure the round trip with a PING while they receive.
    pings.giveBack(1)
    guard isCut else { return nil }
    return smallWindows.take(now) ? nil : .smallWindows
  }
}

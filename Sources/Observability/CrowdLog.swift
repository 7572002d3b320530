import Synchronization

/// Folds events of many peers: the first lines of a series whole, then one line for each window with the number of
/// events by cause and up to three of the peers.
///
/// Any host can fail handshakes as fast as the network allows. A value without a clock, as `LineFolding`. The type asks as
/// little of its causes as it can, as `Counter` does.
public struct CrowdFolding<Cause: Hashable & Sendable>: Sendable {
  private var folding: LineFolding
  private var counts: [Cause: UInt64] = [:]
  private var peers: [String] = []
  private static var examples: Int { 3 }

  public struct Summary: Sendable, Equatable {
    /// `19995 in 10 s: abandoned 19000, timeout 995; clients: 10.0.0.1, 10.0.0.2`
    public var words: String
    public var counts: [Cause: UInt64]
    /// Whether more than ten events a second were folded.
    public var isFlood: Bool
  }

  public init(_ terms: LineFolding.Terms) { folding = LineFolding(terms) }

  public mutating func choose(_ cause: Cause, of peer: @autoclosure () -> String, now: UInt64) -> LineFolding.Choice {
    let choice = folding.choose(now: now)
    guard choice == .fold else { return choice }
    counts[cause, default: 0] &+= 1
    guard peers.count <= Self.examples else { return choice }
    let peer = peer()
    if !peers.contains(peer) { peers.append(peer) }
    return choice
  }

  public mutating func due(now: UInt64, isLast: Bool = false) -> Summary?
  where Cause: CaseIterable & RawRepresentable<String> {
    guard let summary = folding.due(now: now, isLast: isLast) else { return nil }
    let causes = Cause.allCases.compactMap { cause in counts[cause].map { "\(cause.rawValue) \($0)" } }
    let shown = peers.prefix(Self.examples).joined(separator: ", ") + (peers.count > Self.examples ? ", …" : "")
    defer { (counts, peers) = ([:], []) }
    let seconds = max(1, summary.milliseconds / 1000)
    return Summary(
      words: "\(summary.folded) in \(seconds) s: \(causes.joined(separator: ", ")); clients: \(shown)",
      counts: counts,
      isFlood: summary.folded / seconds >= 10)
  }
}

/// A `CrowdFolding` that all workers share.
public final class CrowdLog<Cause: Hashable & Sendable>: Sendable {
  private let state: Mutex<CrowdFolding<Cause>>

  public init(_ terms: LineFolding.Terms) { state = Mutex(CrowdFolding(terms)) }

  /// Returns whether the caller writes a line of its own about the event.
  public func note(_ cause: Cause, of peer: @autoclosure () -> String, now: UInt64) -> Bool {
    state.withLock { $0.choose(cause, of: peer(), now: now) } == .write
  }

  /// Returns the summary of a window that has ended. One worker asks once a second.
  public func due(now: UInt64, isLast: Bool) -> CrowdFolding<Cause>.Summary?
  where Cause: CaseIterable & RawRepresentable<String> {
    state.withLock { $0.due(now: now, isLast: isLast) }
  }
}

/// Which connections a worker ends at the limit of `worker_connections`, and in which order: who has shown nothing goes
/// before who was verified, and who waits longest goes first. Never one with an exchange in progress. Pure.
struct EvictionOrder {
  enum Rank: Int, CaseIterable, Sendable {
    /// The handshake isn't over, or it waits for its turn with too many others of its address; or a client that wasn't
    /// verified has sent nothing after it.
    case opening
    /// The client waits for the turn of its handshake (`ssl_handshake_limit`).
    case waiting
    /// A client that wasn't verified, between two requests, or an idle connection to an upstream.
    case idle
    /// A client that wasn't verified, whose first head is incomplete.
    case head
    /// A verified client, between two requests.
    case verified
  }

  struct Candidate {
    let rank: Rank
    /// The time since which the connection waits, in milliseconds of one monotonic clock.
    let since: UInt64
  }

  private let candidates: [Candidate]
  private let now: UInt64
  /// So many clients are opening connections that no verified client has to go for them.
  private let isCrowded: Bool

  /// Milliseconds that a client has to answer in the handshake before it may be ended. A client that answers at once is
  /// far below, and a flood of clients that don't answer holds its places no longer.
  static let openingTime: UInt64 = 300
  /// Milliseconds that a client may wait for its turn. Before that, handshakes that don't go on give their turns to those
  /// that wait.
  static let waitingTime: UInt64 = 1000
  /// The same as `openingTime` for the first head of a client that wasn't verified.
  static let headTime: UInt64 = 1000

  /// `limit`: `worker_connections`.
  init(_ candidates: [Candidate], limit: Int, now: UInt64) {
    self.candidates = candidates
    self.now = now
    isCrowded = candidates.count { $0.rank == .opening || $0.rank == .waiting } > limit / 8
  }

  /// The indexes of the candidates of one rank that may be ended now, the longest waiting first.
  func indexes(of rank: Rank) -> [Int] {
    if rank == .verified && isCrowded { return [] }
    return candidates.indices.filter { candidates[$0].rank == rank && hasWaited(candidates[$0]) }
      .sorted { candidates[$0].since < candidates[$1].since }
  }

  private func hasWaited(_ candidate: Candidate) -> Bool {
    let age = now >= candidate.since ? now - candidate.since : 0
    return switch candidate.rank {
    case .opening: age >= Self.openingTime
    case .waiting: age >= Self.waitingTime
    case .head: age >= Self.headTime
    case .idle, .verified: true
    }
  }

  /// How many of `count` connections of a rank one search ends. For idle ones as many as nginx's
  /// `ngx_drain_connections`. Connections of a flood go in larger numbers, so that few searches are needed.
  static func quota(of rank: Rank, _ count: Int) -> Int {
    let most =
      switch rank {
      case .opening, .waiting, .head: 256
      case .idle, .verified: 32
      }
    return min(count, max(1, min(most, count / 8)))
  }
}

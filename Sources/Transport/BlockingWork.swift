/// A class of work that blocks. Each class has lanes of its own in a `BlockingPool`, so none waits for another.
public enum BlockingWork: String, Sendable, Hashable, CaseIterable {
  /// Hashes of `auth_basic`, by the client's address: work for the processor.
  case passwords
  /// Enrolments, by the client's address. They also make keys and wait for the authority's lock, so no password may
  /// wait behind them.
  case enrolments
  /// Enrolments whose register is in a database, by the client's address. They wait for another machine, and no other
  /// enrolment may wait behind them.
  case registers
  /// Files that `if (-f …)` asks about, by the client's address.
  case fileTests
  /// Files that are served, by the client's address.
  case files
  /// Request bodies on their way to and from files, by the client's address.
  case bodies
  /// OCSP requests about clients, by the responder's address.
  case clientStatus
  /// OCSP requests about the certificates that are shown, by the responder's address.
  case staples
  /// Revocation lists that are fetched, by the server's address.
  case revocationLists
  /// Names that requests bring (`proxy_pass` with variables), by name.
  case requestNames
  /// Names of the configuration, by name. A reload waits for them, and a reload may carry a revocation.
  case reloadNames
  /// Certificates that requests name (`proxy_ssl_certificate` with variables), by what holds the key.
  case identities
  /// Certificates that handshakes name (`ssl_certificate` with variables), by the client's address.
  case certificates
  /// Files that keep what was learned or changed, by path: of `proxy_auth_state`, `keyval_zone` and upstream groups. Also
  /// the texts of all pairs of a `keyval_zone`, one at a time.
  case stateFiles
  /// Reading and loading a configuration.
  case reload
  /// Renewing what an authority publishes, by its folder.
  case authorities
  /// Orders of certificates by ACME, by the issuer's folder.
  case orders
  /// Pages about the process, of `metrics` and `status`, by the client's address: with a thousand server blocks, one takes
  /// a tenth of a second.
  case pages
  /// Keys of tokens that are fetched, by the server's name.
  case keySets
  /// Sending spans to the collector.
  case spans
  /// Giving unused memory back to the system.
  case memory

  /// The daemon's bounds. All lanes together stay well below 255: Dispatch gives no more threads to the serial queues of
  /// one quality of service, and past that a class would wait for another after all.
  public var limits: BlockingLimits {
    switch self {
    case .passwords, .enrolments: BlockingLimits(lanes: 2, waiting: 512, partyWaiting: 32)
    case .registers: BlockingLimits(lanes: 4, waiting: 512, partyWaiting: 32)
    // An exchange has one job of these at a time, so the connections bound what waits. A bound of an address would refuse
    // the clients behind one NAT, and cut responses in the middle.
    case .fileTests, .files, .bodies: BlockingLimits(lanes: 4)
    // A responder that never answers holds its own lanes only. 32 responders at once, 1024 requests of each.
    case .clientStatus:
      BlockingLimits(lanes: 128, partyLanes: 4, parties: 32, waiting: 32 * 1020, partyWaiting: 1020)
    // The configuration bounds how many there are.
    case .staples: BlockingLimits(lanes: 6, partyLanes: 1)
    case .revocationLists: BlockingLimits(lanes: 4, partyLanes: 1, waiting: 1024)
    case .reloadNames: BlockingLimits(lanes: 16)
    case .requestNames: BlockingLimits(lanes: 18, partyLanes: 1, waiting: 256, partyWaiting: 64)
    // A token may take long, and must not hold up files.
    case .identities: BlockingLimits(lanes: 8, partyLanes: 4, waiting: 1024)
    // One lane stays free of a client that names many.
    case .certificates: BlockingLimits(lanes: 4, partyLanes: 3, waiting: 8192, partyWaiting: 2048)
    case .stateFiles: BlockingLimits(lanes: 4, partyLanes: 1, waiting: 1024)
    case .pages: BlockingLimits(lanes: 1, waiting: 256, partyWaiting: 32)
    // Keys that came before count meanwhile.
    case .keySets: BlockingLimits(lanes: 1, waiting: 256, partyWaiting: 4)
    case .reload, .spans, .memory: BlockingLimits(lanes: 1)
    case .authorities: BlockingLimits(lanes: 4, partyLanes: 1)
    // An order may take a quarter of an hour, and the configuration bounds how many there are.
    case .orders: BlockingLimits(lanes: 6, partyLanes: 1)
    }
  }
}

/// The bounds of one class of blocking work.
public struct BlockingLimits: Sendable, Hashable {
  /// Jobs done at the same time, and so threads: of all parties, and of one.
  public var lanes: Int
  public var partyLanes: Int
  /// Parties that may have a job waiting or being done.
  public var parties: Int
  /// Jobs that wait: of all parties, and of one.
  public var waiting: Int
  public var partyWaiting: Int

  public init(
    lanes: Int, partyLanes: Int = .max, parties: Int = .max, waiting: Int = .max, partyWaiting: Int = .max
  ) {
    self.lanes = max(1, lanes)
    self.partyLanes = max(1, partyLanes)
    self.parties = parties
    self.waiting = waiting
    self.partyWaiting = partyWaiting
  }
}

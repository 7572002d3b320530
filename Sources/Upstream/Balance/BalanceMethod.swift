/// How a group picks the server of a request (nginx: `hash`, `ip_hash`, `least_conn`, `least_time`, `random`).
public enum BalanceMethod: Sendable, Hashable {
  /// Without a directive: in turn, by weight.
  case roundRobin
  /// `hash KEY`
  case hash
  /// `hash KEY consistent`
  case consistentHash
  /// `ip_hash`
  case addressHash
  /// `least_conn`
  case leastConnections
  /// `least_time header|last_byte [inflight]`. `countsInFlight`: an attempt without a response counts with its age.
  case leastTime(ResponseTime, countsInFlight: Bool)
  /// `random`
  case random
  /// `random two [least_conn]`, `random two least_time=header|last_byte`. nil: by connections.
  case randomTwo(ResponseTime?)

  /// Which time of a response counts.
  public enum ResponseTime: Sendable, Hashable {
    case header, lastByte
  }

  /// Whether the method needs to know how long responses take.
  var measuresTime: Bool {
    switch self {
    case .leastTime, .randomTwo(.some): true
    case .roundRobin, .hash, .consistentHash, .addressHash, .leastConnections, .random, .randomTwo(nil): false
    }
  }

  /// Whether the method picks among all servers by their weights alone, so that a group can have no backup servers.
  public var isWithoutBackup: Bool {
    switch self {
    case .hash, .consistentHash, .addressHash, .random, .randomTwo: true
    case .roundRobin, .leastConnections, .leastTime: false
    }
  }
}

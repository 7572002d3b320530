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
  /// `least_time` with a time and `inflight`. `countsInFlight`: an attempt before that time counts with its age.
  case leastTime(ResponseTime, countsInFlight: Bool)
  /// `random`
  case random
  /// `random two [least_conn]`, `random two least_time=…`. nil: by connections.
  case randomTwo(ResponseTime?)

  /// Which time of an attempt counts.
  public enum ResponseTime: Sendable, Hashable {
    /// In `stream`: until the server has taken the connection, and the handshake is over.
    case connect
    /// Until the head of the response, or the first byte of a session.
    case firstByte
    case lastByte
  }

  /// The time that the method compares; nil: none.
  var time: ResponseTime? {
    switch self {
    case .leastTime(let time, _): time
    case .randomTwo(let time): time
    case .roundRobin, .hash, .consistentHash, .addressHash, .leastConnections, .random: nil
    }
  }

  /// Whether the method needs to know how long responses take.
  var measuresTime: Bool { time != nil }

  /// Whether an attempt is in flight no more once its time has come, before its end.
  var endsFlightEarly: Bool {
    switch self {
    case .leastTime(.connect, countsInFlight: true), .leastTime(.firstByte, countsInFlight: true): true
    default: false
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

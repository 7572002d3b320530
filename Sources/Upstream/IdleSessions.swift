import Bytes

/// The idle serial sessions of a group, that which has been idle longest first. Pure: closing them is the caller's work.
struct IdleSessions {
  private var sessions: [SerialUpstreamSession] = []
  /// The server of each session. A group of 1,000 servers with a session each goes through these for each request, and
  /// not through memory all over the heap.
  private var servers: [Int] = []

  var count: Int { sessions.count }
  var oldest: SerialUpstreamSession? { sessions.first }
  var all: [SerialUpstreamSession] { sessions }

  mutating func append(_ session: SerialUpstreamSession) {
    sessions.append(session)
    servers.append(session.server)
  }

  /// Takes out the session of this server that was used last and that `isMeant` accepts.
  mutating func takeNewest(
    of server: Int, where isMeant: (SerialUpstreamSession) -> Bool
  ) -> SerialUpstreamSession? {
    var index = servers.count
    while index > 0 {
      index -= 1
      guard servers[index] == server, borrowing(sessions[index], isMeant) else { continue }
      servers.remove(at: index)
      return sessions.remove(at: index)
    }
    return nil
  }

  /// Takes out the session that has been idle longest; nil if there is none.
  mutating func takeOldest() -> SerialUpstreamSession? {
    guard !sessions.isEmpty else { return nil }
    servers.removeFirst()
    return sessions.removeFirst()
  }

  mutating func remove(_ session: SerialUpstreamSession) {
    guard let index = sessions.firstIndex(where: { $0 === session }) else { return }
    servers.remove(at: index)
    sessions.remove(at: index)
  }

  mutating func takeAll() -> [SerialUpstreamSession] {
    defer { self = IdleSessions() }
    return sessions
  }
}

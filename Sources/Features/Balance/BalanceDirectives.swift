import Forward
import Language
import Traffic
import Upstream

/// How a group picks a server (nginx: ngx_http_upstream_module and the modules of its methods).
enum Balance: BalanceFeature {
  static let chapter = Chapter.upstreams
  static let kinds: Set<TrafficKind> = [.http, .stream]

  /// What the `upstream` blocks say, by the index of the group.
  struct Block: BlockPart {
    var balances: [Int: BalanceSettings] = [:]
  }

  static func balances(_ makers: LiveMakers) -> [Int: GroupBalance] {
    let groups = makers.generation.http.groups, zones = makers.shared[LearnZones.self]
    return makers.generation.http[Block.self].balances.reduce(into: [:]) { all, entry in
      guard groups.indices.contains(entry.key) else { return }
      all[entry.key] = LiveBalance(entry.value, of: groups[entry.key].name, zones)
    }
  }

  static let zone = DirectiveEntry.local(
    "zone", .everyUpstream, .words(1...2, "NAME [SIZE]"), "",
    "All workers share the group's run-time state: weights, failures and active requests, so that `max_conns`,"
      + " `least_conn` and turns are exact. A reload keeps it if the servers have the same addresses. `SIZE` is checked"
      + " and has no effect.", example: "zone backend 64k;")

  static let directives: [DirectiveEntry] = [
    .local(
      "hash", .everyUpstream, .words(1...2, "KEY [consistent]"), "",
      "The server by the hash of a key, which can have variables: as Cache::Memcached, or with `consistent` as"
        + " Cache::Memcached::Fast with 160 points a unit of weight. With an empty key, the servers take turns.",
      repeatable: true, example: "hash $remote_addr consistent;"),
    .local(
      "ip_hash", .upstream, .none, "",
      "The server by the client's address: the first three octets of IPv4, or all of IPv6.", repeatable: true,
      example: "ip_hash;"),
    .local(
      "least_conn", .everyUpstream, .none, "", "The server with the fewest active requests for its weight.",
      repeatable: true,
      example: "least_conn;"),
    .local(
      "least_time", .upstream, .words(1...2, "header | last_byte [inflight]"), "",
      "The server with the least average response time and the fewest active requests for its weight. `inflight` counts"
        + " the age of requests without a response, too.", repeatable: true, example: "least_time header;"),
    .local(
      "least_time", .streamUpstream, .words(1...2, "connect | first_byte | last_byte [inflight]"), "",
      "The server with the least average time to connect, to its first byte or of a whole session, and the fewest sessions"
        + " for its weight. `inflight` counts the age of sessions before that time, too.", repeatable: true,
      example: "least_time connect;"),
    .local(
      "random", .upstream,
      .words(0...2, "[two [least_conn | least_time=header | least_time=last_byte]]"), "",
      "A server at random, by weight; with `two`, the better of two such servers.", repeatable: true,
      example: "random two least_conn;"),
    .local(
      "random", .streamUpstream,
      .words(
        0...2, "[two [least_conn | least_time=connect | least_time=first_byte | least_time=last_byte]]"), "",
      "A server at random, by weight; with `two`, the better of two such servers.", repeatable: true,
      example: "random two;"),
    zone,
  ]
}

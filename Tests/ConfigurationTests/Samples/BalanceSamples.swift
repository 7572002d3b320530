extension DirectiveSample {
  /// How a group picks a server.
  static let balance: [String: DirectiveSample] = [
    "hash": .init("hash $arg_a;", or: "hash $arg_a consistent;"),
    "ip_hash": .init("ip_hash;"),
    "least_conn": .init("least_conn;"),
    "least_time": .init("least_time last_byte;", or: "least_time last_byte inflight;"),
    "random": .init("random;", or: "random two;"),
    "sticky": .init("sticky cookie a;", or: "sticky route $cookie_a;"),
    "zone": .init("zone a 64k;"),
  ]
}

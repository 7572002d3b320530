import ConfigurationSupport
@testable import Features
@testable import Forward
import Testing
@testable import Traffic
import Upstream

@Suite struct `How a group picks a server, as configured` {
  private func load(_ lines: String, servers: String = "server a; server b;") -> LoadedText {
    LoadedText(
      "http { upstream g {\n\(servers)\n\(lines) } server { listen 80; location / { proxy_pass http://g; } } }")
  }

  @Test(
    arguments: [
      ("", .roundRobin), ("hash $uri;", .hash), ("hash a$uri consistent;", .consistentHash), ("ip_hash;", .addressHash),
      ("least_conn;", .leastConnections), ("least_time header;", .leastTime(.firstByte, countsInFlight: false)),
      ("least_time last_byte inflight;", .leastTime(.lastByte, countsInFlight: true)), ("random;", .random),
      ("random two;", .randomTwo(nil)), ("random two least_conn;", .randomTwo(nil)),
      ("random two least_time=header;", .randomTwo(.firstByte)),
      ("random two least_time=last_byte;", .randomTwo(.lastByte)),
    ] as [(String, BalanceMethod)])
  func `each method is read`(lines: String, method: BalanceMethod) throws {
    let http = try #require(load(lines).settings?.http)
    let group = try #require(http.groups.first)
    #expect(group.method == method && group.zone == nil && !group.isSticky)
    #expect((http[Balance.Block.self].balances[0]?.key != nil) == lines.hasPrefix("hash"))
    #expect(group.keepalive.connections == 32 && group.keepalive.isLocal)
  }

  @Test func `servers, zones and kept connections have their parameters`() throws {
    let loaded = load(
      "zone shared 64k; keepalive 0;",
      servers: "server a:1 slow_start=30s route=x.1 drain; server unix:/b weight=2; server c.test backup;")
    let group = try #require(loaded.settings?.http.groups.first)
    #expect(group.zone == "shared" && group.keepalive.connections == 0 && !group.keepalive.isLocal)
    #expect(group.servers.map(\.slowStart) == [30, 0, 0] && group.servers.map(\.isDraining) == [true, false, false])
    #expect(group.servers.map(\.spelling) == ["a:1", "unix:/b", "c.test"])
    #expect(group.servers[0].route == Array("x.1".utf8))
    let local = try #require(load("keepalive 5 local;").settings?.http.groups.first?.keepalive)
    #expect(local.connections == 5 && local.isLocal)
  }

  @Test func `a group of one address keeps no connections`() throws {
    let loaded = LoadedText("http { server { listen 80; location / { proxy_pass http://127.0.0.1:1; } } }")
    let keepalive = try #require(loaded.settings?.http.groups.first?.keepalive)
    #expect(keepalive.connections == 0 && !keepalive.isLocal)
  }

  @Test(arguments: [
    ("hash $uri now;", "3:11 invalid parameter \"now\" | consistent, or nothing"),
    ("least_time now;", "3:12 invalid parameter \"now\" | header or last_byte"),
    ("least_time header now;", "3:19 invalid parameter \"now\" | inflight, or nothing"),
    ("random three;", "3:8 invalid parameter \"three\" | two, or nothing"),
    (
      "random two now;", "3:12 invalid parameter \"now\" | least_conn, least_time=header or least_time=last_byte"
    ),
    ("hash $nothing;", "3:6 unknown \"nothing\" variable"),
    (
      "ip_hash; least_conn;",
      "3:10 warning: load balancing method redefined | the last one counts; the other is at /etc/x.conf:3:1"
    ),
    (
      "keepalive 4; least_conn;",
      "3:14 warning: load balancing method redefined | write it above \"keepalive\": older nginx would ignore that one, at /etc/x.conf:3:1"
    ),
    (
      "sticky cookie a; least_conn;",
      "3:18 \"least_conn\" after \"sticky\": load balancing method redefined | write it above \"sticky\", which is at /etc/x.conf:3:1"
    ),
    ("zone a 8k;", "3:8 zone \"a\" is too small | at least 32k"),
    ("zone a x;", "3:8 invalid zone size \"x\" | such as zone a 64k;"),
    (
      "keepalive x;",
      "3:11 invalid value \"x\" in \"keepalive\" directive | it must be a number from 0 to 1000000; 0 keeps none"
    ),
    ("keepalive 4 shared;", "3:13 invalid parameter \"shared\" | local, or nothing"),
    ("sticky what a;", "3:8 unknown parameter \"what\" | cookie, route or learn"),
    ("sticky cookie a;b;", "3:17 unknown directive \"b\""),
    ("sticky cookie \"a b\";", "3:15 invalid cookie name \"a b\" | letters, digits, \"-\" and \"_\""),
    ("sticky cookie a \"path=/;x\";", "3:17 unknown parameter \"path=/;x\""),
    ("sticky cookie a samesite=x;", "3:17 invalid \"samesite\" parameter value | strict, lax or none"),
    ("sticky cookie a secure secure;", "3:24 parameter \"secure\" is duplicate | write it once"),
    ("sticky route a;", "3:14 invalid variable name \"a\" | a variable alone, such as $cookie_session"),
    (
      "sticky learn create=$arg_a zone=a:1m;",
      "3:1 \"lookup\" parameter is not specified | sticky learn create=$upstream_cookie_session lookup=$cookie_session zone=sessions:1m;"
    ),
    ("sticky learn create=$arg_a lookup=$arg_a zone=a:1m timeout=0;", "3:52 invalid timeout \"timeout=0\""),
  ])
  func `what can't be is told at its place`(lines: String, problem: String) {
    let problems = load(lines).problems.filter { !$0.contains("not kept open") }
    #expect(problems.contains { $0.hasPrefix(problem) }, "\(problems)")
  }

  @Test(arguments: ["hash $uri;", "ip_hash;", "random;", "random two;", "hash $uri consistent;"])
  func `methods of all servers refuse backup and slow_start, wherever they stand`(lines: String) {
    for parameter in ["backup", "slow_start=1s"] {
      let problems = load(lines, servers: "server a; server b \(parameter);").problems
      #expect(problems.contains { $0.hasPrefix("2:20 balancing method does not support parameter \"\(parameter)\"") })
      #expect(load("least_conn;", servers: "server a; server b \(parameter);").settings != nil)
    }
  }

  @Test func `a ring has no more points than fit`() {
    let problems = load("hash $uri consistent;", servers: "server a weight=65535; server b weight=9;").problems
    #expect(problems.contains { $0.contains("come to 65544") })
    #expect(load("hash $uri;", servers: "server a weight=65535; server b weight=9;").settings != nil)
  }

  @Test(arguments: ["route=", "route=a;b", "route=\(String(repeating: "a", count: 33))", "slow_start=x"])
  func `a route and a slow start have a form`(parameter: String) {
    #expect(load("", servers: "server a \"\(parameter)\";").problems.first?.contains("invalid parameter") == true)
  }
}

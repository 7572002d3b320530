import Crypto
import Glibc
import TestSupport
import Testing

@Suite(.staged, .enabled(if: PostgresServer.isInstalled, "PostgreSQL is not installed"))
struct `PostgreSQL through a stream` {
  /// What of a server block takes part in PostgreSQL's own way to TLS: with clients, or with the upstream too.
  enum Way: String, CaseIterable {
    case plainUpstream, tlsUpstream
  }

  /// A PostgreSQL and a daemon in front of it. Where the upstream speaks TLS, the daemon is the user postgres there.
  private func parts(_ way: Way, connections: Int = 256) async throws -> (PostgresServer, PeerProxy) {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    switch way {
    case .plainUpstream:
      let server = try await PostgresServer.start(scene)
      return (server, try await PeerProxy(cast, to: server.port, "starttls postgres;", connections: connections))
    case .tlsUpstream:
      let server = try await PostgresServer.start(scene, identity: cast.server)
      _ = try scene.identity("postgres", cast.authority.client(commonName: "postgres"))
      let lines = """
        starttls postgres; proxy_starttls postgres; \(PeerProxy.tlsUpstream)
        proxy_ssl_certificate postgres.pem; proxy_ssl_certificate_key postgres.key;
        """
      return (server, try await PeerProxy(cast, to: server.port, lines, connections: connections))
    }
  }

  private static let isEncrypted = "select ssl from pg_stat_ssl where pid = pg_backend_pid()"

  @Test(arguments: Way.allCases) func `psql verifies the daemon and shows its certificate`(way: Way) async throws {
    let (server, proxy) = try await parts(way)
    let answer = try await PostgresClient(proxy).psql("select 6 * 7", Self.isEncrypted)
    #expect(answer.text == "42\n\(way == .tlsUpstream ? "t" : "f")\n", "\(answer.errors)")
    #expect(answer.status == 0 && answer.errors == "")
    #expect(server.sessions == 1)
    #expect(!proxy.daemon.errorLog.contains("[error]"))
  }

  @Test func `the upstream is its socket`() async throws {
    let scene = try Scene.ofTest(), server = try await PostgresServer.start(scene)
    let proxy = try await PeerProxy(Cast(scene), to: server.socket, "starttls postgres;")
    let answer = try await PostgresClient(proxy).psql("select 6 * 7")
    #expect(answer.text == "42\n", "\(answer.errors)")
  }

  @Test(arguments: Way.allCases) func `a client without the right certificate reaches nothing`(way: Way) async throws {
    let (server, proxy) = try await parts(way)
    var client = PostgresClient(proxy)
    for identity in [nil, proxy.stranger] {
      client.identity = identity
      let answer = try await client.psql("select 6 * 7")
      #expect(answer.status == 2 && answer.text == "", "\(answer.errors)")
    }
    try await proxy.daemon.logged("peer did not return a certificate")
    try await proxy.daemon.logged("client SSL certificate verify error")
    #expect(server.sessions == 0)
    client.identity = proxy.cast.alice
    #expect(try await client.psql("select 6 * 7").text == "42\n")
  }

  @Test func `a client that asks for no TLS is refused in PostgreSQL's words`() async throws {
    let (server, proxy) = try await parts(.plainUpstream)
    var client = PostgresClient(proxy)
    client.mode = "disable"
    let refusal = try await client.psql("select 6 * 7")
    #expect(refusal.status == 2 && refusal.text == "")
    #expect(refusal.errors.contains("FATAL:"), "\(refusal.errors)")
    #expect(server.sessions == 0)
    // To libpq, these words are a reason to try TLS, where it may.
    client.mode = "allow"
    #expect(try await client.psql("select 6 * 7").text == "42\n")
    client.mode = "prefer"
    #expect(try await client.psql("select 6 * 7").text == "42\n")
    #expect(server.sessions == 2)
  }

  @Test func `a password and an error of the server come through`() async throws {
    let (server, proxy) = try await parts(.plainUpstream)
    try await server.ask("create role bob login password 'correct horse'")
    try await server.requirePasswords()
    var client = PostgresClient(proxy)
    client.more = ["PGUSER": "bob", "PGPASSWORD": "correct horse"]
    #expect(try await client.psql("select current_user").text == "bob\n")
    client.more["PGPASSWORD"] = "wrong"
    let refused = try await client.psql("select current_user")
    #expect(refused.errors.contains("password authentication failed for user \"bob\""))
    client.more["PGPASSWORD"] = "correct horse"
    let mistake = try await client.psql("select 1 / 0")
    #expect(mistake.status == 1 && mistake.errors.contains("division by zero"))
  }

  @Test func `an upstream without TLS gets nothing from a daemon that wants it`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene), server = try await PostgresServer.start(scene)
    let proxy = try await PeerProxy(
      cast, to: server.port, "starttls postgres; proxy_starttls postgres; \(PeerProxy.tlsUpstream)")
    let answer = try await PostgresClient(proxy).psql("select 6 * 7")
    #expect(answer.status == 2 && answer.text == "", "\(answer.errors)")
    try await proxy.daemon.logged("[error]", "the upstream server doesn't offer", "127.0.0.1:\(server.port)")
    #expect(server.sessions == 0)
  }

  @Test func `an upstream of another authority gets nothing`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    let other = try scene.identity("other", TestAuthority("Other").server())
    let server = try await PostgresServer.start(scene, identity: other)
    _ = try scene.identity("postgres", cast.authority.client(commonName: "postgres"))
    let proxy = try await PeerProxy(
      cast, to: server.port,
      """
      starttls postgres; proxy_starttls postgres; \(PeerProxy.tlsUpstream)
      proxy_ssl_certificate postgres.pem; proxy_ssl_certificate_key postgres.key;
      """)
    let answer = try await PostgresClient(proxy).psql("select 6 * 7")
    #expect(answer.status == 2 && answer.text == "", "\(answer.errors)")
    try await proxy.daemon.logged("[error]", "upstream SSL certificate verify error")
    #expect(server.sessions == 0)
  }

  @Test(arguments: [true, false]) func `the key of the upstream is pinned`(isRight: Bool) async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene)
    // Of an authority that the daemon doesn't know.
    let own = try scene.identity("own", TestAuthority("Own").server())
    let server = try await PostgresServer.start(scene, identity: own)
    _ = try scene.identity("postgres", cast.authority.client(commonName: "postgres"))
    let pinned = isRight ? own : cast.server
    let pin = Pin.spelling(publicKeyDigest: pinned.certified.certificate.spkiSHA256)
    let proxy = try await PeerProxy(
      cast, to: server.port,
      """
      starttls postgres; proxy_starttls postgres; proxy_ssl on; proxy_ssl_allow_invalid on; proxy_ssl_pin \(pin);
      proxy_ssl_certificate postgres.pem; proxy_ssl_certificate_key postgres.key;
      """)
    let answer = try await PostgresClient(proxy).psql("select 6 * 7")
    #expect(answer.text == (isRight ? "42\n" : ""), "\(answer.errors)")
    #expect(answer.status == (isRight ? 0 : 2) && server.sessions == (isRight ? 1 : 0))
  }

  /// 100 MB each way; the whole gigabyte where SALLYPORT_BODIES is `full`.
  @Test(arguments: Way.allCases) func `COPY out and in moves a table as it is, in little memory`(way: Way) async throws
  {
    let (server, proxy) = try await parts(way)
    let client = PostgresClient(proxy)
    let rows = PeerProxy.isFull ? 1_000_000 : 100_000
    try await server.ask(
      """
      create unlogged table source as
        select i, repeat(md5(i::text), 31) || 'text' as text from generate_series(1, \(rows)) i
      """)
    try await server.ask("create unlogged table target (like source)")
    let file = proxy.scene.path("table")
    let out = try await client.psql("\\copy source to '\(file)'", within: .seconds(600))
    #expect(out.status == 0, "\(out.errors)")
    let into = try await client.psql("\\copy target from '\(file)'", within: .seconds(600))
    #expect(into.status == 0, "\(into.errors)")
    let sum = "select count(*), sum(length(text)), md5(string_agg(md5(i || text), '' order by i)) from"
    let copied = try await server.ask("\(sum) target")
    #expect(copied.hasPrefix("\(rows)|\(rows * 996)|"), "\(copied)")
    #expect(try await server.ask("\(sum) source") == copied)
    if !Sanitizer.isUsed {
      let peak = try #require(proxy.daemon.memory("VmHWM"))
      #expect(peak < 64 << 10, "\(peak) KiB at most")
    }
  }

  @Test(arguments: Way.allCases) func `Ctrl-C in psql cancels what the server does`(way: Way) async throws {
    let (server, proxy) = try await parts(way)
    let client = PostgresClient(proxy)
    let psql = try client.begin(["select pg_sleep(600)"], name: "sleep")
    let sleeping = "select count(*) from pg_stat_activity where query like 'select pg_sleep%' and state = 'active'"
    try await until("the server to sleep") { try await server.ask(sleeping) == "1" }
    psql.signal(SIGINT)
    #expect(try await psql.ended(within: .seconds(60)) == .exited(1))
    #expect(proxy.scene.text("sleep.err").contains("canceling statement due to user request"))
    #expect(try await server.ask(sleeping) == "0")
    // The daemon serves on.
    #expect(try await client.psql("select 6 * 7").text == "42\n")
  }

  @Test func `a client that is killed ends its session in the server`() async throws {
    let (server, proxy) = try await parts(.plainUpstream)
    try await server.ask("alter system set client_connection_check_interval = '200ms'")
    try await server.ask("select pg_reload_conf()")
    let psql = try PostgresClient(proxy).begin(["select pg_sleep(600)"], name: "sleep")
    let sleeping = "select count(*) from pg_stat_activity where query like 'select pg_sleep%'"
    try await until("the server to sleep") { try await server.ask(sleeping) == "1" }
    psql.signal(SIGKILL)
    try await until("the session to end") { try await server.ask(sleeping) == "0" }
  }

  @Test func `a session outlives a reload, and the daemon waits for it when it is to end`() async throws {
    let (server, proxy) = try await parts(.plainUpstream)
    let client = PostgresClient(proxy)
    try await server.ask("create table allowed (step int)")
    // Waits in the server until a step is allowed, and then answers.
    let steps = (1...2).flatMap { step in
      [
        """
        do $$ begin
          while not exists (select from allowed where step = \(step)) loop perform pg_sleep(0.02); end loop;
        end $$
        """, "select 'step \(step)'",
      ]
    }
    func untilWaiting(for step: Int) async throws {
      try await until("the session to wait for step \(step)") {
        try await server.ask(
          "select count(*) from pg_stat_activity where query like 'do%step = \(step)%' and state = 'active'") == "1"
      }
    }
    let session = try client.begin(steps, name: "session")
    try await untilWaiting(for: 1)
    proxy.daemon.signal(SIGHUP)
    try await proxy.daemon.logged("reconfigured: generation 2")
    #expect(try await client.psql("select 6 * 7").text == "42\n")
    try await server.ask("insert into allowed values (1)")
    try await untilWaiting(for: 2)
    proxy.daemon.signal(SIGQUIT)
    try await until("the daemon to accept no more") { !accepts(proxy.port) }
    try await server.ask("insert into allowed values (2)")
    #expect(try await session.ended() == .exited(0))
    #expect(proxy.scene.text("session.out") == "step 1\nstep 2\n")
    #expect(try await proxy.daemon.process.ended() == .exited(0))
  }

  @Test(arguments: Way.allCases) func `200 clients are connected at once`(way: Way) async throws {
    let (server, proxy) = try await parts(way, connections: 512)
    try await server.ask("create table seen (count int)")
    let crowd = 200
    try proxy.scene.write(
      "crowd.sql",
      text: "insert into seen select count(*) from pg_stat_activity where application_name = 'crowd';\n")
    var client = PostgresClient(proxy)
    client.more = ["PGAPPNAME": "crowd"]
    // pgbench begins when all are connected.
    let result = try await client.pgbench([
      "--no-vacuum", "--client=\(crowd)", "--jobs=4", "--transactions=3", "--file=\(proxy.scene.path("crowd.sql"))",
    ])
    #expect(result.status == 0, "\(result.errors)")
    #expect(result.text.contains("number of transactions actually processed: \(3 * crowd)/\(3 * crowd)"))
    #expect(try await server.ask("select max(count), count(*) from seen") == "\(crowd)|\(3 * crowd)")
    #expect(server.sessions >= crowd)
  }

  @Test(arguments: Way.allCases) func `pgbench finds its accounts in balance`(way: Way) async throws {
    let (server, proxy) = try await parts(way)
    let client = PostgresClient(proxy), count = PeerProxy.scaled(250)
    let filled = try await client.pgbench(["--initialize", "--scale=1"])
    #expect(filled.status == 0, "\(filled.errors)")
    for (protocolOf, more) in [("simple", []), ("prepared", ["--connect"]), ("extended", [])] {
      let result = try await client.pgbench(
        [
          "--no-vacuum", "--client=8", "--jobs=2", "--transactions=\(more.isEmpty ? count : 20)",
          "--protocol=\(protocolOf)",
        ] + more)
      #expect(result.status == 0 && result.text.contains("number of failed transactions: 0"), "\(result.everything)")
    }
    #expect(try await server.ask("select count(*) from pgbench_history") == "\(8 * (2 * count + 20))")
    let balance = try await server.ask(
      """
      select (select sum(abalance) from pgbench_accounts), (select sum(tbalance) from pgbench_tellers),
        (select sum(bbalance) from pgbench_branches), sum(delta) from pgbench_history
      """)
    #expect(Set(balance.split(separator: "|")).count == 1, "\(balance)")
  }

  @Test(
    .enabled(if: PostgresServer.version >= 17, "libpq before 17 can't begin with TLS"),
    arguments: ["starttls postgres;", "ssl_alpn postgresql;"])
  func `a client that begins with TLS gets through`(lines: String) async throws {
    let scene = try Scene.ofTest(), server = try await PostgresServer.start(scene)
    let proxy = try await PeerProxy(Cast(scene), to: server.port, lines)
    var client = PostgresClient(proxy)
    client.more = ["PGSSLNEGOTIATION": "direct"]
    let answer = try await client.psql("select 6 * 7")
    #expect(answer.text == "42\n", "\(answer.errors)")
    client.identity = proxy.stranger
    #expect(try await client.psql("select 6 * 7").status == 2)
    #expect(server.sessions == 1)
  }
}

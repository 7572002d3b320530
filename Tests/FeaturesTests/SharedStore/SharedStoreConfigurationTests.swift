import Bytes
import ConfigurationSupport
import Crypto
@testable import Features
@testable import Forward
import Redis
import TLS
import Testing
@testable import Traffic
import Upstream

@Suite struct `shared_store` {
  private static let near = "shared_store s redis://127.0.0.1;"

  private func load(_ http: String, _ location: String = "", server: String = "") -> LoadedText {
    LoadedText("http { \(http) server { listen 127.0.0.1:80; \(server) location / { \(location) return 204; } } }")
  }

  @Test(arguments: [
    ("redis://a.test", "a.test:6379", 0, false, false), ("redis://a.test:1/7", "a.test:1", 7, false, false),
    ("redis://[::1]:1", "[::1]:1", 0, false, true), ("redis://127.0.0.1/", "127.0.0.1:6379", 0, false, true),
    ("rediss://a.test:2/0", "a.test:2", 0, true, true), ("unix:/run/r.sock", "unix:/run/r.sock", 0, false, true),
  ])
  func `an address says where, by TLS or not, and which database`(
    url: String, address: String, database: Int, isTLS: Bool, isPrivate: Bool
  ) throws {
    let http = try #require(load("shared_store s \(url);").settings?.http)
    let store = try #require(http.sharedStores.first)
    #expect("\(http.groups[store.group].servers[0].address)" == address)
    #expect(store.database == database && (store.tls != nil) == isTLS && store.isPrivate == isPrivate)
    #expect(store.timeout == 250 && http.sharedStores.count == 1)
  }

  @Test(arguments: [
    ("shared_store s http://a;", "invalid address"), ("shared_store s redis://u:p@a;", "invalid address"),
    ("shared_store s redis://a/x;", "invalid address"), ("shared_store s redis://a/70000;", "invalid address"),
    ("shared_store s unix:r.sock;", "invalid address"), ("shared_store s redis://;", "invalid address"),
    ("shared_store s redis://a pin=sha256/AAAA;", "invalid parameter \"pin="),
    ("shared_store s rediss://a pin=sha256/AAAA;", "AAAA"),
    ("shared_store s rediss://a certificate=a.pem;", "has a certificate alone"),
    ("shared_store s rediss://a key=a.pem;", "has a key alone"),
    ("shared_store s redis://a user=x;", "without a password"),
    ("shared_store s redis://a timeout=0;", "invalid parameter \"timeout=0\""),
    ("shared_store s redis://a timeout=61s;", "invalid parameter \"timeout=61s\""),
    ("shared_store s redis://a.test resolve;", "no resolver defined"),
    ("\(near) shared_store s redis://b;", "duplicate shared_store"),
    ("limit_req_zone $host zone=z:1m rate=1r/s store=s;", "which no \"shared_store\" declares"),
    ("\(near) limit_req_zone $host zone=z:1m rate=1r/s store=s fail=shut;", "invalid parameter \"fail=shut\""),
    ("limit_req_zone $host zone=z:1m rate=1r/s fail=open;", "without \"store=\""),
    ("\(near) enrolment_failures_store s fail=open;", "invalid parameter \"fail=open\""),
    ("enrolment_failures_store s;", "which no \"shared_store\" declares"),
  ])
  func `what can't be is refused`(http: String, words: String) {
    let loaded = load(http)
    #expect(loaded.settings == nil && loaded.errors.contains { $0.contains(words) }, "\(loaded.errors)")
  }

  @Test func `zones of two stores in one location are refused`() {
    let loaded = load(
      """
      \(Self.near) shared_store t redis://127.0.0.1:1;
      limit_req_zone $host zone=a:1m rate=1r/s store=s; limit_req_zone $host zone=b:1m rate=1r/s store=t;
      """, "limit_req zone=a; limit_req zone=b;")
    #expect(loaded.errors.contains { $0.contains("zones of two stores") })
  }

  @Test func `a zone of stream has no store`() {
    let loaded = LoadedText(
      "http { \(Self.near) } stream { limit_conn_zone $remote_addr zone=z:1m store=s; server { listen 81; return a; } }"
    )
    #expect(loaded.errors.contains { $0.contains("only limits of \"http\" have a store") }, "\(loaded.errors)")
  }

  @Test(arguments: [
    ("shared_store s redis://a.test;", "would go over the network in clear"),
    ("", "which no \"shared_store\" declares"),
    ("\(near)", "beside another line of it"),
  ])
  func `keys of tickets come from a store that nobody can listen to, and from nowhere else`(
    http: String, words: String
  ) {
    let second = words.contains("beside") ? "ssl_session_ticket_key a.key;" : ""
    let tls = "listen 127.0.0.1:443 ssl; ssl_certificate a.pem; ssl_certificate_key a.pem;"
    let loaded = load(http, server: "\(tls) ssl_session_ticket_key store:s; \(second)")
    #expect(loaded.errors.contains { $0.contains(words) }, "\(loaded.errors)")
  }

  @Test func `with keys of tickets in a store no early data is taken, because a session may be used twice`() throws {
    let loaded = load(
      Self.near,
      server: """
        listen 127.0.0.1:443 ssl; ssl_certificate a.pem; ssl_certificate_key a.pem;
        ssl_early_data on; ssl_session_ticket_key store:s;
        """)
    let tls = try #require(loaded.settings?.http.servers[0].tls)
    #expect(tls.ticketStore == "s" && tls.earlyDataHindrance?.contains("may be used twice") == true)
  }

  @Test func `nonces and IVs are refused without the store, and limits are this process's`() throws {
    let loaded = load(
      "\(Self.near) limit_req_zone $host zone=z:1m rate=1r/s store=s;",
      """
      limit_req zone=z;
      message_signature verify; message_signature_key k hmac-sha256 k; message_signature_nonce on store=s;
      """)
    let location = try #require(loaded.settings?.http.servers[0].root.locations[0])
    #expect(location[LimitReq.self]?.lines[0].zone.store == StoreUse(store: "s", failing: .local))
    #expect(location[Signatures.self]?.verification.nonceStore == StoreUse(store: "s", failing: .closed))
  }

  @Test(arguments: [
    "message_signature_nonce maybe;", "message_signature_nonce on window=1;", "message_signature_nonce off store=s;",
    "message_signature_nonce on store=s fail=open;",
  ])
  func `message_signature_nonce takes no other word`(line: String) {
    let loaded = load(
      Self.near, "message_signature verify; message_signature_key k hmac-sha256 k; \(line)")
    #expect(loaded.settings == nil && loaded.errors.contains { $0.contains("message_signature_nonce") })
  }
}

@Suite struct `Keys of tickets in a store` {
  private static func entry(_ made: Int, _ fill: Character, count: Int = 160) -> RedisReply {
    .text(Array("\(made):\(String(repeating: fill, count: count))".utf8))
  }

  private func firstLetters(_ reply: RedisReply) -> [String]? {
    StoreTickets.keys(reply)?.map { Hex.encode($0.shownName).prefix(1).lowercased() }
  }

  @Test func `the newest key that every machine has by now seals, and all open`() {
    func keys(_ entries: RedisReply...) -> RedisReply { .list([.number(1000), .list(entries)]) }
    #expect(firstLetters(keys(Self.entry(500, "a"), Self.entry(100, "b"))) == ["a", "b"])
    #expect(firstLetters(keys(Self.entry(990, "a"), Self.entry(100, "b"))) == ["b", "a"])
    #expect(firstLetters(keys(Self.entry(990, "a"))) == ["a"])
  }

  @Test func `a key that is too old opens nothing, whatever the store says`() {
    func keys(_ entries: RedisReply...) -> RedisReply { .list([.number(100_000), .list(entries)]) }
    #expect(
      firstLetters(keys(Self.entry(99_000, "a"), Self.entry(13_600, "b"), Self.entry(13_599, "c"))) == ["a", "b"])
    #expect(firstLetters(keys(Self.entry(13_599, "c"))) == nil)
  }

  @Test func `an answer that can't be read changes nothing`() {
    for reply: RedisReply in [
      .none, .number(1), .list([]), .list([.number(1), .list([])]), .list([.number(1), .list([.number(2)])]),
      .list([.number(1), .list([.text(Array("x".utf8))])]),
      .list([.number(1), .list([Self.entry(1, "a", count: 158)])]),
      .list([.number(1), .list([Self.entry(1, "g")])]), .list([.number(1), .list([Self.entry(1, "a"), .none])]),
      .list([.number(-1), .list([Self.entry(1, "a")])]), .list([.number(1), .list([Self.entry(-1, "a")])]),
      .list([.number(1), .list([RedisReply](repeating: Self.entry(1, "a"), count: 17))]),
    ] {
      #expect(StoreTickets.keys(reply) == nil)
    }
  }
}

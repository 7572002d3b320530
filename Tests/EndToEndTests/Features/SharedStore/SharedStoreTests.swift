import Foundation
import Glibc
import TestSupport
import Testing

@Suite(.staged, .enabled(if: StoreServer.isInstalled, "Redis is not installed"))
struct `State that machines share` {
  private static let metrics = "location = /metrics { metrics; } location = /status { status; }"

  private static func limited(_ store: StoreServer, _ upstream: ScriptedUpstream, _ lines: String, zone: String = "")
    -> String
  {
    """
    shared_store main redis://127.0.0.1:\(store.port);
    limit_req_zone $arg_k zone=slow:1m rate=1r/m store=main \(zone);
    limit_conn_zone $arg_k zone=few:1m store=main \(zone);
    server { listen PORT; \(metrics) location / { \(lines) proxy_pass http://127.0.0.1:\(upstream.port); } }
    """
  }

  @Test func `a rate is that of all machines together, as nginx counts it`() async throws {
    let scene = try Scene.ofTest(), store = try await StoreServer(scene), upstream = try ScriptedUpstream.echo(scene)
    let both = try await TwoMachines(scene, Self.limited(store, upstream, "limit_req zone=slow burst=3 nodelay;"))
    try await both.untilConnected()
    var answers: [Int] = []
    for index in 0..<8 { answers.append(try await both.get(index % 2, "/head?k=a").status) }
    #expect(answers == [200, 200, 200, 200, 503, 503, 503, 503])
    // Another key has its own, and a request without a key has no limit.
    #expect(try await both.get(0, "/head?k=b").status == 200)
    for _ in 0..<5 { #expect(try await both.get(0, "/head").status == 200) }
    // What a client sent stands in no key, and none stays for ever.
    let keys = try await store.ask("keys", "*").split(separator: "\n")
    #expect(keys.count == 2 && keys.allSatisfy { $0.hasPrefix("sallyport:rate:") && $0.utf8.count == 55 })
    for key in keys {
      let life = try await store.ask("pttl", "\(key)")
      #expect(Int(life.trimmed) ?? 0 > 0)
    }
    #expect(scene.text("two.log").contains("limiting requests, excess: "))
  }

  @Test(arguments: ["local", "open", "closed"])
  func `no request is lost with the store: it is paused, killed, full, and comes back empty`(mode: String) async throws
  {
    let scene = try Scene.ofTest(), store = try await StoreServer(scene), upstream = try ScriptedUpstream.echo(scene)
    let both = try await TwoMachines(
      scene,
      Self.limited(
        store, upstream, "limit_req zone=slow burst=1 nodelay; limit_conn few 5;",
        zone: mode == "local" ? "" : "fail=\(mode)"))
    try await both.untilConnected()
    /// The statuses of four requests with one key at one machine.
    func answers(_ key: String) async throws -> [Int] {
      var all: [Int] = []
      for _ in 0..<4 { all.append(try await both.get(0, "/head?k=\(key)").status) }
      return all
    }
    let withoutStore =
      switch mode {
      case "local": [200, 200, 503, 503]
      case "open": [200, 200, 200, 200]
      default: [503, 503, 503, 503]
      }
    #expect(try await answers("before") == [200, 200, 503, 503])

    store.signal(SIGSTOP)
    #expect(try await answers("paused") == withoutStore)
    #expect(try await both.get(0, "/status").text.contains("it did not answer within 250 ms"))
    func health() async throws -> ToolResult {
      try await scene.run(Sallyport.binary(), ["health", "--config", scene.path("sallyport.conf")])
    }
    let ill = try await health()
    #expect(ill.status == 3 && ill.text.contains("WARN    shared store: main (redis://127.0.0.1:\(store.port)) "))
    store.signal(SIGCONT)
    try await both.untilConnected()
    #expect(try await health().text.contains("ok      shared store: main (redis://127.0.0.1:\(store.port)) is reached"))
    #expect(try await answers("again") == [200, 200, 503, 503])

    try await store.kill()
    #expect(try await answers("killed") == withoutStore)
    try await store.start()
    try await both.untilConnected()
    #expect(try await answers("before") == [200, 200, 503, 503], "it came back empty")

    try await store.ask("config", "set", "maxmemory", "1")
    #expect(try await answers("full") == withoutStore)
    #expect(try await both.get(0, "/status").text.contains("OOM command not allowed"))
    try await store.ask("config", "set", "maxmemory", "0")
    #expect(try await answers("room") == [200, 200, 503, 503])
    try await both.daemons[0].logged("shared store \"main\"", "is reached again")
  }

  @Test func `pairs of keyval are those of all machines, also when the store comes back empty`() async throws {
    let scene = try Scene.ofTest(), store = try await StoreServer(scene)
    let both = try await TwoMachines(
      scene,
      """
      shared_store main redis://127.0.0.1:\(store.port);
      keyval_zone zone=names:64k store=main type=prefix; keyval $uri $name zone=names;
      server { listen PORT; \(Self.metrics)
        location / { return 200 "$name"; }
        location /api/ { auth_basic api; auth_basic_user_file users; api write=on; } }
      """, users: "me:{PLAIN}x\n")
    try await both.untilConnected()
    func api(_ machine: Int, _ words: String..., path: String = "names") async throws -> CurlResult {
      try await both.get(machine, "/api/9/http/keyvals/\(path)", ["-u", "me:x"] + words)
    }
    func untilName(_ machine: Int, _ path: String, _ name: String) async throws {
      try await until("\(name) at machine \(machine)") { try await both.get(machine, path).text == name }
    }
    #expect(try await api(0, "-d", #"{"/a":"one"}"#).status == 201)
    #expect(try await both.get(0, "/a/x").text == "one", "at once at the machine that was asked")
    try await untilName(1, "/a/x", "one")
    #expect(try await api(1, "-d", #"{"/a":"two"}"#).text.contains("KeyvalKeyExists"))
    #expect(try await api(1, "-X", "PATCH", "-d", #"{"/a":"two"}"#).status == 204)
    try await untilName(0, "/a/x", "two")
    #expect(try await api(0, "-d", #"{"/s":{"value":"soon","expire":86400000}}"#).status == 201)
    try await untilName(1, "/s", "soon")
    // What a client sent, or what it is called, stands in no name of a key.
    #expect(try await store.ask("keys", "*").contains("sallyport:keyval:"))

    try await store.kill()
    #expect(try await both.get(1, "/a").text == "two", "the copy stays")
    try await until("the machine to know") { try await api(1, "-X", "DELETE").status == 503 }
    #expect(try await both.get(1, "/a").text == "two")
    try await store.start()
    try await both.untilConnected()
    try await until("the store to have them again") { try await store.ask("keys", "*").contains("sallyport:keyval:") }
    #expect(try await both.get(0, "/a").text == "two")
    #expect(try await api(0, "-X", "PATCH", "-d", #"{"/a":null}"#).status == 204)
    try await untilName(1, "/a", "")
    try await untilName(1, "/s", "soon")
    #expect(try await api(1, "-X", "DELETE").status == 204)
    try await untilName(0, "/s", "")
    #expect(try await api(0).text == "{}\n")
  }

  /// Redis keeps a small hash as one list, which HSCAN returns whole: with these options, a large one, too.
  @Test(arguments: [[], ["--hash-max-ziplist-entries", "5000", "--hash-max-ziplist-value", "9000"]])
  func `pairs come in pieces, however many and however long, and go back to a store that came back empty`(
    options: [String]
  ) async throws {
    let scene = try Scene.ofTest(), store = try await StoreServer(scene, options: options)
    let both = try await TwoMachines(
      scene,
      """
      shared_store main redis://127.0.0.1:\(store.port) timeout=5s;
      keyval_zone zone=names:1m store=main; keyval $arg_k $name zone=names;
      limit_req_zone $arg_l zone=limit:32k rate=1000r/s store=main fail=closed;
      server { listen PORT; \(Self.metrics)
        location / { limit_req zone=limit burst=1000 nodelay; return 200 "$name"; }
        location /api/ { auth_basic api; auth_basic_user_file users; api write=on; } }
      """, users: "me:{PLAIN}x\n")
    try await both.untilConnected()
    func api(_ machine: Int, _ words: String...) async throws -> CurlResult {
      try await both.get(machine, "/api/9/http/keyvals/names", ["-u", "me:x"] + words)
    }
    func untilName(_ machine: Int, _ key: String, _ name: String) async throws {
      try await until("\(key) at machine \(machine)") {
        let answer = try await both.get(machine, "/?l=a&k=\(key)")
        #expect(answer.status == 200, "the zone's pairs close nobody's way")
        return answer.text == name
      }
    }
    #expect(try await api(0, "-d", #"{"first":"one"}"#).status == 201)
    let hash = try #require(try await store.ask("keys", "sallyport:keyval:*").split(separator: "\n").first)
    // 2,000 pairs, and some of 8,000 bytes: each of them fits a reply, all of them fit none. Others have fields that
    // are none.
    try await store.ask(
      "eval",
      """
      for i=1,2000 do redis.call('HSET',KEYS[1],'k'..i,'0:v'..i) end
      for i=1,20 do redis.call('HSET',KEYS[1],'long'..i,'0:'..string.rep('x',8000-#tostring(i))..i) end
      redis.call('HSET',KEYS[1],'alien','no time') redis.call('HSET',KEYS[1],'huge',string.rep('x',\(options.isEmpty ? 100_000 : 8900)))
      return redis.call('HINCRBY',KEYS[1],'',1)
      """, "1", String(hash))
    for machine in 0..<2 {
      try await untilName(machine, "k2000", "v2000")
      for index in stride(from: 1, through: 2000, by: 97) { try await untilName(machine, "k\(index)", "v\(index)") }
      for index in 1...20 {
        try await untilName(
          machine, "long\(index)", String(repeating: "x", count: 8000 - "\(index)".utf8.count) + "\(index)")
      }
      #expect(try await api(machine).text.matches(of: /"[a-z]+[0-9]*":/).count == 2021)
    }
    #expect(try await api(1, "-X", "PATCH", "-d", #"{"k7":"seven"}"#).status == 204)
    try await untilName(0, "k7", "seven")
    // Somebody has broken the count, and then all of it: the copies stay, and the API mends it.
    for (command, words) in [
      (["hset", String(hash), "", "none"], "the store has no count of its changes"),
      (["set", String(hash), "text"], "WRONGTYPE"),
    ] {
      try await store.run(command)
      try await both.daemons[0].logged(words)
      try await untilName(0, "k8", "v8")
      #expect(try await api(0, "-X", "DELETE").status == 204)
      try await untilName(1, "k8", "")
      #expect(try await api(1, "-d", #"{"k8":"v8"}"#).status == 201)
      try await untilName(0, "k8", "v8")
    }
    try await store.ask(
      "eval",
      "for i=1,2000 do redis.call('HSET',KEYS[1],'k'..i,'0:v'..i) end return redis.call('HINCRBY',KEYS[1],'',1)",
      "1", String(hash))
    for machine in 0..<2 { try await untilName(machine, "k1999", "v1999") }
    try await store.ask("flushall")
    try await until("the store to have them again") { try await store.ask("hlen", String(hash)).trimmed == "2001" }
    #expect(Int(try await store.ask("hget", String(hash), "").trimmed) ?? 0 > 0)
    for machine in 0..<2 { try await untilName(machine, "k1999", "v1999") }
    #expect(!both.daemons[0].errorLog.contains("is reached again"), "no connection was lost")
  }

  @Test func `a pair for which a zone has no room keeps no smaller one out`() async throws {
    let scene = try Scene.ofTest(), store = try await StoreServer(scene)
    let both = try await TwoMachines(
      scene,
      """
      shared_store main redis://127.0.0.1:\(store.port);
      keyval_zone zone=names:64k store=main; keyval $arg_k $name zone=names;
      server { listen PORT; \(Self.metrics)
        location / { return 200 "$name"; }
        location /api/ { auth_basic api; auth_basic_user_file users; api write=on; } }
      """, users: "me:{PLAIN}x\n")
    try await both.untilConnected()
    let first = try await both.get(
      0, "/api/9/http/keyvals/names", ["-u", "me:x", "-d", #"{"first":"one"}"#])
    #expect(first.status == 201)
    let hash = try #require(try await store.ask("keys", "sallyport:keyval:*").split(separator: "\n").first)
    // The zone has room for seven of the long ones at most, and then for all of the short ones.
    try await store.ask(
      "eval",
      """
      for i=1,20 do redis.call('HSET',KEYS[1],'long'..i,'0:'..string.rep('x',8000)) end
      for i=1,30 do redis.call('HSET',KEYS[1],'k'..i,'0:v'..i) end
      return redis.call('HINCRBY',KEYS[1],'',1)
      """, "1", String(hash))
    try await both.daemons[0].logged("keyval_zone \"names\" can't take all the pairs that the store has")
    for index in 1...30 { #expect(try await both.get(0, "/?k=k\(index)").text == "v\(index)") }
  }

  @Test func `over TLS, with an ACL of few rights, a password and a certificate; a wrong pin reaches nothing`()
    async throws
  {
    let scene = try Scene.ofTest(), cast = try Cast(scene), upstream = try ScriptedUpstream.echo(scene)
    let store = try await StoreServer(scene, identity: cast.server)
    try scene.write("store.password", text: "a\u{20AC}b\n")
    let pin =
      try await scene.sallyport("pin", scene.path("server.pem")).text
      .split(separator: "\n").compactMap {
        $0.firstRange(of: "sha256/") == nil ? nil : $0.split(separator: " ").first { $0.hasPrefix("sha256/") }
      }
      .first.map { String($0).replacing(";", with: "") } ?? ""
    func shared(_ name: String, _ words: String) -> String {
      """
      shared_store \(name) rediss://localhost:\(store.port)/3 user=gate password_file=store.password \
      certificate=alice.pem key=alice.key \(words);
      limit_req_zone $arg_k zone=\(name):1m rate=1r/m store=\(name) fail=closed;
      """
    }
    let http = """
      \(shared("named", "trusted_certificate=ca.pem")) \(shared("pinned", "pin=\(pin)"))
      \(shared("both", "trusted_certificate=ca.pem pin=\(pin)"))
      \(shared("wrong", "trusted_certificate=ca.pem pin=sha256/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="))
      \(shared("system", ""))
      limit_conn_zone $arg_k zone=few:1m store=named fail=closed;
      server { listen PORT; \(Self.metrics)
        \(["named", "pinned", "both", "wrong", "system"].map { "location /\($0) { limit_req zone=\($0); proxy_pass http://127.0.0.1:\(upstream.port)/head; }" }.joined(separator: "\n"))
        location /few { limit_conn few 1; proxy_pass http://127.0.0.1:\(upstream.port)/head; }
      }
      """
    let port = try scene.port()
    let daemon = try await Sallyport.start(scene, configuration(http.replacing("PORT", with: "127.0.0.1:\(port)")))
    func get(_ path: String) async throws -> Int { try await scene.curl(["http://127.0.0.1:\(port)/\(path)"]).status }
    for name in ["named", "pinned", "both"] {
      #expect(try await get("\(name)?k=\(name)") == 200)
      #expect(try await get("\(name)?k=\(name)") == 503, "\(name) counts")
    }
    for name in ["wrong", "system"] { #expect(try await get("\(name)?k=x") == 503) }
    #expect(try await get("few?k=x") == 200)
    try await daemon.logged("shared store \"wrong\"", "pin")
    try await daemon.logged("shared store \"system\"", "certificate")
    #expect(try await store.ask("-n", "3", "keys", "*").contains("sallyport:rate:"))
    // A password that is wrong is told in the server's words.
    try scene.write("store.password", text: "wrong\n")
    daemon.signal(SIGHUP)
    try await daemon.logged("shared store \"named\"", "it refuses the login: WRONGPASS")
    #expect(try await get("named?k=y") == 503)
  }

  @Test func `connections count at all machines, and a client that left counts no more`() async throws {
    let scene = try Scene.ofTest(), store = try await StoreServer(scene)
    let upstream = try ScriptedUpstream.echo(scene)
    let both = try await TwoMachines(scene, Self.limited(store, upstream, "limit_conn few 2;"))
    try await both.untilConnected()
    // Requests whose bodies don't come hold their counts.
    func hold(_ machine: Int) throws -> Wire {
      let wire = try Wire.dial(port: both.ports[machine])
      try wire.write("POST /echo?k=a HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\na")
      return wire
    }
    func total() async throws -> Int {
      var sum = 0
      for key in try await store.ask("--raw", "keys", "sallyport:conn:*").split(separator: "\n") {
        let all = try await store.ask("--raw", "hvals", "\(key)")
        sum += all.split(separator: "\n").compactMap { Int($0) }.reduce(0, +)
      }
      return sum
    }
    let first = try hold(0)
    try await until("the first to count") { try await total() == 1 }
    let second = try hold(1)
    try await until("the second to count") { try await total() == 2 }
    for machine in [0, 1] { #expect(try await both.get(machine, "/head?k=a").status == 503) }
    second.close()
    try await until("the second to be gone") { try await total() == 1 }
    #expect(try await both.get(0, "/head?k=a").status == 200)
    // A store that has lost everything is told again what is held.
    try await store.ask("flushall")
    try await store.ask("client", "kill", "type", "normal", "skipme", "yes")
    try await until("the first to count again") { try await total() == 1 }
    let third = try hold(1)
    try await until("the third to count") { try await total() == 2 }
    #expect(try await both.get(0, "/head?k=a").status == 503)
    // The counts of a machine that is gone are worth nothing once it no longer tells that it lives: 30 seconds at most.
    both.daemons[1].signal(SIGKILL)
    _ = try await both.daemons[1].process.ended()
    let alive = try await store.ask("--raw", "keys", "sallyport:alive:*").split(separator: "\n")
    #expect(alive.count == 4)
    for key in alive {
      let life = try await store.ask("pttl", "\(key)")
      #expect((1...30_000).contains(Int(life.trimmed) ?? 0))
    }
    let holders = try await store.ask(
      "--raw", "hgetall", String(try await store.ask("--raw", "keys", "sallyport:conn:*").trimmed))
    for name in holders.split(separator: "\n") where name.contains("-") {
      // Of the two that hold, the living one tells again; the other's word ends here before its time.
      try await store.ask("del", "sallyport:alive:\(name)")
    }
    #expect(try await both.get(0, "/head?k=a").status == 200)
    first.close()
    third.close()
  }

  @Test func `a nonce that one machine has accepted is refused by the other, in the same moment too`() async throws {
    let scene = try Scene.ofTest(), store = try await StoreServer(scene), upstream = try ScriptedUpstream.echo(scene)
    let cast = try SignatureCast(scene)
    let both = try await TwoMachines(
      scene,
      """
      shared_store main redis://127.0.0.1:\(store.port);
      server { listen PORT; keepalive_requests 100000; \(Self.metrics)
        location / { \(cast.lines("message_signature_nonce on store=main;")) proxy_pass http://127.0.0.1:\(upstream.port); } }
      """)
    try await both.untilConnected()
    let races = Int(ProcessInfo.processInfo.environment["SALLYPORT_RACES"] ?? "") ?? 300
    let wires = try both.ports.map { try Wire.dial(port: $0) }
    var accepted = 0
    for _ in 0..<races {
      let fields = try cast.sign("GET", 80, "/head", nonce: true).filter { $0 != "-H" }
      let request = (["GET /head HTTP/1.1", "Host: 127.0.0.1:80"] + fields).joined(separator: "\r\n") + "\r\n\r\n"
      let statuses = try await scene.talk(both.ports[0]) { _ in
        for wire in wires { try wire.write(request) }
        return try wires.map { try $0.response().status }
      }
      #expect(statuses.sorted() == [200, 401])
      accepted += statuses.count { $0 == 200 }
    }
    #expect(accepted == races)
    // Without the store nobody knows what was accepted elsewhere.
    store.signal(SIGSTOP)
    let late = try cast.sign("GET", 80, "/head", nonce: true)
    let answer = try await both.get(0, "/head", late + ["-H", "Host: 127.0.0.1:80"])
    store.signal(SIGCONT)
    #expect(answer.status == 503)
  }

  @Test func `an envelope that one machine has opened is refused by the other, and so is a response of it`()
    async throws
  {
    let scene = try Scene.ofTest(), store = try await StoreServer(scene), cast = try EnvelopeCast(scene)
    let upstream = try ScriptedUpstream.echo(scene)
    let both = try await TwoMachines(
      scene,
      """
      shared_store main redis://127.0.0.1:\(store.port);
      server { listen PORT; \(Self.metrics)
        location / { \(cast.lines("message_envelope_replay_window 1h store=main;")) proxy_pass http://127.0.0.1:\(upstream.port); } }
      """)
    try await both.untilConnected()
    func post(_ machine: Int, _ body: [UInt8]) async throws -> CurlResult {
      try await scene.curl(["http://127.0.0.1:\(both.ports[machine])/echo"], input: body)
    }
    let sealed = try cast.seal("once")
    let answer = try await post(0, sealed)
    #expect(answer.status == 200)
    #expect(try cast.openText(answer.body) == "once")
    #expect(try await post(1, sealed).status == 400)
    #expect(scene.text("two.log").contains("its IV was seen before"))
    // The response has the same keys: a client that sends it back is refused, wherever it does.
    #expect(try await post(1, answer.body).status == 400)
    store.signal(SIGSTOP)
    let late = try await post(1, cast.seal("late"))
    store.signal(SIGCONT)
    #expect(late.status == 503)
  }

  @Test(arguments: ["-tls1_2", "-tls1_3"])
  func `a session of one machine is resumed at the other, and after the keys have changed`(version: String) async throws
  {
    let scene = try Scene.ofTest(), store = try await StoreServer(scene), cast = try Cast(scene)
    let both = try await TwoMachines(
      scene,
      """
      shared_store main redis://127.0.0.1:\(store.port);
      server { listen PORT ssl; server_name localhost; \(Cast.tls) ssl_session_ticket_key store:main;
        location / { return 200 "reused=$ssl_session_reused dn=$ssl_client_s_dn\n"; } }
      """)
    let file = scene.path("session.pem")
    func ask(_ machine: Int, _ words: String...) async throws -> String {
      try await scene.run(
        "openssl",
        ["s_client", "-connect", "127.0.0.1:\(both.ports[machine])", "-servername", "localhost", "-ign_eof", version]
          + cast.alice.openssl + words,
        input: Array("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".utf8)
      ).text
    }
    try await until("both to have the keys") {
      _ = try await ask(0, "-sess_out", file)
      return try await ask(1, "-sess_in", file).contains("reused=r dn=CN=alice")
    }
    // Thirteen hours later: the next connection of any machine makes another key, and the old one still opens.
    let old = try await store.ask("--raw", "lindex", "sallyport:tickets", "0").trimmed
    let made = Int(old.split(separator: ":").first ?? "") ?? 0
    let aged = "\(made - 13 * 3600):\(old.split(separator: ":")[1])"
    try await store.ask("lset", "sallyport:tickets", "0", aged)
    try await store.ask("client", "kill", "type", "normal", "skipme", "yes")
    try await until("another key") { try await store.ask("llen", "sallyport:tickets").trimmed == "2" }
    #expect(try await ask(1, "-sess_in", file, "-sess_out", file).contains("reused=r dn=CN=alice"))
    #expect(try await ask(0, "-sess_in", file).contains("reused=r dn=CN=alice"))
    // Two days later nothing opens what the first key sealed.
    for index in ["0", "1"] {
      let key = try await store.ask("--raw", "lindex", "sallyport:tickets", index).trimmed.split(separator: ":")[1]
      try await store.ask("lset", "sallyport:tickets", index, "\(made - 48 * 3600):\(key)")
    }
    try await store.ask("client", "kill", "type", "normal", "skipme", "yes")
    try await until("the old keys to be gone") { try await store.ask("llen", "sallyport:tickets").trimmed == "1" }
    try await until("the old session to be unknown") {
      try await ask(1, "-sess_in", file).contains("reused=. dn=CN=alice")
    }
  }

  @Test func `a Sentinel, a cluster and a replica are refused in clear words`() async throws {
    let scene = try Scene.ofTest()
    let main = try await StoreServer(scene)
    let replica = try await StoreServer(scene, options: ["--replicaof", "127.0.0.1", "\(main.port)"])
    // Without cluster-port its bus takes the port 10,000 above, which may be somebody's outgoing connection.
    let cluster = try await StoreServer(
      scene, options: ["--cluster-enabled", "yes", "--cluster-port", "\(scene.port())"])
    let port = try scene.port(), other = try scene.port()
    let daemon = try await Sallyport.serve(
      scene,
      """
      shared_store replica redis://127.0.0.1:\(replica.port); shared_store cluster redis://127.0.0.1:\(cluster.port);
      shared_store http redis://127.0.0.1:\(port); shared_store gone redis://127.0.0.1:\(other);
      server { listen 127.0.0.1:\(port); \(Self.metrics) }
      """)
    try await daemon.logged("shared store \"replica\"", "it is a replica, which takes no writes")
    try await daemon.logged("shared store \"cluster\"", "it is a node of a Redis Cluster")
    try await daemon.logged("shared store \"http\"", "what it sends is not the protocol of Redis")
    try await daemon.logged("shared store \"gone\"", "Connection refused")
    // A failover: the replica takes writes, and is taken up without a reload.
    try await replica.ask("replicaof", "no", "one")
    try await daemon.logged("shared store \"replica\"", "is reached again")
  }

  @Test func `a name that a failover moves is followed`() async throws {
    let scene = try Scene.ofTest(), upstream = try ScriptedUpstream.echo(scene)
    let old = try await StoreServer(scene), new = try await StoreServer(scene, at: "127.0.0.2", port: old.port)
    let dns = try await NameServer(scene, #"{"store.test": {"a": ["127.0.0.1"], "ttl": 1}}"#)
    let port = try scene.port()
    let daemon = try await Sallyport.serve(
      scene,
      """
      resolver 127.0.0.1:\(dns.port) ipv6=off; resolver_timeout 1s;
      shared_store main redis://store.test:\(old.port) resolve;
      limit_req_zone $arg_k zone=slow:1m rate=1r/m store=main fail=closed;
      server { listen 127.0.0.1:\(port); \(Self.metrics)
        location / { limit_req zone=slow; proxy_pass http://127.0.0.1:\(upstream.port); } }
      """)
    func get(_ key: String) async throws -> Int {
      try await scene.curl(["http://127.0.0.1:\(port)/head?k=\(key)"]).status
    }
    var number = 0
    func isServed() async throws -> Bool {
      number += 1
      return try await get("k\(number)") == 200
    }
    try await until("the first server") { try await isServed() }
    try dns.write(#"{"store.test": {"a": ["127.0.0.2"], "ttl": 1}}"#)
    try await old.kill()
    try await until("the second server") { try await isServed() }
    #expect(try await new.ask("dbsize").trimmed != "0")
    try await daemon.logged("shared store \"main\"", "is reached again")
  }

  @Test func `wrong passwords count at all machines`() async throws {
    let scene = try Scene.ofTest(), store = try await StoreServer(scene)
    let upstream = try ScriptedUpstream.echo(scene)
    _ = try await AuthorityCast(scene)
    try scene.write("users", text: "alice:{PLAIN}right\n")
    let both = try await TwoMachines(
      scene,
      """
      shared_store main redis://127.0.0.1:\(store.port);
      enrolment_failures_store main;
      server { listen PORT; \(Self.metrics)
        auth_basic_user_file users;
        location /enrol { auth_basic "devices"; enrolment on; enrolment_authority ca; enrolment_failures 3 600s; }
        location /guarded { auth_basic "guarded"; proxy_pass http://127.0.0.1:\(upstream.port)/head; } }
      """)
    try await both.untilConnected()
    func enter(_ machine: Int, _ password: String, user: String = "alice") async throws -> Int {
      try await both.get(machine, "/guarded", ["-u", "\(user):\(password)"]).status
    }
    // A right password doesn't count.
    for machine in [0, 1, 0, 1, 0] { #expect(try await enter(machine, "right") == 200) }
    #expect(try await enter(0, "guess1") == 401)
    #expect(try await enter(1, "guess2") == 401)
    let enrolment = try await scene.curl(
      ["-u", "alice:guess3", "-d", "device=d", "http://127.0.0.1:\(both.ports[1])/enrol"])
    #expect(enrolment.status == 401)
    for machine in [0, 1] { #expect(try await enter(machine, "right") == 429) }
  }
}

extension String {
  fileprivate var trimmed: String { trimmingCharacters(in: .whitespacesAndNewlines) }
}

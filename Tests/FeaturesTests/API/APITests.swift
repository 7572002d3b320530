import Bytes
import ConfigurationSupport
import Crypto
@testable import Features
@testable import Forward
import Observability
import TestSupport
import Testing
@testable import Traffic
import Upstream

@Suite struct `Paths and bodies of the API` {
  @Test(arguments: [
    ("", APIPath.root), ("/", .root), ("9", .version), ("/9/", .version), ("/9/nginx", .nginx), ("9/nginx/", .nginx),
    ("/9/http", .http), ("/9/http/upstreams/", .upstreams(isOfStream: false)),
    ("/9/stream/upstreams/a", .upstream("a", isOfStream: true)),
    ("/9/http/upstreams/a/servers", .servers("a", isOfStream: false)),
    ("/9/http/upstreams/a/servers/0", .server("a", 0, isOfStream: false)),
    ("/9/http/keyvals/", .objects("keyvals")), ("/9/http/keyvals/a", .object("keyvals", "a")),
    ("/9/http/limit_reqs", .objects("limit_reqs")), ("/9/http/limit_conns/z", .object("limit_conns", "z")),
    ("/9/http/limit_xs", .unknown), ("/9/http/keyvals/a/b", .unknown), ("/9/stream/keyvals", .empty),
    ("/9/processes", .processes), ("/9/slabs/", .empty), ("/9/resolvers", .resolvers),
    ("/9/resolvers/127.0.0.1:53 [::1]:53/", .resolver("127.0.0.1:53 [::1]:53")), ("/9/resolvers/a/b", .unknown),
    ("/9/http/caches", .empty),
    ("/9/http/location_zones", .empty), ("/9/slabs/a", .unknown), ("/9/stream/location_zones", .unknown),
    ("/9/http/server_zones", .serverZones(isOfStream: false)),
    ("/9/stream/server_zones/a b", .serverZone("a b", isOfStream: true)), ("/9/sallyport/errors", .errors),
    ("/9/sallyport/log_level/", .logLevel), ("/9/sallyport/log_level/info", .unknown),
    ("/9/stream/limit_conns/z", .object("limit_conns", "z", isOfStream: true)), ("/9/stream/limit_reqs", .unknown),
    ("/9/sallyport/clients", .clients), ("/9/sallyport/denials/", .denials),
    ("/9/sallyport/clients/serial/0A", .client(.serial("0A"))),
    ("/9/sallyport/clients/subject/CN=a", .client(.subject("CN=a"))),
    ("/8/nginx", .nginx), ("/4/http/upstreams", .upstreams(isOfStream: false)), ("/1/nginx", .nginx),
    ("/0/nginx", .otherVersion),
    ("/99", .otherVersion), ("/9/nginxx", .unknown), ("/9/nginx/x", .unknown),
    ("/9/http/upstream", .unknown), ("/9/http/upstreams/a/server", .unknown),
    ("/9/http/upstreams/a/servers/-1", .unknown), ("/9/http/upstreams/a/servers/x", .unknown),
    ("/9/http/upstreams/a/servers/99999999999999999999", .unknown), ("/9/http/upstreams/a/servers/1/x", .unknown),
    ("/9//nginx", .unknown), ("/9/sallyport/clients/fingerprint/00", .unknown), ("/9/sallyport/clients/x/y", .unknown),
  ])
  func `segments are matched whole`(text: String, path: APIPath) { #expect(APIPath(text, objects: objects) == path) }

  /// What the fuzzer starts from and what it once found.
  @Test(arguments: FuzzInput.all(of: "FuzzAPI")) func `inputs of the fuzzer are read or refused`(input: FuzzInput) {
    let line = input.bytes.prefix { $0 != 0x0A }, text = String(decoding: line, as: UTF8.self)
    if !text.hasSuffix("/") { #expect(APIPath(text, objects: objects) == APIPath(text + "/", objects: objects)) }
    _ = try? APIServerBody(Array(input.bytes.dropFirst(line.count + 1)))
    _ = try? APIDenialBody(Array(input.bytes.dropFirst(line.count + 1)))
    _ = try? APILogLevelBody(Array(input.bytes.dropFirst(line.count + 1)))
  }

  private var objects: [any APIObjects] { Features.all.directives[APIFeatureList.self].objects }

  @Test func `what features show has names of its own`() {
    let names = objects.map { "\($0.kind)/\($0.name)" }
    #expect(names == ["http/keyvals", "http/limit_reqs", "http/limit_conns", "stream/limit_conns"])
    #expect(Set(names + ["http/requests", "http/upstreams", "stream/upstreams"]).count == names.count + 3)
  }

  @Test func `a server's body says only what may be changed`() throws {
    let body = try APIServerBody(
      Array(
        #"{"weight":7,"max_conns":0,"max_fails":2,"fail_timeout":"1m","slow_start":5,"down":true,"drain":false}"#.utf8))
    #expect(body.patch.weight == 7 && body.patch.maxConnections == 0 && body.patch.maxFails == 2)
    #expect(body.patch.failTimeout == 60 && body.patch.slowStart == 5)
    #expect(body.patch.isDown == true && body.patch.isDraining == false)
  }

  @Test(arguments: [
    "", "[]", "{", "{\"weight\":0}", "{\"weight\":65536}", "{\"weight\":1.5}", "{\"weight\":\"1\"}",
    "{\"weight\":1,\"weight\":2}", "{\"down\":1}", "{\"drain\":\"true\"}", "{\"fail_timeout\":-1}",
    "{\"fail_timeout\":\"1x\"}", "{\"server\":\"127.0.0.1:1\"}", "{\"backup\":true}", "{\"a\":1}", "{\"weight\":null}",
    "{\"weight\":[[[[1]]]]}", "{\"max_conns\":9999999999}",
  ])
  func `a body with anything else is refused whole`(text: String) {
    #expect(throws: APIFault.self) { _ = try APIServerBody(Array(text.utf8)) }
  }

  @Test func `a denial names a fingerprint and a time`() throws {
    let hash = String(repeating: "ab", count: 32)
    #expect(try APIDenialBody(Array("{\"fingerprint\":\"\(hash)\",\"seconds\":1}".utf8)).seconds == 1)
    let noted = try APIDenialBody(Array("{\"fingerprint\":\"\(hash)\",\"seconds\":1,\"note\":\"ü\"}".utf8))
    #expect(noted.note == "ü")
    for text in [
      "{\"fingerprint\":\"\(hash)\",\"seconds\":1,\"note\":1}",
      "{\"fingerprint\":\"\(hash)\",\"seconds\":1,\"note\":\"a\\nb\"}",
      "{\"fingerprint\":\"\(hash)\",\"seconds\":1,\"note\":\"\(String(repeating: "x", count: 129))\"}",
      "{\"fingerprint\":\"\(hash)\"}", "{\"seconds\":1}", "{\"fingerprint\":\"ab\",\"seconds\":1}",
      "{\"fingerprint\":\"\(hash)\",\"seconds\":0}", "{\"fingerprint\":\"\(hash)\",\"seconds\":99999999}",
      "{\"fingerprint\":\"\(hash)\",\"seconds\":1,\"a\":1}",
    ] {
      #expect(throws: APIFault.self) { _ = try APIDenialBody(Array(text.utf8)) }
    }
  }

  @Test func `a level of error logs is one of those whose lines tell of it, for a day at most`() throws {
    let body = try APILogLevelBody(Array(#"{"level":"info","seconds":86400}"#.utf8))
    #expect(body.level == .info && body.seconds == 86_400)
    for text in [
      #"{"level":"info"}"#, #"{"seconds":1}"#, #"{"level":"warn","seconds":1}"#, #"{"level":"INFO","seconds":1}"#,
      #"{"level":"info","seconds":0}"#, #"{"level":"info","seconds":86401}"#, #"{"level":"info","seconds":1.5}"#,
      #"{"level":"info","seconds":1,"a":1}"#, #"{"level":1,"seconds":1}"#,
    ] {
      #expect(throws: APIFault.self, "\(text)") { _ = try APILogLevelBody(Array(text.utf8)) }
    }
  }

  @Test func `the level that error logs have for a time is on each page until it ends`() throws {
    let scene = try Scene()
    defer { scene.end() }
    let rig = try Rig(
      """
      error_log \(scene.path("error.log")) crit;
      server { listen 80; allow 192.0.2.1; deny all; location / { api write=on; } location = /status { status; } }
      """)
    rig.worker.metrics.process.follow(rig.logs)
    func ask(_ method: String, _ body: String = "") throws -> String {
      try rig.answer(
        "\(method) /9/sallyport/log_level HTTP/1.1\r\nHost: a\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)")
    }
    let log = rig.live.listeners[0].fallback.root.errorLog
    #expect(try ask("GET").hasSuffix("\r\n{}\n") && !log.takes(.error))
    let begun = try ask("POST", #"{"level":"info","seconds":600}"#)
    #expect(begun.hasPrefix("HTTP/1.1 201 "), "\(begun)")
    #expect(begun.hasSuffix(#"{"level":"info","seconds":600,"by":"192.0.2.1"}"# + "\n"), "\(begun)")
    #expect(log.takes(.info) && !log.takes(.debug))
    let worker = rig.worker
    #expect(worker.forgottenChanges.contains { $0.hasPrefix("the level info of error logs, which had ") })
    var overrides = RuntimeOverrides()
    overrides.logLevel = try #require(worker.metrics.process.logLevels?.current)
    let snapshot = MetricsSnapshot(worker.metrics, worker.shared, rig.live.generation, overrides)
    #expect(StatusHTML.page(snapshot).contains(">by 192.0.2.1</td>"))
    #expect(StatusJSON.text(snapshot).contains(#""log_level":{"level":"info","seconds":600,"by":"192.0.2.1"}"#))
    #expect(MetricsPage.text(snapshot).contains("sallyport_error_log_override_seconds 600\n"))
    #expect(try ask("DELETE").hasSuffix("\r\n{}\n") && !log.takes(.error))
    #expect(try ask("DELETE").contains("LogLevelNotFound"))
  }

  @Test func `denials end by their time, and are bounded`() throws {
    let denials = ClientDenials()
    let certificate = try CertificateBuilder(commonName: "a", .authority(pathLength: nil)).selfSigned(key: .generate())
      .certificate
    #expect(denials.rest(certificate, now: 0) == nil)
    #expect(denials.deny(certificate.sha256, seconds: 10, now: 1000))
    #expect(denials.rest(certificate, now: 1000) == 10 && denials.rest(certificate, now: 10_999) == 1)
    #expect(denials.all(now: 1000).map(\.subject) == ["CN=a"], "whose it is, once it has come")
    #expect(denials.rest(certificate, now: 11_000) == nil && denials.all(now: 11_000).isEmpty)
    #expect(denials.allow(certificate.sha256) && !denials.allow(certificate.sha256))
    for index in 0..<ClientDenials.limit {
      #expect(denials.deny([UInt8(index & 255), UInt8(index >> 8)], seconds: 9, now: 0))
    }
    #expect(!denials.deny([1, 2, 3], seconds: 9, now: 0) && denials.deny([1, 1], seconds: 9, now: 0))
    // Those that are over make room.
    #expect(denials.deny([1, 2, 3], seconds: 9, now: 10_000))
  }

  @Test func `of several denials each counts until its own end, whatever becomes of the others`() throws {
    let denials = ClientDenials()
    func certificate(_ name: String) throws -> Certificate {
      try CertificateBuilder(commonName: name, .authority(pathLength: nil)).selfSigned(key: .generate()).certificate
    }
    let (thief, other) = try (certificate("till 5"), certificate("till 3"))
    for certificate in [thief, other] { #expect(denials.deny(certificate.sha256, seconds: 9, now: 0)) }
    #expect(denials.allow(other.sha256) && denials.rest(other, now: 0) == nil)
    #expect(denials.rest(thief, now: 0) == 9)
    // By both of its fingerprints: the longer one counts.
    let sha1 = try Hex.decode(thief.sha1Fingerprint)
    #expect(denials.deny(sha1, seconds: 90, now: 0) && denials.rest(thief, now: 0) == 90)
    #expect(denials.rest(thief, now: 20_000) == 70)
  }

  @Test func `denials are kept as lines, and a text with any other line is none`() throws {
    let long = [UInt8](repeating: 0xAB, count: 32), short = [UInt8](repeating: 1, count: 20)
    let reason = DenialReason("unix: root", "till 5\u{20AC} is stolen %", since: -1)
    let entries = [
      DenialState.Entry(fingerprint: long, end: 5), DenialState.Entry(fingerprint: short, end: .max, reason: reason),
      DenialState.Entry(
        fingerprint: [UInt8](repeating: 2, count: 20), end: 7, reason: DenialReason("me", "", since: 9)),
    ]
    let text = DenialState.text(entries)
    #expect(DenialState.entries(Array(text.utf8)) == entries)
    #expect(DenialState.entries([]) == [])
    let hash = String(repeating: "ab", count: 32)
    for line in [
      "x", "\(hash)", "\(hash) ", "\(hash) -1", "\(hash) 1 2", "\(hash) 1 2 3", "\(hash) 1 x me a",
      "\(hash) 1 2 me %0A", "\(hash) 1 2 me a b", "\(hash)0 1", "\(hash.dropLast(2)) 1",
    ] {
      #expect(DenialState.entries(Array("\(text)\(line)\n".utf8)) == nil, "\(line)")
    }
    let many = String(repeating: "\(hash) 1\n", count: ClientDenials.limit)
    #expect(DenialState.entries(Array(many.utf8))?.count == ClientDenials.limit)
    #expect(DenialState.entries(Array("\(many)\(hash) 1\n".utf8)) == nil)
  }

  @Test func `a denial tells whose certificate it is, since when, by whom and why, until it ends`() throws {
    let denials = ClientDenials()
    let certificate = try CertificateBuilder(commonName: "a", .authority(pathLength: nil)).selfSigned(key: .generate())
      .certificate
    let reason = DenialReason("unix: root", "stolen", since: 100)
    #expect(denials.deny(certificate.sha256, seconds: 10, for: reason, now: 0))
    #expect(denials.all(now: 0).map(\.reason) == [reason] && denials.all(now: 0).map(\.serial) == [nil])
    #expect(denials.rest(certificate, now: 0) == 10)
    #expect(denials.all(now: 0).map(\.serial) == [certificate.serial])
    #expect(denials.left(unit: 1, now: 0).map(\.reason) == [reason])
    #expect(APIView.text(denials.all(now: 0)).contains(#""by":"unix: root","note":"stolen"}"#))
    #expect(denials.allow(certificate.sha256) && denials.deny(certificate.sha256, seconds: 1, now: 0))
    #expect(denials.all(now: 0).map(\.reason) == [nil], "another denial has its own reason")
  }

  @Test func `a process that was replaced takes what its successor denies from the state directory`() throws {
    let scene = try Scene()
    defer { scene.end() }
    let state = DenialState(folder: scene.folder)
    let (former, successor) = (SharedState(features: Features.all), SharedState(features: Features.all))
    try former.restoreDenials(state)
    #expect(former.takeDenialsOfSuccessor().isEmpty)
    let (first, second) = ([UInt8](repeating: 1, count: 32), [UInt8](repeating: 2, count: 32))
    try successor.restoreDenials(state)
    for fingerprint in [first, second] {
      #expect(successor.denials.deny(fingerprint, seconds: 60))
      try successor.denials.write()
      #expect(former.takeDenialsOfSuccessor() == [.fingerprint(fingerprint)])
    }
    #expect(former.takeDenialsOfSuccessor().isEmpty && former.denials.all().count == 2)
    try scene.write("denials", text: "nonsense\n")
    #expect(former.takeDenialsOfSuccessor().isEmpty && former.denials.all().count == 2)
  }

  private func load(_ server: String, _ location: String = "api write=on;") -> LoadedText {
    LoadedText("http { server { listen 127.0.0.1:80; \(server) location /api/ { \(location) } } }")
  }

  @Test func `write=on needs something that keeps strangers out`() {
    #expect(load("").errors.contains { $0.contains("nothing keeps strangers out") })
    #expect(load("", "api;").settings != nil && load("", "api write=off;").settings != nil)
    #expect(load("", "api write=on; allow 127.0.0.1; deny all;").settings != nil)
    #expect(load("", "api write=on; auth_basic a; auth_basic_user_file b;").settings != nil)
    #expect(load("", "api write=maybe;").errors.contains { $0.contains("invalid parameter") })
    let socket = "http { server { listen unix:/run/a.sock; location /api/ { api write=on; } } }"
    #expect(LoadedText(socket).settings != nil)
    let both = "http { server { listen unix:/run/a.sock; listen 127.0.0.1:80; location /api/ { api write=on; } } }"
    #expect(LoadedText(both).settings == nil)
    #expect(
      LoadedText("http { server { listen 127.0.0.1:80; location ~ /api/ { api; } } }").errors
        .contains { $0.contains("another kind than a prefix") })
  }
}

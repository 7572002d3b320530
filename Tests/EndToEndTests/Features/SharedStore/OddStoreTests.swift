import Synchronization
import TestSupport
import Testing

/// A server that logs everybody in as Redis does, and answers each command after that as a test says.
private final class OddStore: Sendable {
  private struct State {
    var answer = ""
    var asked = 0
  }

  private let state = Mutex(State())
  private(set) nonisolated(unsafe) var port: UInt16 = 0

  init(_ scene: Scene) throws {
    port =
      try ScriptedUpstream(scene) { [self] wire, _ in
        while let command = try Self.command(wire) {
          switch command.first {
          case "HELLO": try wire.write("*4\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n")
          case "SCRIPT": try wire.write("$40\r\n\(String(repeating: "a", count: 40))\r\n")
          default:
            // What keeps a connection's name alive is no question.
            let isQuestion = !command.contains { $0.hasPrefix("sallyport:alive:") && command[0] == "SET" }
            try wire.write(
              state.withLock { state in
                if isQuestion { state.asked += 1 }
                return isQuestion ? state.answer : "+OK\r\n"
              })
          }
        }
      }.port
  }

  var asked: Int { state.withLock { $0.asked } }
  func answer(_ text: String) { state.withLock { $0.answer = text } }

  private static func command(_ wire: Wire) throws -> [String]? {
    guard let head = try wire.read(through: "\r\n") else { return nil }
    return try (0..<number(head)).map { _ in
      let size = try number(wire.read(through: "\r\n") ?? [])
      return String(decoding: try wire.read(exactly: size + 2).prefix(size), as: UTF8.self)
    }
  }

  private static func number(_ line: [UInt8]) -> Int {
    Int(String(decoding: line.dropFirst().dropLast(2), as: UTF8.self)) ?? 0
  }
}

/// With `fail=closed`, what is none of a command's own answers admits nobody.
@Suite(.staged) struct `A store that answers something else` {
  private struct Stand {
    let store: OddStore
    let daemon: Sallyport
    let port: UInt16
    let scene: Scene

    init(_ scene: Scene, _ http: String, _ location: String) async throws {
      self.scene = scene
      store = try OddStore(scene)
      let upstream = try ScriptedUpstream.echo(scene)
      port = try scene.port()
      daemon = try await Sallyport.serve(
        scene,
        """
        shared_store main redis://127.0.0.1:\(store.port); \(http)
        server { listen 127.0.0.1:\(port);
          location / { \(location) proxy_pass http://127.0.0.1:\(upstream.port)/head; } }
        """)
    }

    /// The status of a request that the store was asked about, and answered so. Each request beside it must have 503, too.
    func status(_ answer: String, _ words: () throws -> [String]) async throws -> Int {
      store.answer(answer)
      let before = store.asked
      var status = 0
      try await until("the store to be asked") {
        status = try await scene.curl(try words() + ["http://127.0.0.1:\(port)/?k=a"]).status
        if store.asked == before { #expect(status == 503, "without the store") }
        return store.asked > before
      }
      return status
    }

    func refuses(_ answers: [String], good: String, _ words: () throws -> [String] = { [] }) async throws {
      #expect(try await status(good, words) == 200)
      for answer in answers {
        #expect(try await status(answer, words) == 503, "\(answer)")
        #expect(!daemon.errorLog.contains("signal"))
      }
      // It serves on, once it has the store again: its first question may be of a request that is over.
      try await until("a request to be admitted") { try await status(good, words) == 200 }
      try await daemon.logged("it sent a reply that answers something else")
    }
  }

  private static let oddities = ["+QUEUED\r\n", "+O\r\n", "$0\r\n\r\n", "*0\r\n", "*-1\r\n", ":-1\r\n", ":7\r\n"]

  @Test func `limit_req takes the excess of each key, and nothing else`() async throws {
    let scene = try Scene.ofTest()
    let stand = try await Stand(
      scene, "limit_req_zone $arg_k zone=z:1m rate=1r/m store=main fail=closed;",
      "limit_req zone=z burst=3 nodelay;")
    try await stand.refuses(
      Self.oddities + [
        "*2\r\n:-5\r\n:5\r\n", "*2\r\n:0\r\n$3\r\nnan\r\n", "*2\r\n:1\r\n:-1500\r\n", "*2\r\n:0\r\n:-1\r\n",
        "*2\r\n:0\r\n:3001\r\n", "*2\r\n:1\r\n:3000\r\n", "*2\r\n:2\r\n:5000\r\n", "*1\r\n:0\r\n",
        "*3\r\n:0\r\n:0\r\n:0\r\n", "*2\r\n$1\r\n0\r\n:0\r\n", "*2\r\n:0\r\n*1\r\n:0\r\n", ":0\r\n",
      ], good: "*2\r\n:0\r\n:0\r\n")
    #expect(try await stand.status("*2\r\n:1\r\n:3500\r\n") { [] } == 503)
    try await stand.daemon.logged("limiting requests, excess: 3.500 by zone \"z\"")
  }

  @Test func `limit_conn takes a count or a refusal, and nothing else`() async throws {
    let scene = try Scene.ofTest()
    let stand = try await Stand(
      scene, "limit_conn_zone $arg_k zone=z:1m store=main fail=closed;",
      "limit_conn z 3;")
    try await stand.refuses(Self.oddities + ["*1\r\n:1\r\n", "$1\r\n1\r\n"], good: ":1\r\n")
  }

  @Test func `a nonce is new by the answer OK alone`() async throws {
    let scene = try Scene.ofTest(), cast = try SignatureCast(scene)
    let stand = try await Stand(
      scene, "",
      "\(cast.lines("message_signature_nonce on store=main;"))")
    try await stand.refuses(
      Self.oddities.filter { !$0.hasPrefix("*-1") } + ["+ok\r\n", "+OK \r\n", "*1\r\n+OK\r\n", ":1\r\n"],
      good: "+OK\r\n"
    ) {
      try cast.sign("GET", stand.port, "/?k=a", nonce: true)
    }
  }

  @Test func `a password is looked at by the answer 0 alone`() async throws {
    let scene = try Scene.ofTest()
    _ = try await AuthorityCast(scene)
    // Passwords count by the limit of the enrolment that has the same file.
    try scene.write("users", text: "a:{PLAIN}x\n")
    let stand = try await Stand(
      scene, "enrolment_failures_store main fail=closed;",
      """
      return 404; }
      location /enrol { auth_basic x; auth_basic_user_file users; enrolment on; enrolment_authority ca;
        enrolment_failures 3 600s; }
      location = / { auth_basic x; auth_basic_user_file users;
      """)
    try await stand.refuses(
      Self.oddities.filter { $0 != ":7\r\n" } + ["*1\r\n:0\r\n", "$1\r\n0\r\n"], good: ":0\r\n"
    ) { ["-u", "a:x"] }
    #expect(try await stand.status(":999999999999999999\r\n") { ["-u", "a:x"] } == 429)
  }
}

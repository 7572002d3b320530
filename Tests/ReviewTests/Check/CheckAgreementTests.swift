@testable import Daemon
@testable import Loading
@testable import Review
import ConfigurationSupport
import Traffic
import Forward
import Features
import Configuration
import Crypto
import Glibc
import Language
import Observability
import TestSupport
import Testing

/// `check` says "valid" of nothing that a start would refuse, and refuses nothing else, except for what keeps every client out.
@Suite struct `Check and start` {
  /// The phases of a start up to the pid file. Its listening sockets are closed at the end.
  private func refusal(_ path: String) -> [Diagnostic] {
    do throws(Refusal) {
      let shared = SharedState(features: Features.all)
      let (settings, found) = try Preparation.read(path, sharing: shared)
      _ = try Preparation(settings, after: found, number: 1, logs: LogFiles(), sharing: shared)
      let sockets = try ListeningSockets(for: settings.http.listeners, workers: 1, inherited: [], keeping: nil)
      defer { sockets.removeFiles() }
      do throws(PidFileError) {
        try settings.main.pidFile.map { (path) throws(PidFileError) in try PidFile(opening: path) }?.abandon()
        return []
      } catch {
        return [Diagnostic(.error, at: nil, error.description)]
      }
    } catch {
      return error.errors
    }
  }

  private func expectAgreement(_ text: String, _ scene: Scene) throws {
    let path = try scene.write("test.conf", text: text)
    let told = Check(path).diagnostics.filter { $0.severity == .error && $0.consequence != .lockout }
    let refused = refusal(path)
    #expect(
      told.isEmpty == refused.isEmpty, "\(text)\ncheck: \(told.map(\.description)) start: \(refused.map(\.description))"
    )
  }

  private func folder() throws -> Scene {
    let scene = try Scene()
    let authority = try scene.serverFiles()
    try scene.write("leaf.pem", text: authority.client().certificate.pem)
    try scene.write("middle.pem", text: authority.intermediate.certificate.pem)
    var list = RevocationListBuilder(revoking: [])
    try scene.write("good.crl", text: list.pem(signedBy: authority.root))
    list.thisUpdate -= 864_000
    list.nextUpdate = list.thisUpdate + 86_400
    try scene.write("ended.crl", text: list.pem(signedBy: authority.root))
    try scene.write("other.crl", text: RevocationListBuilder(revoking: []).pem(signedBy: TestAuthority("Other").root))
    try scene.write("users", text: "alice:{PLAIN}x\n")
    try scene.write("empty", text: "")
    try scene.makeFolder("folder")
    try scene.write("folder/strange", text: "not sallyport's")
    return scene
  }

  @Test func `say the same of the example of each directive in each of its contexts`() throws {
    let scene = try folder()
    defer { scene.end() }
    let port = try scene.port()
    let listen = "listen 127.0.0.1:\(port) ssl; ssl_certificate server.pem; ssl_certificate_key server.key;"
    let pass = "location / { proxy_pass http://127.0.0.1:9; }"
    let places: [(DirectiveContexts, (String) -> String)] = [
      (.main, { "\($0) events {} http { server { \(listen) return 200; } }" }),
      (.events, { "events { \($0) } http { server { \(listen) return 200; } }" }),
      (.http, { "events {} http { \($0) server { \(listen) \(pass) } }" }),
      (.server, { "events {} http { server { \(listen) \($0) \(pass) } }" }),
      (.location, { "events {} http { server { \(listen) location / { \($0) proxy_pass http://127.0.0.1:9; } } }" }),
      (.upstream, { "events {} http { upstream u { server 127.0.0.1:9; \($0) } server { \(listen) return 200; } }" }),
    ]
    var count = 0
    for entry in Features.all.directives.table.families.flatMap(\.entries) where !entry.example.isEmpty {
      for (context, text) in places where entry.contexts.contains(context) {
        count += 1
        try expectAgreement(text(entry.example), scene)
      }
    }
    #expect(count > 300)
  }

  @Test func `say the same of a thousand configurations that were made by chance`() throws {
    let scene = try folder()
    defer { scene.end() }
    var made = RandomLines(port: try scene.port(), folder: scene.folder)
    for _ in 0..<1000 { try expectAgreement(made.next(), scene) }
  }
}

/// Configurations of parts of which some can't be served. The same ones in each run.
private struct RandomLines {
  private let port: UInt16
  private let folder: String
  private var state: UInt64 = 44

  init(port: UInt16, folder: String) {
    self.port = port
    self.folder = folder
  }

  /// One of the words, most often the first.
  private mutating func pick(_ words: String...) -> String {
    // xorshift64 (Marsaglia).
    state ^= state << 13
    state ^= state >> 7
    state ^= state << 17
    let chance = Int(state % 100)
    return chance < 60 ? words[0] : words[chance % words.count]
  }

  mutating func next() -> String {
    let main = pick("", "pid test.pid;", "pid nowhere/test.pid;", "pid folder;", "nonsense;")
    let log = pick("", "error_log error.log;", "error_log nowhere/error.log;", "error_log folder;")
    let access = pick(
      "", "access_log access.log;", "access_log nowhere/access.log;", "access_log logs/$host.log;",
      "access_log folder/$host.log;")
    let names = pick("", "resolver 127.0.0.1:9;", "resolver nosuch.invalid;", "set_real_ip_from nosuch.invalid;")
    let upstream = pick("127.0.0.1:9", "localhost:9", "nosuch.invalid:9", "unix:\(folder)/up.sock")
    let listen = pick(
      "127.0.0.1:\(port)", "192.0.2.1:\(port)", "unix:\(folder)/test.sock", "unix:\(folder)/nowhere/test.sock",
      "unix:\(folder)/empty", "systemd:other")
    // A start gets the sockets of systemd's units, of which `check` knows nothing.
    let address = listen.hasPrefix("systemd:") ? "127.0.0.1:\(port)" : listen
    let tls = [
      pick("ssl_certificate server.pem;", "ssl_certificate none.pem;", "ssl_certificate server.key;", ""),
      pick("ssl_certificate_key server.key;", "ssl_certificate_key server.pem;", "ssl_certificate_key none.key;"),
      pick(
        "", "ssl_client_certificate ca.pem;", "ssl_client_certificate leaf.pem;", "ssl_client_certificate middle.pem;",
        "ssl_client_certificate empty;"),
      pick("", "ssl_verify_client on;", "ssl_verify_client optional;", "ssl_verify_client sometimes;"),
      pick("", "ssl_crl good.crl;", "ssl_crl ended.crl;", "ssl_crl other.crl;", "ssl_crl none.crl;"),
    ].joined(separator: " ")
    let security = pick("", "ssl")
    let content = pick(
      "proxy_pass http://u;", "proxy_pass https://u; proxy_ssl_trusted_certificate ca.pem; proxy_ssl_name u.test;",
      "proxy_pass https://u;", "proxy_pass http://nosuch.invalid;", "return 204;", "root .;", "root /;",
      "auth_basic a; auth_basic_user_file users; return 200 x;",
      "auth_basic a; auth_basic_user_file none; return 200 x;",
      "proxy_pass http://u; proxy_auth basic; proxy_auth_user_file users; proxy_auth_state kept;",
      "proxy_pass http://u; proxy_auth basic; proxy_auth_user_file users; proxy_auth_state nowhere/kept;",
      "proxy_pass http://u; proxy_auth basic; proxy_auth_user_file users; proxy_auth_state folder;")
    return """
      \(main) \(log) events {}
      http { \(access) \(names) upstream u { server \(upstream); }
        server { listen \(address) \(security); \(security.isEmpty ? "" : tls) location / { \(content) } } }
      """
  }
}

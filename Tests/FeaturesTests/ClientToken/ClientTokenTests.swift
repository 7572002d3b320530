import Bytes
import ConfigurationSupport
import Crypto
@testable import Features
@testable import Forward
import Foundation
import HTTP
import JSON
import Observability
@testable import Signature
import TestSupport
import Testing
@testable import Traffic

private let tls =
  "listen 443 ssl; ssl_certificate a.pem; ssl_certificate_key a.key; ssl_client_certificate a.pem; ssl_verify_client on;\n"

/// A server whose location's lines begin in line 2, column 1.
private func location(_ lines: String, server: String = tls) -> LoadedText {
  let block = server + "location / { empty_gif;\n"
  return LoadedText("http { server { \(block.replacing("\n", with: " "))\n\(lines)\n} } }")
}

@Suite struct `Bearer tokens of clients` {
  private final class Stage {
    let issuer: TokenIssuer
    let rig: Rig
    private let scene: Scene

    /// `words`: those of `client_token` behind the keys.
    init(_ words: String = "unbound", _ lines: String = "") throws {
      (scene, issuer) = (try Scene(), try TokenIssuer())
      let file = try scene.write("keys.json", text: issuer.set)
      rig = try Rig(
        """
        server {
          listen 80; client_token jwks=\(file) \(words); client_token_set $who sub; \(lines)
          location / { empty_gif; add_header X-Verdict $client_token_verdict; }
          location /up/ { proxy_pass http://127.0.0.1:9; proxy_set_header X-Who $who; }
          location /open/ { client_token off; empty_gif; }
          location /moved/ { rewrite ^ /a last; }
        }
        """)
      #expect(rig.faults.isEmpty)
    }

    deinit { scene.end() }

    func answer(_ target: String = "/", _ fields: String...) throws -> String {
      try rig.answer("GET \(target) HTTP/1.1\r\nHost: h\r\n" + fields.map { "\($0)\r\n" }.joined() + "\r\n")
    }

    func bearer(_ claims: String) -> String { "Authorization: Bearer \(issuer.token(claims))" }
  }

  private static let far = "\"exp\":99999999999"

  private func challenge(_ answer: String) -> String? {
    answer.components(separatedBy: "\r\n").first { $0.hasPrefix("WWW-Authenticate: ") }.map { String($0.dropFirst(18)) }
  }

  @Test func `let in a request whose token is authentic, and no other`() throws {
    let stage = try Stage(), good = stage.bearer("{\(Self.far)}")
    let answer = try stage.answer("/", good)
    #expect(answer.hasPrefix("HTTP/1.1 200 ") && answer.contains("X-Verdict: SUCCESS\r\n"))
    #expect(try stage.answer("/", good.replacing("Bearer", with: "bEARER  ")).hasPrefix("HTTP/1.1 200 "))
    #expect(try stage.answer("/moved/", good).hasPrefix("HTTP/1.1 200 "))
    #expect(try stage.answer("/open/").hasPrefix("HTTP/1.1 200 "))
    let none = try stage.answer()
    #expect(none.hasPrefix("HTTP/1.1 401 ") && challenge(none) == "Bearer")
    #expect(try challenge(stage.answer("/", "Authorization: Basic YTpi")) == "Bearer")
    #expect(try challenge(stage.answer("/", "Authorization: Bearers x")) == "Bearer")
    #expect(try challenge(stage.answer("/?access_token=\(stage.issuer.token("{\(Self.far)}"))")) == "Bearer")
    for bad in [good + "x", stage.bearer("{\"exp\":1}"), "Authorization: Bearer a.b.c", "Authorization: Bearer x"] {
      let answer = try stage.answer("/", bad)
      #expect(answer.hasPrefix("HTTP/1.1 401 ") && challenge(answer) == "Bearer error=\"invalid_token\"")
    }
    let other = try TokenIssuer()
    #expect(try stage.answer("/", "Authorization: Bearer \(other.token("{\(Self.far)}"))").hasPrefix("HTTP/1.1 401 "))
  }

  @Test(arguments: [
    "Authorization: Bearer", "Authorization: Bearer ", "Authorization: Bearer a b", "Authorization: Bearer \"a\"",
  ])
  func `malformed credentials are no token`(field: String) throws {
    let answer = try Stage().answer("/", field)
    #expect(answer.hasPrefix("HTTP/1.1 400 ") && challenge(answer) == "Bearer error=\"invalid_request\"", "\(answer)")
  }

  @Test func `two fields of credentials are refused, so that nobody reads another than we do`() throws {
    let stage = try Stage(), good = stage.bearer("{\(Self.far)}")
    #expect(try stage.answer("/", good, "Authorization: Basic YTpi").hasPrefix("HTTP/1.1 400 "))
    #expect(try stage.answer("/", good, good).hasPrefix("HTTP/1.1 400 "))
  }

  @Test func `a token that is bound lets in nobody without its certificate`() throws {
    let hash = Base64.encodeURL([UInt8](repeating: 7, count: 32))
    let stage = try Stage()
    let answer = try stage.answer("/", stage.bearer("{\(Self.far),\"cnf\":{\"x5t#S256\":\"\(hash)\"}}"))
    #expect(answer.hasPrefix("HTTP/1.1 401 "))
  }

  @Test func `claims are required, and told to the upstream in place of what the client says`() throws {
    let stage = try Stage("unbound", "client_token_require scope write admin; client_token_require grp a;")
    func sent(_ claims: String) throws -> [String] {
      try stage.rig.forwarded("GET /up/ HTTP/1.1", "Host: h", "X-Who: mallory", "X_Who: eve", stage.bearer(claims))
    }
    #expect(
      try sent("{\(Self.far),\"scope\":\"read write\",\"grp\":[\"a\",\"b\"],\"sub\":\"al\"}").contains("X-Who: al"))
    let silent = try sent("{\(Self.far),\"scope\":\"admin\",\"grp\":\"a\",\"sub\":\"a\\r\\nX-Admin: 1\"}")
    #expect(
      !silent.contains {
        $0.lowercased().hasPrefix("x-who") || $0.lowercased().hasPrefix("x_who") || $0.hasPrefix("X-Admin")
      })
    for claims in ["\"grp\":\"a\"", "\"scope\":\"read\",\"grp\":\"a\"", "\"scope\":\"write\",\"grp\":{\"a\":1}"] {
      let answer = try stage.answer("/", stage.bearer("{\(Self.far),\(claims)}"))
      #expect(answer.hasPrefix("HTTP/1.1 403 ") && challenge(answer) == "Bearer error=\"insufficient_scope\"")
    }
  }

  @Test func `an optional token may be missing, and not be wrong`() throws {
    let stage = try Stage("unbound optional")
    #expect(try stage.answer().contains("X-Verdict: NONE\r\n"))
    #expect(try stage.answer("/", "Authorization: Basic YTpi").contains("X-Verdict: NONE\r\n"))
    #expect(try stage.answer("/", stage.bearer("{\"exp\":1}")).hasPrefix("HTTP/1.1 401 "))
    let silent = try stage.rig.forwarded("GET /up/ HTTP/1.1", "Host: h", "X-Who: mallory")
    #expect(!silent.contains { $0.hasPrefix("X-Who") })
    let asked = try Stage("unbound optional", "client_token_require sub al;")
    #expect(try asked.answer().hasPrefix("HTTP/1.1 401 "))
  }

  @Test func `no password and no address is enough in place of a token`() throws {
    let stage = try Stage("unbound", "satisfy any; allow all;")
    #expect(try stage.answer().hasPrefix("HTTP/1.1 401 "))
  }

  @Test func `without its keys, a location lets in nobody`() throws {
    let rig = try Rig("server { listen 80; client_token jwks=/nowhere/keys.json unbound; location / { empty_gif; } }")
    #expect(rig.faults.contains { $0.severity == .error && $0.description.contains("/nowhere/keys.json") })
    #expect(try rig.answer("GET / HTTP/1.1\r\nHost: h\r\n\r\n").hasPrefix("HTTP/1.1 401 "))
    let token = "GET / HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer a.b.c\r\n\r\n"
    #expect(try rig.answer(token).hasPrefix("HTTP/1.1 503 "))
  }

  @Test func `a file that is no key set is named with its fault`() throws {
    let scene = try Scene()
    defer { scene.end() }
    let file = try scene.write("keys.json", text: "{\"keys\":[{\"kty\":\"oct\",\"k\":\"AAAA\"}]}")
    let rig = try Rig("server { listen 80; client_token jwks=\(file) unbound; location / { empty_gif; } }")
    #expect(rig.faults.contains { $0.description.contains("key 1 of it: a secret or private key") })
  }

  @Test(arguments: [
    ("client_token optional;", "2:1 \"client_token\" without \"jwks=\""),
    ("client_token jwks=http://a/b;", "2:14 invalid URL \"http://a/b\" in \"client_token\""),
    ("client_token jwks=https://;", "2:14 invalid URL"),
    ("client_token jwks=a jwks=b;", "2:21 \"jwks\" twice in \"client_token\""),
    ("client_token jwks=a trusted=b;", "2:21 \"trusted=\" beside a file of keys"),
    ("client_token jwks=a leeway=6m;", "2:21 invalid parameter \"leeway=6m\""),
    ("client_token jwks=a issuer=;", "2:21 invalid parameter \"issuer=\""),
    ("client_token jwks=a required;", "2:21 invalid parameter \"required\""),
    ("client_token_require sub a;", "2:1 warning: \"client_token_require\" has no effect here: client_token is off"),
    ("client_token jwks=a; client_token_set who sub;", "2:39 invalid variable name \"who\""),
  ])
  func `faults are named with their place`(lines: String, problem: String) {
    let problems = location(lines).problems
    #expect(problems.count { $0.contains(problem) } == 1, "\(problems)")
  }

  @Test func `a token that must be bound is for servers that ask for certificates`() {
    let problems = location("client_token jwks=a;", server: "listen 80;\n").problems
    #expect(problems.contains { $0.contains("\"client_token\" needs client certificates") }, "\(problems)")
    #expect(location("client_token jwks=a unbound;", server: "listen 80;\n").errors == [])
    #expect(location("client_token jwks=a issuer=i audience=b audience=c leeway=5m;").errors == [])
  }
}

@Suite struct `Tokens that were verified` {
  private final class Cache {
    private var cache = TokenCache()

    func keep(_ number: Int, size: Int) {
      let token = VerifiedToken(claims: [:], end: 1, begin: nil, issued: nil, certificate: nil)
      cache.keep(token, of: size, for: Array("\(number)".utf8), 1)
    }

    func has(_ number: Int, version: UInt64 = 1) -> Bool { cache.find(Array("\(number)".utf8), version) != nil }
  }

  @Test func `are known by the keys that verified them, in bounds`() {
    let cache = Cache()
    cache.keep(0, size: 100)
    #expect(cache.has(0) && !cache.has(0, version: 2) && !cache.has(1))
    for number in 1...TokenCache.mostTokens { cache.keep(number, size: 1) }
    #expect(!cache.has(0) && cache.has(1))
    cache.keep(-1, size: TokenCache.mostBytes)
    #expect(!cache.has(5) && cache.has(-1))
    cache.keep(-2, size: TokenCache.mostBytes + 1)
    #expect(!cache.has(-2) && !cache.has(-1))
    cache.keep(7, size: 10)
    #expect(cache.has(7))
  }
}

@Suite struct `Keys of tokens that are fetched` {
  private final class Clocked {
    private var state = KeyState()
    private let set: WebKeySet

    init() throws { set = try WebKeySet(Array(TokenIssuer().set.utf8)) }

    /// Whether there are keys that count, and whether they are asked for now.
    func look(_ now: Int64) -> [Bool] {
      let (keys, asks) = state.current(at: now)
      return [keys != nil, asks]
    }

    func asksAgain(_ now: Int64) -> Bool { state.asksAgain(at: now) }
    func succeed(_ now: Int64) { _ = state.end(set, at: now) }
    func fail(_ now: Int64) -> Int { state.end(nil, at: now) }
    var version: UInt64 { state.version }
  }

  @Test func `are asked for once at a time, and count for a day at most without an answer`() throws {
    let keys = try Clocked()
    #expect(keys.look(0) == [false, true])
    #expect(keys.look(100) == [false, false])
    keys.succeed(100)
    #expect(keys.look(101) == [true, false] && keys.version == 1)
    // Old ones serve while new ones are asked for.
    let stale = 100 + KeyState.freshness
    #expect(keys.look(stale) == [true, true] && keys.look(stale + 1) == [true, false])
    #expect(keys.fail(stale + 2) == 1)
    #expect(
      keys.look(stale + KeyState.pause - 1) == [true, false] && keys.look(stale + KeyState.pause) == [true, true])
    #expect(keys.fail(stale + 20) == 2)
    let end = 100 + KeyState.longest
    #expect(keys.look(end - 1) == [true, true] && keys.look(end) == [false, false])
    keys.succeed(end)
    #expect(keys.look(end + 1) == [true, false] && keys.version > 1)
  }

  @Test func `an unknown key makes nobody ask more often than each ten seconds`() throws {
    let keys = try Clocked()
    #expect(keys.look(0) == [false, true])
    keys.succeed(0)
    #expect(!keys.asksAgain(9) && keys.asksAgain(10) && !keys.asksAgain(30))
    #expect(keys.fail(30) == 1 && keys.asksAgain(30))
  }
}

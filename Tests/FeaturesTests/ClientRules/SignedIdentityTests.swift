import Bytes
import ConfigurationSupport
import Crypto
@testable import Features
@testable import Forward
import Foundation
import HTTP
import Identity
import JSON
import Observability
import Signature
import Synchronization
import TestSupport
import Testing
@testable import Traffic

private let tls =
  "listen 443 ssl; ssl_certificate a.pem; ssl_certificate_key a.key; ssl_client_certificate a.pem; ssl_verify_client optional; "

/// A server whose lines begin in line 2, column 1.
private func location(_ lines: String, pass: String = "proxy_pass http://127.0.0.1;") -> LoadedText {
  LoadedText("http { server { \(tls)location / { \(pass)\n\(lines)\n} } }")
}

@Suite struct `A signed identity` {
  private func rig(_ lines: String) throws -> Rig {
    try Rig(
      """
      server { \(tls)
        location / { proxy_pass http://127.0.0.1:9; \(lines) }
        location = /keys { client_identity_keys; }
      }
      """)
  }

  private func value(_ name: String, _ head: [String]) -> String? {
    let lines = head.filter { $0.lowercased().hasPrefix("\(name.lowercased()):") }
    return lines.count == 1 ? String(lines[0].drop { $0 != ":" }.dropFirst(2)) : nil
  }

  @Test func `proves that a client has no certificate, by the key that is published`() throws {
    let rig = try rig("client_identity signed; proxy_set_header Host inner.test:80;")
    let head = try rig.forwarded(
      "GET /a%2Fb?x=1 HTTP/1.1", "Host: h", "Client-Cert: :AAAA:", "Client_Cert_Chain: :AAAA:",
      "Signature-Input: client=();keyid=\"x\", other=();keyid=\"y\"", "Signature: client=:AAAA:, other=:AAAA:",
      "X_Signature: stays")
    #expect(!head.contains { $0.contains("AAAA") || $0.lowercased().hasPrefix("client-cert") })
    let input = try #require(value("Signature-Input", head)), signature = try #require(value("Signature", head))
    let form = try #require(
      try
        #/client=(\("@method" "@authority" "@path" "@query"\);created=(\d+);expires=(\d+);nonce="[0-9a-f]{32}";keyid="([\w-]{43})";alg="ed25519";tag="client-identity")/#
        .wholeMatch(in: input))
    #expect(Int(form.output.3) == Int(form.output.2).map { $0 + 60 })

    let page = try rig.answer("GET /keys HTTP/1.1\r\nHost: h\r\n\r\n")
    #expect(page.contains("\r\nContent-Type: application/jwk-set+json\r\n"))
    let body = try #require(page.components(separatedBy: "\r\n\r\n").last)
    let key = try #require(try JSONValue(Array(body.utf8))["keys"]?.list?.first)
    #expect(key["kid"]?.text == String(form.output.4) && key["alg"]?.text == "EdDSA" && key["use"]?.text == "sig")
    #expect(key["d"] == nil && key["kty"]?.text == "OKP" && key["crv"]?.text == "Ed25519")

    let published = try WebVerifier(.ed25519(Base64.decodeURL(try #require(key["x"]?.text))))
    let base =
      "\"@method\": GET\n\"@authority\": inner.test\n\"@path\": /a%2Fb\n\"@query\": ?x=1\n\"@signature-params\": "
      + form.output.1
    let octets = try #require(Data(base64Encoded: String(signature.dropFirst(8).dropLast(1))))
    #expect(published.verify([UInt8](octets), Array(base.utf8), by: .edDSA))
    #expect(!published.verify([UInt8](octets), Array((base + "x").utf8), by: .edDSA))
  }

  @Test func `has another nonce for each request, and covers the fields that it is told where they are`() throws {
    let rig = try rig("client_identity signed content-type x-tenant;")
    var seen: Set<String> = []
    for _ in 0..<3 {
      let head = try rig.forwarded("GET / HTTP/1.1", "Host: h", "X-Tenant: a")
      let input = try #require(value("Signature-Input", head))
      #expect(input.hasPrefix("client=(\"@method\" \"@authority\" \"@path\" \"@query\" \"x-tenant\");"))
      seen.insert(input)
    }
    #expect(seen.count == 3)
  }

  @Test func `no request goes to the upstream while the key is missing`() throws {
    let rig = try rig("client_identity signed key=/nowhere/key.pem;")
    #expect(rig.faults.contains { $0.severity == .error && $0.description.contains("/nowhere/key.pem") })
    let answer = try rig.answer("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    #expect(answer.hasPrefix("HTTP/1.1 500 ") && rig.upstreams.isEmpty)
  }

  @Test func `a key of a file signs, of the two kinds that signatures have`() throws {
    for (kind, name) in [(PrivateKey.Kind.ed25519, "EdDSA"), (.p256, "ES256")] {
      let scene = try Scene()
      defer { scene.end() }
      let pem = try PrivateKey.generate(kind).pem.withUnsafeBytes { Array($0) }
      let file = try scene.write("key.pem", pem)
      let rig = try rig("client_identity signed key=\(file);")
      #expect(rig.faults.isEmpty)
      #expect(try rig.answer("GET /keys HTTP/1.1\r\nHost: h\r\n\r\n").contains("\"alg\":\"\(name)\""))
      #expect(try value("Signature", rig.forwarded("GET / HTTP/1.1", "Host: h")) != nil)
    }
    let scene = try Scene()
    defer { scene.end() }
    let pem = try PrivateKey.generate(.p384).pem.withUnsafeBytes { Array($0) }
    let rig = try rig("client_identity signed key=\(try scene.write("key.pem", pem));")
    #expect(rig.faults.contains { $0.description.contains("client_identity signed needs Ed25519 or ECDSA P-256") })
  }

  @Test(arguments: [
    ("client_identity signed key=;", "2:24 \"key=\" without a file in \"client_identity\""),
    ("client_identity signed @status;", "2:24 invalid component \"@status\""),
    ("client_identity signed client-cert;", "2:24 \"client-cert\" is always signed"),
    ("client_identity signed date date;", "2:29 the component \"date\" occurs twice"),
    ("client_identity signed connection;", "2:24 \"connection\" belongs to one connection"),
    ("client_identity signed content-digest;", "2:24 \"client_identity signed\" signs heads"),
    ("client_identity xfcc date;", "2:22 invalid value \"date\" in \"client_identity\" directive"),
    ("client_identity signed; proxy_set_header signature x;", "2:25 \"signature\" is set here and by client_identity"),
    (
      "client_identity signed; proxy_auth basic; proxy_auth_user_file u;",
      "2:25 \"proxy_auth\" beside \"client_identity signed\""
    ),
    (
      "client_identity signed; message_signature sign; message_signature_key k hmac-sha256 a.key;",
      "2:1 the requests of one location would be signed twice"
    ),
  ])
  func `faults are named with their place, once`(lines: String, problem: String) {
    let problems = location(lines).problems
    #expect(problems.count { $0.contains(problem) } == 1, "\(problems)")
  }

  @Test func `only messages of HTTP are signed`() {
    let problems = location("client_identity signed;", pass: "fastcgi_pass 127.0.0.1:9;").problems
    #expect(problems.contains { $0.contains("it signs messages of HTTP") }, "\(problems)")
    #expect(location("client_identity signed;", pass: "grpc_pass grpc://127.0.0.1:9;").errors == [])
  }

  @Test func `a key is published before it signs, and the change of keys leaves no request that can't be verified`()
    throws
  {
    let scene = try Scene()
    defer { scene.end() }
    let files = try ["old", "new"].map { name in
      try scene.write("\(name).pem", PrivateKey.generate(.ed25519).pem.withUnsafeBytes { Array($0) })
    }
    func ids(_ signing: String, _ keys: String) throws -> (signs: String, published: [String]) {
      let rig = try Rig(
        """
        server { \(tls)
          location / { proxy_pass http://127.0.0.1:9; client_identity signed key=\(signing); }
          location = /keys { client_identity_keys \(keys); }
        }
        """)
      #expect(rig.faults.isEmpty, "\(rig.faults)")
      let page = try rig.answer("GET /keys HTTP/1.1\r\nHost: h\r\n\r\n")
      let body = try #require(page.components(separatedBy: "\r\n\r\n").last)
      let list = try #require(try JSONValue(Array(body.utf8))["keys"]?.list)
      let input = try #require(value("Signature-Input", rig.forwarded("GET / HTTP/1.1", "Host: h")))
      let form = try #require(input.firstMatch(of: /keyid="([\w-]{43})"/))
      return (String(form.output.1), list.compactMap { $0["kid"]?.text })
    }
    let added = try ids(files[0], files[1])
    #expect(added.published.count == 2 && added.published.first == added.signs)
    let swapped = try ids(files[1], files.joined(separator: " "))
    #expect(swapped.signs == added.published.last && swapped.published == [swapped.signs, added.signs])
    let missing = try Rig("server { \(tls) location = /keys { client_identity_keys /nowhere/key.pem; } }")
    #expect(missing.faults.contains { $0.severity == .error && $0.description.contains("/nowhere/key.pem") })
  }

  @Test func `a key that signs no more stays published for a while`() throws {
    let keys = try (0..<3).map { _ in try ProofKey(PrivateKey.generate(.ed25519)) }
    var state = ProofKeys.State()
    func published(at now: UInt64) -> [String] { state.published(state.current, at: now).map(\.id) }
    state.take([keys[0]], at: 100)
    #expect(published(at: 100) == [keys[0].id])
    state.take([keys[1]], at: 200)
    #expect(published(at: 200 + ProofKeys.retirement - 1) == [keys[1].id, keys[0].id])
    #expect(published(at: 200 + ProofKeys.retirement) == [keys[1].id])
    // One that signs again is no retired one, and their number has a limit.
    state.take([keys[0]], at: 300)
    #expect(published(at: 301) == [keys[0].id, keys[1].id])
    for _ in 0..<40 { state.take([try ProofKey(PrivateKey.generate(.ed25519))], at: 400) }
    #expect(published(at: 401).count == 1 + ProofKeys.mostRetired)
  }
}

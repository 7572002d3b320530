import Bytes
import Crypto
import Foundation
import TestSupport
import Testing

@Suite(.staged) struct `Bearer tokens and certificates of clients` {
  private func token(_ issuer: TokenIssuer, of client: CertifiedKey, _ more: String = "") -> [String] {
    let claims =
      "{\"iss\":\"https://id.example\",\"aud\":\"api\",\"sub\":\"al\",\"exp\":99999999999,"
      + "\"cnf\":{\"x5t#S256\":\"\(Base64.encodeURL(client.certificate.sha256))\"}\(more)}"
    return ["-H", "Authorization: Bearer \(issuer.token(claims))"]
  }

  private func start(_ scene: Scene, _ keys: String) async throws -> (Sallyport, UInt16) {
    let port = try scene.port()
    let daemon = try await Sallyport.start(
      scene,
      configuration(
        """
        log_format token "$request_uri $client_token_verdict";
        server {
          listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls(verify: "optional"))
          client_token \(keys) issuer=https://id.example audience=api; client_token_set $subject sub;
          access_log token.log token;
          location / { empty_gif; add_header X-Subject $subject; }
          location /writers { client_token_require scope write; empty_gif; }
        }
        """))
    return (daemon, port)
  }

  /// RFC 8705 §3.
  @Test func `a stolen token is worth nothing without the certificate's key`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene), issuer = try TokenIssuer(.p256)
    try scene.write("keys.json", text: issuer.set)
    let bob = try scene.identity("bob", cast.authority.client(commonName: "bob"))
    let (daemon, port) = try await start(scene, "jwks=keys.json")
    func ask(_ words: [String], _ target: String = "/") async throws -> CurlResult {
      try await scene.curl(cast.to(port) + words + ["https://localhost\(target)"])
    }
    let alices = token(issuer, of: cast.alice.certified)
    for _ in 0..<2 {
      let answer = try await ask(cast.alice.curl + alices)
      #expect(answer.status == 200 && answer["X-Subject"] == "al")
    }
    #expect(try await ask(bob.curl + alices).status == 401)
    #expect(try await ask(alices).status == 401)
    #expect(try await ask(cast.alice.curl).status == 401)
    #expect(try await ask(cast.alice.curl + alices, "/writers").status == 403)
    let writer = token(issuer, of: cast.alice.certified, ",\"scope\":\"read write\"")
    #expect(try await ask(cast.alice.curl + writer, "/writers").status == 200)
    #expect(daemon.errorLog.contains("client token refused: it is bound to another certificate than the client's"))

    // A key that is withdrawn from the file verifies nothing any more.
    let next = try TokenIssuer(.p256, id: "k2")
    try scene.write("keys.json", text: next.set)
    let renewed = token(next, of: cast.alice.certified)
    try await until("the new key to count") { try await ask(cast.alice.curl + renewed).status == 200 }
    #expect(try await ask(cast.alice.curl + alices).status == 401)
    try await until("the log to say it") {
      scene.text("token.log").contains("/ FAILED:the key \\x22k1\\x22 is unknown")
    }
    #expect(scene.text("token.log").contains("/ SUCCESS") && scene.text("token.log").contains("/ NONE"))
  }

  @Test func `keys of a URL are fetched by a verified connection, and again when a token names another one`()
    async throws
  {
    let scene = try Scene.ofTest(), cast = try Cast(scene), issuer = try TokenIssuer(.rsa(bits: 2048))
    try scene.write("keys", text: issuer.set)
    let program = try scene.write("server.py", text: Self.server), keys = try scene.port()
    let process = try ChildProcess(
      "/usr/bin/python3", [program, "\(keys)"], in: scene.folder, output: scene.path("server.out"),
      errors: scene.path("server.err"))
    scene.atEnd { process.stop() }
    try await until("the server of keys to listen") { (try? Wire.dial(port: keys)) != nil }
    let (_, port) = try await start(scene, "jwks=https://localhost:\(keys)/keys trusted=ca.pem")
    func ask(_ words: [String]) async throws -> CurlResult {
      try await scene.curl(cast.to(port) + cast.alice.curl + words + ["https://localhost/"])
    }
    let first = token(issuer, of: cast.alice.certified)
    try await until("the keys to be there") { try await ask(first).status == 200 }
    let next = try TokenIssuer(id: "k2"), renewed = token(next, of: cast.alice.certified)
    try scene.write("keys", text: next.set)
    #expect(try await ask(renewed).status == 401)
    try await until("the new key to count") { try await ask(renewed).status == 200 }
    #expect(try await ask(first).status == 401)
    // Whatever the server then says, the keys that were right count.
    try scene.write("keys", text: "{\"keys\":[]}")
    let unknown = try TokenIssuer(id: "k3")
    #expect(try await ask(token(unknown, of: cast.alice.certified)).status == 401)
    #expect(try await ask(renewed).status == 200)
  }

  @Test func `keys of a server that isn't the one count for nothing`() async throws {
    let scene = try Scene.ofTest(), cast = try Cast(scene), issuer = try TokenIssuer()
    try scene.write("keys", text: issuer.set)
    try scene.anchors("other", TestAuthority())
    let program = try scene.write("server.py", text: Self.server), keys = try scene.port()
    let process = try ChildProcess(
      "/usr/bin/python3", [program, "\(keys)"], in: scene.folder, output: scene.path("server.out"),
      errors: scene.path("server.err"))
    scene.atEnd { process.stop() }
    try await until("the server of keys to listen") { (try? Wire.dial(port: keys)) != nil }
    let (daemon, port) = try await start(scene, "jwks=https://localhost:\(keys)/keys trusted=other.pem")
    try await until("the failure to be told") { daemon.errorLog.contains("could not be fetched (1 in a row)") }
    let answer = try await scene.curl(
      cast.to(port) + cast.alice.curl + token(issuer, of: cast.alice.certified) + ["https://localhost/"])
    #expect(answer.status == 503)
  }

  private static let server = #"""
    import http.server, ssl, sys
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), http.server.SimpleHTTPRequestHandler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain("server.pem", "server.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()
    """#
}

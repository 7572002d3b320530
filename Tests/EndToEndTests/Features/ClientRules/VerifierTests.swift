import Bytes
import Crypto
import Foundation
import Signature
import TestSupport
import Testing

/// What a backend of a test says of who the client is: a hash, or `anonymous`.
private struct ProofStage: Sendable {
  let scene: Scene
  let cast: Cast
  let port: UInt16
  let backend: UInt16
  let key: SignatureKey
  let keyID: String

  /// `start`: the backend, which has the URL of the keys and its port.
  init(
    _ scene: Scene, _ kind: PrivateKey.Kind = .ed25519,
    _ start: (_ keys: String, _ port: UInt16) async throws -> Void
  ) async throws {
    self.scene = scene
    cast = try Cast(scene)
    let pair = try PrivateKey.generate(kind)
    let file = try scene.write("identity.pem", pair.pem.withUnsafeBytes { Array($0) })
    key = try SignatureKey.load(MaterialReference(path: file), kind == .p256 ? .ecdsaP256 : .ed25519, to: .sign)
    keyID = try Base64.encodeURL(JSONWebKey(pair).thumbprint)
    (port, backend) = (try scene.port(), try scene.port())
    let keys = try scene.port()
    _ = try await Sallyport.start(
      scene,
      configuration(
        """
        server {
          listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls(verify: "optional"))
          client_identity signed key=identity.pem x-tenant;
          location / { proxy_pass http://127.0.0.1:\(backend); }
          location /unproved/ { proxy_pass http://127.0.0.1:\(backend); client_identity rfc9440; }
        }
        server { listen 127.0.0.1:\(keys); location = /keys { client_identity_keys; } }
        """))
    try await start("http://127.0.0.1:\(keys)/keys", backend)
    let backend = backend
    try await until("the backend to listen") { (try? Wire.dial(port: backend)) != nil }
  }

  func through(_ words: [String] = [], _ target: String = "/a%2Fb?x=1", as client: Bool = true) async throws
    -> CurlResult
  {
    try await scene.curl(
      cast.to(port) + (client ? cast.alice.curl : []) + words + ["--path-as-is", "https://localhost\(target)"])
  }

  /// A signed head, as words of curl. `certificate`: the value of Client-Cert.
  func head(
    _ method: String = "GET", _ target: String = "/a%2Fb?x=1", certificate: String?,
    components: String = "@method @authority @path @query client-cert", key other: SignatureKey? = nil,
    keyID: String? = nil, label: String = "client", tag: String = "client-identity", secondsAgo: Int64 = 0
  ) throws -> [String] {
    var fields: [SignedMessage.Field] = []
    if let certificate {
      Array("Client-Cert".utf8).withUnsafeBytes { name in
        Array(certificate.utf8).withUnsafeBytes { fields.append(SignedMessage.Field(name, $0)) }
      }
    }
    let message = SignedMessage(
      method: Array(method.utf8), isTLS: false, authority: Array("127.0.0.1:\(backend)".utf8),
      target: Array(target.utf8), fields: fields)
    let policy = MessageSigner.Policy(
      label: Array(label.utf8), keyID: Array((keyID ?? self.keyID).utf8),
      components: try components.split(separator: " ").map { try Component(parsing: String($0)) }, lifetime: 60,
      hasNonce: true, tag: Array(tag.utf8), keepsOthers: false, skipsAbsentFields: true)
    let made = try MessageSigner(policy, other ?? key).sign(
      message, hasBody: false, now: Int64(Date().timeIntervalSince1970) - secondsAgo)
    return (certificate.map { ["-H", "Client-Cert: \($0)"] } ?? []) + [
      "-H", "Signature-Input: \(String(decoding: made.input, as: UTF8.self))",
      "-H", "Signature: \(String(decoding: made.signature, as: UTF8.self))",
    ]
  }

  func direct(_ words: [String], _ method: String = "GET", _ target: String = "/a%2Fb?x=1") async throws -> CurlResult {
    try await scene.curl(["-X", method, "--path-as-is"] + words + ["http://127.0.0.1:\(backend)\(target)"])
  }

  /// What each verifier must accept, and what it must refuse.
  func playAll() async throws {
    let alice = cast.alice.certified.certificate
    let hash = Hex.encode(alice.sha256), own = ":\(Base64.encode(alice.der)):"
    // The true ones.
    for (words, target) in [
      ([], "/a%2Fb?x=1"), ([], "/"), ([], "/a?"), (["-X", "DELETE"], "/a"), (["-H", "X-Tenant: t"], "/a"),
      (["-d", "a=b"], "/a"),
    ] {
      let answer = try await through(words, target)
      #expect(answer.status == 200 && answer.text == hash, "\(words) \(target): \(answer.status) \(answer.text)")
    }
    let forged = ["-H", "Client-Cert: \(own)", "-H", "client_cert: \(own)", "-H", "Signature: client=:AAAA:"]
    for words in [[], forged] {
      let answer = try await through(words, as: false)
      #expect(answer.status == 200 && answer.text == "anonymous", "\(words): \(answer.status) \(answer.text)")
    }
    #expect(try await through([], "/unproved/").status == 403)

    func refuses(_ what: String, _ words: [String], _ method: String = "GET", _ target: String = "/a%2Fb?x=1")
      async throws
    {
      let answer = try await direct(words, method, target)
      #expect(answer.status == 403, "\(what): \(answer.status) \(answer.text)")
    }
    // A request that did not come through the proxy.
    try await refuses("plain", [])
    try await refuses("forged", ["-H", "Client-Cert: \(own)"])
    try await refuses("half", Array(try head(certificate: own).dropLast(2)))

    // One that did, changed on its way.
    try await refuses("method", try head(certificate: own), "DELETE")
    try await refuses("path", try head(certificate: own), "GET", "/a/b?x=1")
    try await refuses("query", try head(certificate: own), "GET", "/a%2Fb?x=2")
    try await refuses("host", try head(certificate: own) + ["-H", "Host: other.test"])
    let bob = try Base64.encode(cast.authority.client(commonName: "bob").certificate.der)
    try await refuses("certificate", Array(try head(certificate: own).dropFirst(2)) + ["-H", "Client-Cert: :\(bob):"])
    try await refuses("no certificate", Array(try head(certificate: own).dropFirst(2)))
    try await refuses("certificate of an anonymous client", try head(certificate: nil) + ["-H", "Client-Cert: \(own)"])
    try await refuses("chain", try head(certificate: own) + ["-H", "Client-Cert-Chain: \(own)"])
    try await refuses("two certificates", try head(certificate: own) + ["-H", "Client-Cert: :\(bob):"])

    // Signatures that mean something else.
    let mallory = try SignatureKey(signing: PrivateKey.generate(.ed25519), .ed25519)
    try await refuses("another key", try head(certificate: own, key: mallory))
    try await refuses("an unknown key", try head(certificate: own, keyID: String(repeating: "A", count: 43)))
    try await refuses("too old", try head(certificate: own, secondsAgo: 70))
    try await refuses("of the future", try head(certificate: own, secondsAgo: -60))
    try await refuses("another purpose", try head(certificate: own, tag: "other"))
    try await refuses("another label", try head(certificate: own, label: "sig1"))
    try await refuses("no path", try head(certificate: own, components: "@method @authority @query client-cert"))
    try await refuses(
      "no certificate covered", try head(certificate: own, components: "@method @authority @path @query"))
    let second = ["-H", "Signature-Input: sig1=(\"@method\")", "-H", "Signature: sig1=:AAAA:"]
    try await refuses("a second signature behind", try head(certificate: own) + second)
    try await refuses("a second signature in front", second + (try head(certificate: own)))
    let twin = ["-H", "Signature-Input: client=()", "-H", "Signature: client=:AAAA:"]
    try await refuses("a second one of the same label", twin + (try head(certificate: own)))

    // Once, and not again.
    let head = try head(certificate: own), answer = try await direct(head)
    #expect(answer.status == 200 && answer.text == hash, "\(answer.status) \(answer.text)")
    try await refuses("replay", head)
    #expect(try await through().text == hash)
  }
}

private let verifiers = "\(checkout)/deploy/verifiers"
private let python = "/usr/bin/python3"

private func runs(_ command: String, _ words: [String]) async -> Bool { await Scene.succeeds(command, words) }

@Suite(.staged) struct `Proof of the client for upstreams` {
  private func start(
    _ scene: Scene, _ name: String, _ command: String, _ words: [String], environment: [String: String] = [:]
  ) throws {
    let process = try ChildProcess(
      command, words, in: scene.folder, environment: environment, output: scene.path("\(name).out"),
      errors: scene.path("\(name).err"))
    scene.atEnd { process.stop() }
    scene.onFailure(show: name) { scene.text("\(name).err") }
  }

  @Test(
    .enabled("python3-cryptography is not installed") { await runs(python, ["-c", "import cryptography"]) },
    arguments: [PrivateKey.Kind.ed25519, .p256])
  func `the verifier for WSGI accepts what the proxy has signed, and nothing else`(kind: PrivateKey.Kind) async throws {
    let scene = try Scene.ofTest()
    let stage = try await ProofStage(scene, kind) { keys, port in
      let program = try scene.write("backend.py", text: Self.wsgi)
      try start(scene, "backend", python, [program, keys, "\(port)", "\(verifiers)/python"])
    }
    try await stage.playAll()
  }

  @Test(
    .enabled("Node.js is not installed") { await runs("node", ["-e", "process.exit(fetch ? 0 : 1)"]) },
    arguments: [PrivateKey.Kind.ed25519, .p256])
  func `the verifier for Node does so`(kind: PrivateKey.Kind) async throws {
    let scene = try Scene.ofTest()
    let stage = try await ProofStage(scene, kind) { keys, port in
      let program = try scene.write("backend.js", text: Self.node)
      try start(scene, "backend", "node", [program, keys, "\(port)", "\(verifiers)/node/sallyport-identity"])
    }
    try await stage.playAll()
  }

  @Test(
    .enabled("PHP with sodium is not installed") {
      await runs("php", ["-r", "exit(extension_loaded('sodium') && extension_loaded('openssl') ? 0 : 1);"])
    }, arguments: [PrivateKey.Kind.ed25519, .p256])
  func `the verifier for PHP does so`(kind: PrivateKey.Kind) async throws {
    let scene = try Scene.ofTest()
    let stage = try await ProofStage(scene, kind) { keys, port in
      let program = try scene.write("backend.php", text: Self.php)
      let environment = [
        "VERIFIER": "\(verifiers)/php/sallyport_identity.php", "KEYS": keys, "NONCES": try scene.makeFolder("nonces"),
      ]
      try start(scene, "backend", "php", ["-S", "127.0.0.1:\(port)", program], environment: environment)
    }
    try await stage.playAll()
  }

  @Test(
    .enabled("a JDK is not installed: SALLYPORT_TEST_CLIENTS=all Tests/run installs it") {
      await runs("javac", ["-version"])
    })
  func `the servlet filter does so`() async throws {
    let scene = try Scene.ofTest()
    let stage = try await ProofStage(scene) { keys, port in
      let own = try Self.servlets.map { try scene.write("\($0.0).java", text: $0.1) }
      let classes = try scene.makeFolder("classes")
      // Without a path of sources, javac would look for them in the current folder, which has those that are named.
      let made = try await scene.run(
        "javac", ["-sourcepath", classes, "-d", classes, "\(verifiers)/java/SallyportIdentityFilter.java"] + own,
        within: .seconds(120))
      #expect(made.status == 0, "\(made.everything)")
      try start(scene, "backend", "java", ["-cp", classes, "Backend", keys, "\(port)"])
    }
    try await stage.playAll()
  }

  @Test(
    .enabled("python3-cryptography or nginx is not installed") {
      guard await runs(python, ["-c", "import cryptography"]) else { return false }
      return await runs("nginx", ["-v"])
    })
  func `nginx does so by auth_request`() async throws {
    let scene = try Scene.ofTest()
    let stage = try await ProofStage(scene) { keys, port in
      let (helper, inner) = (try scene.port(), try scene.port())
      try start(
        scene, "helper", python, ["\(verifiers)/nginx/identity_helper.py", keys, "\(helper)"],
        environment: ["PYTHONPATH": "\(verifiers)/python"])
      try await until("the helper to listen") { (try? Wire.dial(port: helper)) != nil }
      let locations = try String(contentsOfFile: "\(verifiers)/nginx/identity.conf", encoding: .utf8)
        .replacing("127.0.0.1:9411", with: "127.0.0.1:\(helper)").replacing(
          "127.0.0.1:9080", with: "127.0.0.1:\(inner)")
      _ = try await NginxUpstream.start(
        scene, ports: [port, inner],
        """
        server { listen 127.0.0.1:\(port); \(locations) }
        server { listen 127.0.0.1:\(inner); location / {
          if ($http_x_client_cert_sha256 = "") { return 200 anonymous; } return 200 $http_x_client_cert_sha256; } }
        """)
    }
    try await stage.playAll()
  }

  @Test func `none has more than 100 lines of code`() throws {
    for name in [
      "python/sallyport_identity.py", "node/sallyport-identity.js", "php/sallyport_identity.php",
      "java/SallyportIdentityFilter.java", "nginx/identity_helper.py", "nginx/identity.conf",
    ] {
      let lines = try String(contentsOfFile: "\(verifiers)/\(name)", encoding: .utf8).split(separator: "\n")
        .map { $0.trimmingCharacters(in: .whitespaces) }
      let code = lines.filter { line in
        !line.isEmpty && !["//", "*", "/**", "#"].contains { line.hasPrefix($0) }
      }
      #expect(code.count <= 100, "\(name): \(code.count)")
    }
  }

  private static let wsgi = #"""
    import sys, hashlib, wsgiref.simple_server as simple
    sys.path.insert(0, sys.argv[3])
    from sallyport_identity import SallyportIdentity

    class Handler(simple.WSGIRequestHandler):
        def get_environ(self):
            # As gunicorn, uWSGI and mod_wsgi tell it.
            return {**super().get_environ(), "REQUEST_URI": self.path}

    def application(environ, start_response):
        start_response("200 OK", [("Content-Type", "text/plain")])
        certificate = environ["sallyport.certificate"]
        return [(hashlib.sha256(certificate).hexdigest() if certificate else "anonymous").encode()]

    proved = SallyportIdentity(application, sys.argv[1])
    simple.make_server("127.0.0.1", int(sys.argv[2]), proved, handler_class=Handler).serve_forever()
    """#

  private static let node = #"""
    const { sallyportIdentity } = require(process.argv[4]);
    const { createHash } = require('node:crypto');
    const guard = sallyportIdentity(process.argv[2]);
    require('node:http').createServer((request, response) => guard(request, response, () => {
      const certificate = request.sallyportCertificate;
      response.end(certificate ? createHash('sha256').update(certificate.raw).digest('hex') : 'anonymous');
    })).listen(+process.argv[3], '127.0.0.1');
    """#

  private static let php = #"""
    <?php
    require getenv('VERIFIER');
    $certificate = sallyport_identity(getenv('KEYS'), getenv('NONCES'));
    echo $certificate === null ? 'anonymous' : hash('sha256', $certificate);
    """#

  /// As much of the servlet API as the filter needs, and a server of the JDK's below it.
  private static let servlets: [(String, String)] = [
    (
      "Filter",
      "package jakarta.servlet; public interface Filter { default void init(FilterConfig c) throws ServletException {} void doFilter(ServletRequest a, ServletResponse b, FilterChain c) throws java.io.IOException, ServletException; }"
    ),
    (
      "FilterConfig", "package jakarta.servlet; public interface FilterConfig { String getInitParameter(String name); }"
    ),
    (
      "FilterChain",
      "package jakarta.servlet; public interface FilterChain { void doFilter(ServletRequest a, ServletResponse b) throws java.io.IOException, ServletException; }"
    ),
    (
      "ServletRequest",
      "package jakarta.servlet; public interface ServletRequest { void setAttribute(String n, Object v); String getScheme(); }"
    ),
    ("ServletResponse", "package jakarta.servlet; public interface ServletResponse {}"),
    ("ServletException", "package jakarta.servlet; public class ServletException extends Exception {}"),
    (
      "HttpServletRequest",
      "package jakarta.servlet.http; public interface HttpServletRequest extends jakarta.servlet.ServletRequest { java.util.Enumeration<String> getHeaders(String n); String getMethod(); String getRequestURI(); String getQueryString(); }"
    ),
    (
      "HttpServletResponse",
      "package jakarta.servlet.http; public interface HttpServletResponse extends jakarta.servlet.ServletResponse { void sendError(int s, String m) throws java.io.IOException; }"
    ),
    (
      "Backend",
      #"""
      import com.sun.net.httpserver.*; import jakarta.servlet.http.*; import java.net.*; import java.security.*;
      import java.security.cert.Certificate; import java.util.*;
      public class Backend {
        public static void main(String[] words) throws Exception {
          SallyportIdentityFilter filter = new SallyportIdentityFilter();
          filter.init(name -> words[0]);
          HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(words[1])), 0);
          server.createContext("/", exchange -> {
            Object[] told = { null }; int[] status = { 200 }; String[] text = { "anonymous" };
            HttpServletRequest request = new HttpServletRequest() {
              public Enumeration<String> getHeaders(String n) {
                String key = n.substring(0, 1).toUpperCase() + n.substring(1).toLowerCase();
                return Collections.enumeration(exchange.getRequestHeaders().getOrDefault(key, List.of()));
              }
              public String getMethod() { return exchange.getRequestMethod(); }
              public String getRequestURI() { return exchange.getRequestURI().getRawPath(); }
              public String getQueryString() { return exchange.getRequestURI().getRawQuery(); }
              public String getScheme() { return "http"; }
              public void setAttribute(String n, Object v) { told[0] = v; }
            };
            HttpServletResponse response = (s, m) -> { status[0] = s; text[0] = m; };
            try {
              filter.doFilter(request, response, (a, b) -> {
                try {
                  if (told[0] != null) text[0] = HexFormat.of().formatHex(
                      MessageDigest.getInstance("SHA-256").digest(((Certificate) told[0]).getEncoded()));
                } catch (GeneralSecurityException fault) { throw new RuntimeException(fault); }
              });
            } catch (Exception fault) { status[0] = 500; text[0] = fault.toString(); }
            byte[] body = text[0].getBytes();
            exchange.sendResponseHeaders(status[0], body.length);
            exchange.getResponseBody().write(body);
            exchange.close();
          });
          server.start();
        }
      }
      """#
    ),
  ]
}

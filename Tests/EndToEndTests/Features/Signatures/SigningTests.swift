import Crypto
import Foundation
import Signature
import TestSupport
import Testing

@Suite(.staged) struct `Requests signed for an upstream` {
  private func key(_ scene: Scene, _ algorithm: SignatureAlgorithm) async throws {
    let words: [String] =
      switch algorithm {
      case .hmacSHA256: []
      case .ecdsaP256: ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]
      case .ed25519: ["-algorithm", "ED25519"]
      case .rsaPSS, .rsaPKCS1: ["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"]
      }
    guard !words.isEmpty else {
      try scene.write("private.pem", text: SignatureCast.secret)
      try scene.write("public.pem", text: SignatureCast.secret)
      return
    }
    let made = try await scene.run("openssl", ["genpkey"] + words + ["-out", scene.path("private.pem")])
    let shown = try await scene.run(
      "openssl", ["pkey", "-in", scene.path("private.pem"), "-pubout", "-out", scene.path("public.pem")])
    #expect(made.status == 0 && shown.status == 0)
  }

  @Test(arguments: SignatureAlgorithm.allCases)
  func `are valid where they arrive, after all rewriting`(algorithm: SignatureAlgorithm) async throws {
    let scene = try Scene.ofTest()
    try await key(scene, algorithm)
    let upstream = try ScriptedUpstream.echo(scene)
    let (port, inner) = (try scene.port(), try scene.port())
    let covered = "message_signature_components @method @target-uri @authority x-user content-digest;"
    let daemon = try await Sallyport.serve(
      scene,
      """
      server {
        listen 127.0.0.1:\(port);
        message_signature sign; message_signature_key k \(algorithm.rawValue) private.pem; \(covered)
        message_signature_nonce on; message_signature_expires 1m; client_body_buffer_size 1k;
        location / { proxy_pass http://127.0.0.1:\(inner); proxy_set_header X-User alice; }
        location /moved/ { proxy_pass http://127.0.0.1:\(inner)/head/; proxy_set_header X-User "a b"; proxy_set_header Host Other.test:80; }
        location /http2/ { proxy_pass http://127.0.0.1:\(inner)/head/; proxy_http_version 2; proxy_set_header X-User alice; }
        location /none/ { proxy_pass http://127.0.0.1:\(inner); message_signature off; }
        location /impossible/ { proxy_pass http://127.0.0.1:\(inner); proxy_set_header X-User ""; }
      }
      server {
        listen 127.0.0.1:\(inner); http2 on;
        message_signature verify; message_signature_key k \(algorithm.rawValue) public.pem; \(covered)
        message_signature_nonce on;
        location / { proxy_pass http://127.0.0.1:\(upstream.port); }
      }
      """)
    func ask(_ path: String, _ words: [String] = [], input: [UInt8]? = nil) async throws -> CurlResult {
      try await scene.curl(words + ["http://127.0.0.1:\(port)\(path)"], input: input)
    }
    #expect(try await ask("/head/x?a=b%20c").status == 200)
    for count in [5, 200_000] {
      let body = Pattern.bytes(count)
      let answer = try await ask("/echo", ["-X", "POST", "-H", "Content-Digest: sha-256=:AAAA:"], input: body)
      #expect(answer.status == 200 && Pattern.equal(answer.body, body))
    }
    #expect(try await ask("/moved/x?y=1", ["-H", "X-User: mallory"]).status == 200)
    #expect(try await ask("/http2/x").status == 200)
    #expect(try await ask("/none/x").status == 401)
    #expect(try await ask("/impossible/x", ["-H", "X-User: mallory"]).status == 500)
    let log = daemon.errorLog
    #expect(log.contains("can't be signed: it would cover the component \"x-user\""))
    // Signatures of others pass, and one under the same label is replaced.
    let kept = try await ask(
      "/head",
      [
        "-H", "Signature-Input: sig1=();keyid=\"x\", other=();keyid=\"y\"", "-H",
        "Signature: sig1=:AAAA:, other=:AAAB:",
      ])
    // The inner server has no label, so it refuses two.
    #expect(kept.status == 401 && daemon.errorLog.contains("it has 2 signatures"))
  }

  @Test func `keep the signatures of others`() async throws {
    let scene = try Scene.ofTest()
    try await key(scene, .ed25519)
    let upstream = try ScriptedUpstream.echo(scene)
    let proxy = try await PlainProxy(
      scene, to: upstream.port,
      location: "message_signature sign; message_signature_key k ed25519 private.pem; message_signature_label mine;")
    let answer = try await proxy.curl(
      "/head",
      [
        "-H", "Signature-Input: mine=();keyid=\"x\", other=(\"date\" )", "-H", "Signature: mine=:AAAA:, other=:AAAB:",
        "-H", "X_Signature: x",
      ])
    let lines = answer.text.split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) }
    #expect(lines.count { $0.lowercased().hasPrefix("signature-input:") } == 1)
    #expect(lines.count { $0.lowercased().hasPrefix("signature:") } == 1)
    #expect(answer.text.contains("Signature-Input: other=(\"date\"), mine=(\"@method\" \"@target-uri\");created="))
    #expect(answer.text.contains("Signature: other=:AAAB:, mine=:") && !answer.text.contains(":AAAA:"))
  }

  @Test(
    .enabled("http-message-signatures of PyPI is not installed: Tests/run installs it") {
      await Scene.succeeds(PythonPackages.python, ["-c", "import http_message_signatures"])
    }, arguments: SignatureAlgorithm.allCases)
  func `are what PyPI's http-message-signatures verifies, and what it signs gets in`(algorithm: SignatureAlgorithm)
    async throws
  {
    let scene = try Scene.ofTest()
    try await key(scene, algorithm)
    let upstream = try ScriptedUpstream.echo(scene)
    try scene.write("requests_like.py", text: SignaturePython.shared)
    let sign = try scene.write("sign.py", text: SignaturePython.sign)
    let verify = try scene.write("verify.py", text: SignaturePython.verify)
    let port = try scene.port()
    let daemon = try await Sallyport.serve(
      scene,
      """
      server {
        listen 127.0.0.1:\(port);
        location / { proxy_pass http://127.0.0.1:\(upstream.port); message_signature verify; message_signature_key k \(algorithm.rawValue) public.pem; }
        location /head { proxy_pass http://127.0.0.1:\(upstream.port); message_signature sign; message_signature_key k \(algorithm.rawValue) private.pem; }
      }
      """)
    // Python signs.
    for (method, body) in [("GET", ""), ("POST", "hello world")] {
      let url = "http://127.0.0.1:\(port)/echo?a=b%20c"
      let made = try await scene.run(
        PythonPackages.python, [sign, algorithm.rawValue, scene.path("private.pem"), url, method, body])
      #expect(made.status == 0, "\(made.everything)")
      let words = made.text.split(separator: "\n").flatMap { ["-H", String($0)] }
      let answer = try await scene.curl(["-X", method] + words + [url], input: body.isEmpty ? nil : Array(body.utf8))
      #expect(answer.status == 200, "\(made.text) \(daemon.errorLog)")
      let refused = try await scene.curl(
        ["-X", method] + words + [url + "x"], input: body.isEmpty ? nil : Array(body.utf8))
      #expect(refused.status == 401)
    }
    // Python verifies what the upstream gets.
    for (method, body) in [("GET", ""), ("POST", "hello world")] {
      let answer = try await scene.curl(
        ["-X", method, "http://127.0.0.1:\(port)/head?a=1"], input: body.isEmpty ? nil : Array(body.utf8))
      try scene.write("head.txt", answer.body)
      try scene.write("body.txt", text: body)
      let url = "http://127.0.0.1:\(upstream.port)/head?a=1"
      let words = [verify, algorithm.rawValue, scene.path("public.pem")]
      let result = try await scene.run(
        PythonPackages.python, words + [url, method, scene.path("head.txt"), scene.path("body.txt")])
      #expect(result.status == 0 && result.text.hasPrefix("valid k"), "\(result.everything)\n\(answer.text)")
      let other = try await scene.run(
        PythonPackages.python, words + [url + "x", method, scene.path("head.txt"), scene.path("body.txt")])
      #expect(other.status != 0)
    }
  }
}

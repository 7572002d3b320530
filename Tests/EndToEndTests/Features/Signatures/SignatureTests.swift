import Crypto
import Foundation
import Glibc
import Signature
import TestSupport
import Testing

@Suite(.stagedOverBoth) struct `Signed requests` {
  @Test func `get in, and the upstream learns the key; all others get one 401`() async throws {
    let scene = try Scene.ofTest(), cast = try SignatureCast(scene)
    let upstream = try ScriptedUpstream.echo(scene)
    let proxy = try await PlainProxy(
      scene, to: upstream.port,
      location: cast.lines(
        "proxy_set_header X-Key $message_signature_keyid; proxy_set_header X-Verdict $message_signature_verdict;"))
    let admitted = try await proxy.signed(cast, "GET", "/head/x?a=1")
    #expect(
      admitted.status == 200 && admitted.text.contains("X-Key: k") && admitted.text.contains("X-Verdict: SUCCESS"))
    let body = Array("hello".utf8)
    let posted = try await proxy.signed(cast, "POST", "/head", body: body)
    #expect(posted.status == 200)

    let good = try cast.sign("POST", proxy.port, "/pay", body: body)
    func changed(_ from: String, _ to: String) -> [String] { good.map { $0.replacing(from, with: to) } }
    let faults: [(String, [String], [UInt8], String)] = [
      ("/pay", ["-X", "POST"], body, "it has no Signature-Input"),
      ("/pay", good, Array("hallo".utf8), "its Content-Digest does not match the body"),
      ("/pay2", good, body, "it is not authentic"),
      ("/pay", changed("POST", "PUT"), body, "it is not authentic"),
      ("/pay", changed("keyid=\"k\"", "keyid=\"x\""), body, "the keyid \"x\" is unknown"),
      ("/pay", changed("hmac-sha256", "ed25519"), body, "its alg is"),
      ("/pay", changed("\"@method\" ", ""), body, "it does not cover"),
      ("/pay", changed("sig1=:", "sig1=:AAAA"), body, "it is not authentic"),
      ("/pay", good + ["-H", "Signature-Input: sig1=()"], body, "has the key"),
      ("/pay", good + ["-H", "Signature-Input: b=()"], body, "it has 2 signatures"),
      ("/pay", good + ["-H", "Content-Digest: x=1"], body, "it is not authentic"),
      ("/pay", try cast.sign("POST", proxy.port, "/pay", body: body, secondsAgo: 302), body, "s ago"),
      ("/pay", try cast.sign("POST", proxy.port, "/pay", body: body, secondsAgo: -60), body, "s in the future"),
      ("/pay", try cast.sign("POST", proxy.port, "/pay", body: []), body, "it does not cover"),
    ]
    let first = try await proxy.curl("/pay")
    #expect(first.status == 401)
    #expect(first["Accept-Signature"] == "sig1=(\"@method\" \"@target-uri\" \"content-digest\");created")
    for (path, words, input, reason) in faults {
      let answer = try await proxy.curl(path, words, input: input)
      #expect(answer.status == 401 && answer.body == first.body, "\(reason)")
      #expect(answer["Accept-Signature"] == first["Accept-Signature"])
      let log = proxy.daemon.errorLog
      #expect(log.contains("message signature refused: ") && log.contains(reason), "\(reason)\n\(log)")
    }
    #expect(upstream.requests("POST") == 1 && upstream.requests("PUT") == 0)
  }

  @Test func `no byte of a body goes to an upstream before its digest is known`() async throws {
    let scene = try Scene.ofTest(), cast = try SignatureCast(scene)
    let upstream = try ScriptedUpstream.echo(scene)
    let proxy = try await PlainProxy(
      scene, to: upstream.port,
      location: cast.lines("client_body_buffer_size 1k; proxy_request_buffering off; client_max_body_size 1m;"))
    let large = Pattern.bytes(300_000)
    let sent = try await proxy.signed(cast, "POST", "/echo", body: large)
    #expect(sent.status == 200 && Pattern.equal(sent.body, large))
    // In chunks, or without a length.
    let words = try cast.sign("POST", proxy.port, "/echo", body: large) + ["-H", "Transfer-Encoding: chunked"]
    let chunked = try await proxy.curl("/echo", scene.speech == .http1 ? words : Array(words.dropLast(2)), input: large)
    #expect(chunked.status == 200 && Pattern.equal(chunked.body, large))
    var other = large
    other[299_999] ^= 1
    #expect(
      try await proxy.curl("/echo", cast.sign("POST", proxy.port, "/echo", body: large), input: other).status == 401)
    let tooLarge = Pattern.bytes(1_100_000)
    #expect(try await proxy.signed(cast, "POST", "/echo", body: tooLarge).status == 413)
    #expect(upstream.requests("POST") == 2)
    // A digest of nothing, for a request without a body.
    let empty = try cast.sign(
      "GET", proxy.port, "/head",
      fields: ["Content-Digest: sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:"],
      components: ["@method", "@target-uri", "content-digest;sf"])
    #expect(try await proxy.curl("/head", empty).status == 200)
  }

  /// `client_body_temp_path` is the only folder that the sandbox lets bodies go to.
  @Test func `a signed body goes to a file where the location says`() async throws {
    let scene = try Scene.ofTest(), cast = try SignatureCast(scene)
    let upstream = try ScriptedUpstream.echo(scene)
    let folder = scene.folder + "/bodies"
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    let proxy = try await PlainProxy(
      scene, to: upstream.port,
      location: cast.lines(
        "client_body_in_file_only clean; client_body_temp_path \(folder); add_header X-File $request_body_file;"))
    let sent = try await proxy.signed(cast, "POST", "/head", body: Pattern.bytes(300_000))
    #expect(sent.status == 200 && sent["x-file"]?.hasPrefix(folder) == true, "\(sent.heads)")
  }

  @Test func `a nonce is accepted once, by all workers, and after a reload`() async throws {
    let scene = try Scene.ofTest(), cast = try SignatureCast(scene)
    let upstream = try ScriptedUpstream.echo(scene)
    let lines = cast.lines("message_signature_nonce on;")
    let proxy = try await PlainProxy(scene, to: upstream.port, location: lines)
    #expect(try await proxy.signed(cast).status == 401)
    let words = try cast.sign("GET", proxy.port, "/head", nonce: true)
    #expect(try await proxy.curl("/head", words).status == 200)
    for _ in 0..<12 { #expect(try await proxy.curl("/head", words).status == 401) }
    proxy.daemon.signal(SIGHUP)
    try await proxy.daemon.logged("reconfigured: generation 2")
    for _ in 0..<12 { #expect(try await proxy.curl("/head", words).status == 401) }
    #expect(try await proxy.signed(cast, nonce: true).status == 200)
    // A request with another body uses up no nonce.
    let body = Array("hello".utf8)
    let posted = try cast.sign("POST", proxy.port, "/echo", body: body, nonce: true)
    #expect(try await proxy.curl("/echo", posted, input: Array("hallo".utf8)).status == 401)
    #expect(try await proxy.curl("/echo", posted, input: body).status == 200)
    #expect(try await proxy.curl("/echo", posted, input: body).status == 401)
    #expect(proxy.daemon.errorLog.contains("its nonce was seen before"))
  }

  @Test func `a nonce that was dropped as too old is not accepted again after a reload that raises the age`()
    async throws
  {
    let scene = try Scene.ofTest(), cast = try SignatureCast(scene)
    let upstream = try ScriptedUpstream.echo(scene), port = try scene.port()
    func file(_ age: String) -> String {
      configuration(
        """
        server { listen 127.0.0.1:\(port); location / { proxy_pass http://127.0.0.1:\(upstream.port);
          \(cast.lines("message_signature_nonce on; message_signature_max_age \(age) skew=0;")) } }
        """)
    }
    let daemon = try await Sallyport.start(scene, file("1s"))
    func ask(_ words: [String]) async throws -> Int {
      try await scene.curl(words + ["http://127.0.0.1:\(port)/head"]).status
    }
    let words = try cast.sign("GET", port, "/head", nonce: true)
    #expect(try await ask(words) == 200)
    // Each new nonce drops the old ones, three seconds after they came at the latest.
    try await until("the nonce to be forgotten") {
      _ = try await ask(cast.sign("GET", port, "/head", nonce: true))
      _ = try await ask(words)
      return daemon.errorLog.contains("4 s ago")
    }
    try daemon.rewrite(file("1h"))
    daemon.signal(SIGHUP)
    try await daemon.logged("reconfigured: generation 2")
    #expect(try await ask(words) == 401)
    #expect(daemon.errorLog.contains("older than the nonces that are remembered"))
    #expect(try await ask(cast.sign("GET", port, "/head", nonce: true)) == 200)
  }

  @Test func `a key file that changes is taken up, and a broken one is not`() async throws {
    let scene = try Scene.ofTest(), cast = try SignatureCast(scene)
    let upstream = try ScriptedUpstream.echo(scene)
    let proxy = try await PlainProxy(scene, to: upstream.port, location: cast.lines())
    #expect(try await proxy.signed(cast).status == 200)
    try scene.write("k.key", text: "abcd")
    try await proxy.daemon.logged("2 bytes (as hexadecimal), but a MAC key has 16 or more")
    #expect(try await proxy.signed(cast).status == 200)
    try scene.write("k.key", text: String(repeating: "ab", count: 32))
    // The broken file has made a generation, too, with its former content.
    try await until("the other key to count") { try await proxy.signed(cast).status == 401 }
    try scene.write("k.key", text: SignatureCast.secret)
    try await until("the first key to count again") { try await proxy.signed(cast).status == 200 }
    _ = unlink(scene.path("k.key"))
    proxy.daemon.signal(SIGHUP)
    try await proxy.daemon.logged("cannot be opened: No such file")
    #expect(try await proxy.signed(cast).status == 200)
  }

  @Test func `neither satisfy any nor an internal redirect goes around the signature`() async throws {
    let scene = try Scene.ofTest(), cast = try SignatureCast(scene)
    let upstream = try ScriptedUpstream.echo(scene)
    let proxy = try await PlainProxy(
      scene, to: upstream.port, location: cast.lines("satisfy any; allow all; message_signature_nonce on;"),
      server: """
        location /open { rewrite ^/open(.*) /head$1 last; }
        location /fails { proxy_pass http://127.0.0.1:1; error_page 502 = @fallback; \(cast.lines("message_signature_nonce on;")) }
        location @fallback { proxy_pass http://127.0.0.1:\(upstream.port); \(cast.lines("message_signature_nonce on; message_signature_max_age 1m;")) }
        location /unsigned { proxy_pass http://127.0.0.1:1; error_page 502 = @fallback; }
        """)
    #expect(try await proxy.curl("/head").status == 401)
    #expect(try await proxy.curl("/open").status == 401)
    #expect(try await proxy.curl("/open", cast.sign("GET", proxy.port, "/open", nonce: true)).status == 200)
    #expect(try await proxy.curl("/unsigned").status == 401)
    // The second location has other settings, and judges again, but the nonce is this request's own.
    let body = Array("hello".utf8)
    let words = try cast.sign("POST", proxy.port, "/fails", body: body, nonce: true)
    #expect(try await proxy.curl("/fails", words, input: body).text == "hello")
    #expect(try await proxy.curl("/fails", words, input: body).status == 401)
  }

  /// An envelope stays in memory, whatever block of the location the request goes through.
  @Test func `are opened in an if block, too, when they are larger than a body in memory`() async throws {
    let scene = try Scene.ofTest(), cast = try SignatureCast(scene)
    let envelope = try EnvelopeCast(scene, .aes256GCM, "none")
    let upstream = try ScriptedUpstream.echo(scene)
    let proxy = try await PlainProxy(
      scene, to: upstream.port,
      location: cast.lines() + envelope.lines() + " client_body_buffer_size 1k; if ($arg_a) { set $b 1; }")
    let plain = Pattern.bytes(100_000)
    for target in ["/echo", "/echo?a=1"] {
      let answer = try await proxy.signed(cast, "POST", target, body: try envelope.seal(plain))
      #expect(answer.status == 200, "\(target): \(answer.heads)")
      #expect(try Pattern.equal(envelope.open(answer.body), plain), "\(target)")
    }
  }

  @Test func `are opened when their bodies are message envelopes`() async throws {
    let scene = try Scene.ofTest(), cast = try SignatureCast(scene)
    let envelope = try EnvelopeCast(scene, .aes256GCM, "none")
    let upstream = try ScriptedUpstream.echo(scene)
    let proxy = try await PlainProxy(
      scene, to: upstream.port, location: cast.lines() + envelope.lines("message_envelope_max_size 10k;"))
    let sealed = try envelope.seal("secret")
    let answer = try await proxy.signed(cast, "POST", "/echo", body: sealed)
    let opened = try envelope.openText(answer.body)
    #expect(answer.status == 200 && opened == "secret")
    let other = try envelope.seal("other")
    #expect(
      try await proxy.curl("/echo", cast.sign("POST", proxy.port, "/echo", body: sealed), input: other).status == 401)
    #expect(try await proxy.signed(cast, "POST", "/echo", body: Array("no envelope".utf8)).status == 400)
    #expect(try await proxy.signed(cast, "POST", "/echo", body: Pattern.bytes(20_000)).status == 413)
    #expect(upstream.requests("POST") == 1)
  }

  @Test(.ofHTTP1) func `a field of any size is refused like every other`() async throws {
    let scene = try Scene.ofTest(), cast = try SignatureCast(scene)
    let upstream = try ScriptedUpstream.echo(scene)
    let proxy = try await PlainProxy(
      scene, to: upstream.port, location: cast.lines(), http: "large_client_header_buffers 4 128k;")
    for text in [
      String(repeating: "a=(\"x\"), ", count: 7000), "a=(" + String(repeating: "\"x\" ", count: 16_000) + ")",
      "a=\"" + String(repeating: "\\\\", count: 32_000), String(repeating: "(", count: 65_000),
    ] {
      let answer = try await proxy.talk { wire in
        try wire.write("GET /head HTTP/1.1\r\nHost: h\r\nSignature: a=:AAAA:\r\nSignature-Input: \(text)\r\n\r\n")
        return try wire.response()
      }
      #expect(answer.status == 401)
    }
    #expect(proxy.daemon.errorLog.contains("its Signature-Input is longer than 32768 bytes"))
    #expect(try await proxy.signed(cast).status == 200)
  }

  @Test func `can cover the certificate of the connection, and nobody else's`() async throws {
    let scene = try Scene.ofTest(), files = try Cast(scene), cast = try SignatureCast(scene)
    let proxy = try await MutualProxy(
      scene, verify: "optional",
      location: cast.lines("message_signature_components @method @target-uri client-cert;"))
    let der = try #require(Data(base64Encoded: PEMText.body(scene.text("alice.pem"))))
    let covered = ["@method", "@target-uri", "client-cert"]
    func ask(_ field: String, sends: Bool, as name: String?) async throws -> CurlResult {
      let words = try cast.sign(
        "GET", proxy.port, "/head", fields: [field], components: covered, isTLS: true, host: "localhost")
      var sent = words
      if !sends, let index = words.firstIndex(where: { $0.hasPrefix("Client-Cert") }) {
        sent.removeSubrange((index - 1)...index)
      }
      let identity = name.map { ["--cert", scene.path("\($0).pem"), "--key", scene.path("\($0).key")] } ?? []
      return try await scene.curl(files.to(proxy.port) + identity + sent + ["https://localhost:\(proxy.port)/head"])
    }
    _ = try scene.identity("bob", files.authority.client())
    let alice = "Client-Cert: :\(der.base64EncodedString()):"
    #expect(try await ask(alice, sends: true, as: "alice").status == 200)
    #expect(try await ask(alice, sends: false, as: "alice").status == 200)
    #expect(try await ask(alice, sends: true, as: "bob").status == 401)
    #expect(try await ask(alice, sends: false, as: "bob").status == 401)
    #expect(try await ask(alice, sends: true, as: nil).status == 401)
    #expect(proxy.daemon.errorLog.contains("its Client-Cert is not the certificate of the connection"))
  }
}

enum PEMText {
  /// The Base64 of the first block.
  static func body(_ text: String) -> String {
    text.split(separator: "\n").drop { !$0.hasPrefix("-----BEGIN CERTIFICATE") }.dropFirst().prefix {
      !$0.hasPrefix("-----")
    }.joined()
  }
}

import Crypto
import Envelope
import Foundation
import Glibc
import TestSupport
import Testing

@Suite(.stagedOverBoth) struct `Message envelopes` {
  /// An upstream that also says how it was asked, and answers what no echo does.
  private static func upstream(_ scene: Scene) throws -> ScriptedUpstream {
    try ScriptedUpstream(scene) { wire, _ in
      try wire.serve { request in
        switch request.target {
        case "/tagged":
          try wire.answer(
            "plain text", status: "500 Broken",
            fields: [
              "ETag: \"x\"", "Content-Type: text/plain", "Content-Encoding: identity", "Digest: sha-256=x",
              "Content-Digest: x", "Repr-Digest: x", "Content-MD5: x", "Accept-Ranges: bytes", "X-Kept: yes",
            ])
        case "/204": try wire.write("HTTP/1.1 204 No Content\r\nETag: \"x\"\r\n\r\n")
        case "/304": try wire.write("HTTP/1.1 304 Not Modified\r\nContent-Length: 77\r\n\r\n")
        case "/half":
          try wire.write("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf of the secret")
          throw WireError.silent
        case "/switch": try wire.write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n")
        case "/told": try wire.answer(request.head + "\n\n" + request.text)
        default: try wire.echo(request)
        }
      }
    }
  }

  @Test(arguments: [
    (Cipher.aes128CBC, "hmac-sha1 payload"), (.aes256CBC, "hmac-sha256 payload"), (.aes256GCM, "none"),
    (.aes256GCM, "hmac-sha256 payload"), (.aes256CBC, "hmac-sha256 fields to n"),
  ])
  func `requests are opened and answers sealed, over one connection`(cipher: Cipher, mac: String) async throws {
    let scene = try Scene.ofTest(), cast = try EnvelopeCast(scene, cipher, mac)
    let upstream = try Self.upstream(scene)
    let proxy = try await PlainProxy(scene, to: upstream.port, location: cast.lines(), kept: true)
    let answers = try await scene.ask(proxy.port) { client in
      try (0..<20).map { number in
        let plain = Array(
          #"{"to":"\u00e9","n":\#(number),"more":"\#(String(repeating: "x", count: number * 997))"}"#.utf8)
        return (plain, try client.post("/echo", cast.seal(plain)))
      }
    }
    for (plain, answer) in answers {
      #expect(answer.status == 200 && answer["Content-Type"] == "application/json")
      #expect(answer["Content-Length"] == "\(answer.body.count)")
      #expect(try cast.open(answer.body) == plain)
    }
    #expect(upstream.connections == 1)
    #expect(!proxy.daemon.errorLog.contains("refused"))
  }

  @Test(.ofHTTP1) func `Python and openssl seal what is opened, and open what is sealed`() async throws {
    let scene = try Scene.ofTest(), cast = try EnvelopeCast(scene)
    let upstream = try Self.upstream(scene)
    let proxy = try await PlainProxy(scene, to: upstream.port, location: cast.lines())
    let script = try scene.write("client.py", text: Self.client)
    for tool in ["python", "openssl"] {
      let result = try await scene.run(
        "python3", [script, tool, "\(proxy.port)", scene.path(cast.key), scene.path(cast.macKey)])
      #expect(result.status == 0 && result.text == "opened 50\n", "\(result.everything)")
    }
  }

  @Test(.ofHTTP1) func `the upstream gets plain JSON of its length, and no wish for another form`() async throws {
    let scene = try Scene.ofTest(), cast = try EnvelopeCast(scene)
    let upstream = try Self.upstream(scene)
    let proxy = try await PlainProxy(scene, to: upstream.port, location: cast.lines(), kept: true)
    let sealed = try cast.seal(#"{"a":1}"#)
    let told = try await proxy.talk { wire in
      let fields = [
        "Content-Type: application/x-envelope", "Accept-Encoding: gzip", "Range: bytes=0-1", "If-Range: \"x\"",
        "Content-Digest: x", "accept_encoding: br", "X-Kept: yes",
      ]
      return try [
        wire.post(sealed, to: "/told", fields: fields),
        { () throws -> HTTPMessage in
          try wire.write("GET /told HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip\r\n\r\n")
          return try wire.response()
        }(),
        { () throws -> HTTPMessage in
          // Chunked, in pieces, and with its trailers.
          try wire.write("POST /told HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
          for byte in sealed { try wire.write(Array("1\r\n".utf8) + [byte, 13, 10]) }
          try wire.write("0\r\nX-Trailer: x\r\n\r\n")
          return try wire.response()
        }(),
      ]
    }.map { try cast.openText($0.body) }
    for text in [told[0], told[2]] {
      #expect(text.hasSuffix("\n\n{\"a\":1}"))
      #expect(text.contains("Content-Length: 7") && text.contains("Content-Type: application/json"))
      #expect(!text.lowercased().contains("transfer-encoding") && !text.contains("X-Trailer"))
    }
    #expect(told[0].contains("X-Kept: yes"))
    for text in told {
      for name in ["accept-encoding", "accept_encoding", "range", "digest", "x-envelope"] {
        #expect(!text.lowercased().contains("\n\(name)"), "\(name) in \(text)")
      }
    }
    #expect(!told[1].contains("Content-Type"))
  }

  @Test func `answers are sealed whatever their status, and empty ones stay empty`() async throws {
    let scene = try Scene.ofTest(), cast = try EnvelopeCast(scene, .aes256GCM, "none")
    let upstream = try Self.upstream(scene)
    let proxy = try await PlainProxy(scene, to: upstream.port, location: cast.lines(), kept: true)
    let paths = [
      ("GET", "/tagged"), ("HEAD", "/bytes/100"), ("GET", "/204"), ("GET", "/304"), ("GET", "/bytes/0"),
      ("GET", "/chunked/200000"), ("GET", "/chunked/0"), ("HEAD", "/tagged"),
    ]
    let answers = try await scene.ask(proxy.port) { client in
      try paths.map { method, path in
        try client.begin(method, path, [("TE", "trailers")])
        return try client.response()
      }
    }
    #expect(answers[0].status == 500)
    // HTTP/2 has no reason phrase.
    #expect(answers[0].startLine.hasSuffix("Broken") == (scene.speech == .http1))
    #expect(try cast.openText(answers[0].body) == "plain text")
    #expect(answers[0].all("Content-Type") == ["application/json"] && answers[0]["X-Kept"] == "yes")
    for answer in answers {
      for name in [
        "ETag", "Content-Encoding", "Digest", "Content-Digest", "Repr-Digest", "Content-MD5", "Accept-Ranges",
      ] {
        #expect(answer[name] == nil, "\(name)")
      }
    }
    #expect(answers[1].status == 200 && answers[1]["Content-Length"] == nil)
    #expect(answers[1]["Content-Type"] == "application/json")
    #expect(answers[2].status == 204 && answers[2]["Content-Type"] == nil)
    #expect(answers[3].status == 304 && answers[3]["Content-Length"] == nil)
    for empty in [answers[4], answers[6]] { #expect(empty.status == 200 && empty["Content-Length"] == "0") }
    #expect(Pattern.equal(try cast.open(answers[5].body), Pattern.bytes(200_000)))
    #expect(!answers[5].isChunked && answers[5].trailers.isEmpty)
    let text = proxy.daemon.errorLog
    #expect(!text.contains("[error]") && !text.contains("[alert]"), "\(text)")
  }

  @Test(.ofHTTP1) func `every fault has the same answer, and the log its reason`() async throws {
    let scene = try Scene.ofTest(), cast = try EnvelopeCast(scene)
    let upstream = try Self.upstream(scene)
    let proxy = try await PlainProxy(
      scene, to: upstream.port, location: cast.lines("message_envelope_replay_window 1h;") + PlainProxy.kept)
    let good = String(decoding: try cast.seal(#"{"a":1}"#), as: UTF8.self)
    let other = String(decoding: try EnvelopeCast(scene, name: "other").seal("x"), as: UTF8.self)
    let padded = good.replacing("\"payload\":\"", with: "\"payload\":\"AAAAAAAAAAAAAAAAAAAAA")
    let faults: [(String, String, [String])] = [
      ("not json", "it is no JSON object", []), ("{}", "it has no \"iv\"", []),
      (good.replacing("{", with: #"{"iv":"","#), "it has \"iv\" twice", []),
      (good.replacing("\"iv\":\"", with: "\"iv\":\"AAAA"), "its \"iv\" has a wrong size", []),
      (padded, "its \"payload\" is no canonical base64", []),
      (good.replacing("\"mac\":\"", with: "\"mac\":\"*"), "its \"mac\" is no canonical base64", []),
      (try mutatedPadding(cast), "its padding is wrong", []), (try mutatedCode(good), "it is not authentic", []),
      (other, "its padding is wrong", []), (good, "its IV was seen before", []),
      (good, "an upgrade is asked for", ["Upgrade: websocket", "Connection: upgrade"]),
    ]
    let answers = try await proxy.talk { wire in
      #expect(try wire.post(Array(good.utf8)).status == 200)
      return try faults.map { body, _, fields in
        let wire = try Wire.dial(port: proxy.port)
        try wire.write(
          (["POST /echo HTTP/1.1", "Host: h", "Content-Length: \(body.utf8.count)"] + fields).joined(separator: "\r\n")
            + "\r\n\r\n\(body)")
        return try wire.readToEnd()
      }
    }
    // Seen before, one bit of each changed.
    let mutated = try await proxy.talk { _ in
      try (0..<300).map { number in
        var body = Array(good.utf8)
        body[number * 7 % body.count] ^= 1 << UInt8(number % 8)
        let wire = try Wire.dial(port: proxy.port)
        try wire.write(Array("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: \(body.count)\r\n\r\n".utf8) + body)
        return try wire.readToEnd()
      }
    }
    let text = (answers + mutated).map {
      String(decoding: $0, as: UTF8.self).split(separator: "\r\n").filter { !$0.hasPrefix("Date:") }
    }
    #expect(text[0].first == "HTTP/1.1 400 Bad Request")
    for (index, answer) in text.enumerated() {
      #expect(answer == text[0], "\(index < faults.count ? faults[index].1 : "a mutation")")
    }
    let log = proxy.daemon.errorLog
    for (_, reason, _) in faults where reason != "its padding is wrong" {
      #expect(log.contains("message envelope refused: \(reason)"), "\(reason)")
    }
    #expect(log.contains("message envelope refused: its padding is wrong"))
    #expect(upstream.requests("POST") == 1)
  }

  /// A text that ends in a byte which is no padding, under a code of nothing.
  private func mutatedPadding(_ cast: EnvelopeCast) throws -> String {
    // The last byte of a text of 32 is that of its padding, which the block before it is added to.
    let text = String(decoding: try cast.seal([UInt8](repeating: 7, count: 31)), as: UTF8.self)
    let start = try #require(text.firstRange(of: "\"payload\":\"")).upperBound
    var payload = try #require(Data(base64Encoded: String(text[start...].dropLast(2))))
    payload[15] ^= 0x80
    return text[..<start] + payload.base64EncodedString() + "\"}"
  }

  private func mutatedCode(_ text: String) throws -> String {
    let start = try #require(text.firstRange(of: "\"mac\":\"")).upperBound
    return text[..<start] + (text[start] == "A" ? "B" : "A") + text[text.index(after: start)...]
  }

  @Test func `a replay is refused by every worker, and after a reload`() async throws {
    let scene = try Scene.ofTest(), cast = try EnvelopeCast(scene)
    let upstream = try Self.upstream(scene)
    let lines = cast.lines("message_envelope_replay_window 1h;")
    let proxy = try await PlainProxy(
      scene, to: upstream.port, location: lines,
      server: "location /other { proxy_pass http://127.0.0.1:\(upstream.port); \(lines) }")
    let sealed = try cast.seal("once")
    let before = try await proxy.curl("/echo", input: sealed)
    #expect(try cast.openText(before.body) == "once")
    // Connections go to either worker.
    for _ in 0..<12 { #expect(try await proxy.curl("/echo", input: sealed).status == 400) }
    proxy.daemon.signal(SIGHUP)
    try await proxy.daemon.logged("reconfigured: generation 2")
    for _ in 0..<12 { #expect(try await proxy.curl("/echo", input: sealed).status == 400) }
    // Whoever has the keys could send it to every location with them.
    #expect(try await proxy.curl("/other", input: sealed).status == 400)
    #expect(try await proxy.curl("/other", input: cast.seal("twice")).status == 200)
    #expect(upstream.requests("POST") == 2)
  }

  @Test func `the previous keys open until they are taken out, without a signal`() async throws {
    let scene = try Scene.ofTest()
    let (old, new) = (try EnvelopeCast(scene, name: "old"), try EnvelopeCast(scene, name: "new"))
    let upstream = try Self.upstream(scene)
    let proxy = try await PlainProxy(
      scene, to: upstream.port, location: new.lines(keys: "new.key old.key", macKeys: "new.mac old.mac"))
    for cast in [old, new] {
      let answer = try await proxy.curl("/echo", input: cast.seal("x"))
      #expect(try new.openText(answer.body) == "x")
    }
    // Half a pair is taken up as it is; the keys of one file are checked.
    try scene.write("old.key", text: "abcd")
    try await proxy.daemon.logged("2 bytes (as hexadecimal), but a key of this cipher has 32")
    #expect(try await proxy.curl("/echo", input: old.seal("x")).status == 200)
    try scene.write("old.key", text: String(repeating: "ab", count: 32))
    // The broken file has made a generation, too, with its former content.
    try await until("the old keys to be out") {
      try await proxy.curl("/echo", input: old.seal("x")).status == 400
    }
    #expect(try await proxy.curl("/echo", input: new.seal("x")).status == 200)
  }

  @Test func `sizes have bounds both ways`() async throws {
    let scene = try Scene.ofTest(), cast = try EnvelopeCast(scene)
    let upstream = try Self.upstream(scene)
    let proxy = try await PlainProxy(
      scene, to: upstream.port, location: cast.lines("message_envelope_max_size 10000;") + PlainProxy.kept)
    let large = try cast.seal([UInt8](repeating: 7, count: 8000))
    #expect(large.count > 10_000)
    for isOpen in [false, true] {
      #expect(try await scene.ask(proxy.port) { try $0.post("/echo", large, isOpen: isOpen).status } == 413)
    }
    #expect(try await proxy.curl("/echo", input: cast.seal([UInt8](repeating: 7, count: 7000))).status == 200)
    #expect(upstream.requests("POST") == 1)
    for path in ["/bytes/10001", "/chunked/10001", "/half", "/switch"] {
      let answer = try await proxy.curl(path)
      #expect(answer.status == 502 && !answer.text.contains("half"), "\(path)")
      #expect(answer["Content-Type"] == "text/html")
    }
    let whole = try await proxy.curl("/bytes/10000")
    #expect(Pattern.equal(try cast.open(whole.body), Pattern.bytes(10_000)))
  }

  @Test(.ofHTTP1) func `envelopes that are on their way leave the worker its memory`() async throws {
    let scene = try Scene.ofTest(), cast = try EnvelopeCast(scene)
    let upstream = try Self.upstream(scene), port = try scene.port()
    let daemon = try await Sallyport.start(
      scene,
      configuration(
        """
        client_max_body_size 64m;
        server {
          listen 127.0.0.1:\(port);
          location / { proxy_pass http://127.0.0.1:\(upstream.port); \(cast.lines("message_envelope_max_size 60m;")) }
        }
        """
      ).replacing("worker_processes 2", with: "worker_processes 1"))
    let small = try cast.seal("x"), large = try cast.seal([UInt8](repeating: 7, count: 100_000))
    let statuses = try await scene.talk(port) { stalled in
      func post(_ body: [UInt8]) throws -> Int {
        let wire = try Wire.dial(port: port)
        defer { wire.close() }
        return try wire.post(body).status
      }
      var statuses = [try post(large)]
      // More than the worker's bound and all that sockets hold: most of it has been read when it is written.
      try stalled.write("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: \(50 << 20)\r\n\r\n")
      try stalled.write([UInt8](repeating: 0x20, count: 49 << 20))
      statuses += [try post(large), try post(small)]
      // It was not refused itself: what it takes comes back when it leaves.
      stalled.close()
      var last = 503
      for _ in 0..<1000 where last == 503 { last = try post(large) }
      return statuses + [last]
    }
    #expect(statuses == [200, 503, 200, 200])
    try await daemon.logged("[error]", "take all the memory that a worker has for them")
  }

  @Test func `an answer that comes back is no request`() async throws {
    let scene = try Scene.ofTest(), cast = try EnvelopeCast(scene, .aes256GCM, "none")
    let upstream = try Self.upstream(scene)
    let proxy = try await PlainProxy(
      scene, to: upstream.port, location: cast.lines("message_envelope_replay_window 1h;"))
    let answer = try await proxy.curl("/bytes/100")
    #expect(answer.status == 200)
    // Of either worker.
    for _ in 0..<6 { #expect(try await proxy.curl("/echo", input: answer.body).status == 400) }
    #expect(upstream.requests("POST") == 0)
  }

  @Test func `pages of our own are not sealed, and what was opened goes nowhere else`() async throws {
    let scene = try Scene.ofTest(), cast = try EnvelopeCast(scene)
    let upstream = try Self.upstream(scene), dead = try scene.port()
    let other = try EnvelopeCast(scene, name: "other")
    let proxy = try await PlainProxy(
      scene, to: upstream.port, location: "",
      server: """
        location /sealed { proxy_pass http://127.0.0.1:\(dead); error_page 502 @sealed; \(other.lines()) }
        location @sealed { proxy_pass http://127.0.0.1:\(upstream.port); \(cast.lines()) }
        location /same { proxy_pass http://127.0.0.1:\(dead); error_page 502 @sealed; \(cast.lines()) }
        location /plain { proxy_pass http://127.0.0.1:\(dead); error_page 502 @plain; \(cast.lines()) }
        location @plain { proxy_pass http://127.0.0.1:\(upstream.port); }
        location /open { proxy_pass http://127.0.0.1:\(dead); error_page 502 @sealed; }
        location /page { proxy_pass http://127.0.0.1:\(dead); \(cast.lines()) }
        """)
    let sealed = try cast.seal("secret")
    let page = try await proxy.curl("/page", input: sealed)
    #expect(page.status == 502 && page.text.contains("<html>"))
    for path in ["/sealed", "/plain"] {
      let answer = try await proxy.curl(path, input: (path == "/sealed" ? other : cast).seal("secret"))
      #expect(answer.status == 502, "\(path)")
    }
    #expect(!upstream.receivedText.contains("secret"))
    // What came in no envelope goes on as an error page's request does: as a GET, without it.
    _ = try await proxy.curl("/open", input: Array("secret".utf8))
    #expect(upstream.receivedText.contains("GET /open ") && !upstream.receivedText.contains("POST /open "))
    #expect(!upstream.receivedText.contains("secret"))
    // The same keys open there.
    let answer = try await proxy.curl("/same", input: sealed)
    #expect(try answer.status == 502 && cast.openText(answer.body) == "secret")
  }

  /// Seals and opens with Python's cryptography, or with `openssl enc` and `openssl dgst`.
  private static let client = #"""
    import base64, hashlib, hmac, http.client, json, os, subprocess, sys
    from cryptography.hazmat.primitives import padding
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    tool, port, key, mac_key = sys.argv[1], int(sys.argv[2]), open(sys.argv[3]).read(), open(sys.argv[4]).read()
    key, mac_key = bytes.fromhex(key.strip()), base64.b64decode(mac_key)

    def run(*command, data):
        return subprocess.run(["openssl", *command], input=data, capture_output=True, check=True).stdout

    def crypt(data, iv, seals):
        if tool == "openssl":
            return run("enc", "-aes-256-cbc", "-e" if seals else "-d", "-K", key.hex(), "-iv", iv.hex(), data=data)
        cipher = Cipher(algorithms.AES(key), modes.CBC(iv))
        if seals:
            pad, end = padding.PKCS7(128).padder(), cipher.encryptor()
            return end.update(pad.update(data) + pad.finalize()) + end.finalize()
        pad, end = padding.PKCS7(128).unpadder(), cipher.decryptor()
        return pad.update(end.update(data) + end.finalize()) + pad.finalize()

    def code(data):
        if tool == "openssl":
            text = run("dgst", "-sha256", "-mac", "HMAC", "-macopt", "hexkey:" + mac_key.hex(), data=data)
            return bytes.fromhex(text.decode().split("= ")[1])
        return hmac.new(mac_key, data, hashlib.sha256).digest()

    def b64(data): return base64.b64encode(data).decode()

    wire, opened = http.client.HTTPConnection("127.0.0.1", port), 0
    for size in range(50):
        plain, iv = os.urandom(size * 3 + 1), os.urandom(16)
        body = json.dumps({"mac": b64(code(plain)), "iv": b64(iv), "payload": b64(crypt(plain, iv, True))})
        wire.request("POST", "/echo", body)
        answer = wire.getresponse()
        envelope = json.loads(answer.read())
        assert answer.status == 200 and set(envelope) == {"mac", "iv", "payload"}, (answer.status, envelope)
        parts = {name: base64.b64decode(text, validate=True) for name, text in envelope.items()}
        text = crypt(parts["payload"], parts["iv"], False)
        assert text == plain and code(text) == parts["mac"] and parts["iv"] != iv
        opened += 1
    print("opened", opened)
    """#
}

import Bytes
import Crypto
import Envelope
@testable import Features
@testable import Forward
import HTTP
import Testing
@testable import Traffic

@Suite struct `An envelope in an exchange` {
  private static let sealed =
    "message_envelope on; message_envelope_cipher aes-256-gcm; message_envelope_key /nowhere/key; message_envelope_mac none;"

  @Test func `an envelope that was not opened goes to no error page's upstream`() throws {
    let rig = try Rig(
      """
      server { listen 80; error_page 503 @plain; location / { proxy_pass http://127.0.0.1:9; \(Self.sealed) }
        location @plain { proxy_pass http://127.0.0.1:9; } }
      """, replays: ReplayGuard(ReplayWindow(limit: 1), span: 60_000))
    let envelope = try Rig.envelope(EnvelopeSuite(.aes256GCM, nil))
    for isFirst in [true, false] {
      let text = try Array("{\"a\":1}".utf8).withUnsafeBytes { plain in
        let sealed = try envelope.seal(plain, now: 0)
        return sealed.readable.text
      }
      _ = try rig.ask(["POST / HTTP/1.1", "Host: h", "Content-Length: \(text.utf8.count)"], body: [text])
      try rig.upstream.open()
      // The replay window has room for one envelope. The second gets 503, and the request for the page has no body.
      #expect(try rig.upstream.sent.hasPrefix(isFirst ? "POST / " : "GET / "))
      #expect(try rig.upstream.sent.hasSuffix(isFirst ? "\r\n\r\n{\"a\":1}" : "\r\n\r\n"))
    }
  }

  @Test func `an envelope is opened for the upstream, and its response sealed whole`() throws {
    let rig = try Rig.passing(Self.sealed)
    let envelope = try Rig.envelope(EnvelopeSuite(.aes256GCM, nil))
    let text = try Array("{\"a\":1}".utf8).withUnsafeBytes { plain in
      let sealed = try envelope.seal(plain, now: 0)
      return sealed.readable.text
    }
    let client = try rig.ask(
      ["POST / HTTP/1.1", "Host: h", "Content-Length: \(text.utf8.count)"],
      body: [String(text.prefix(10)), String(text.dropFirst(10))])
    #expect(client.status == nil, "\(client.body)")
    try rig.upstream.open()
    #expect(try rig.upstream.sent.hasSuffix("\r\n\r\n{\"a\":1}"), "\(client.status ?? 0)")
    try rig.upstream.answer("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsec")
    #expect(client.status == nil)
    try rig.upstream.answer("ret")
    #expect(client.status == 200 && client.isReleased && !client.body.contains("secret"))
    let opened = try Array(client.body.utf8).withUnsafeBytes { sealed in
      let plain = try envelope.open(sealed, now: 1)
      return plain.readable.text
    }
    #expect(opened == "secret")
  }

  @Test func `what is no envelope goes nowhere`() throws {
    let rig = try Rig.passing(Self.sealed)
    let client = try rig.ask(["POST / HTTP/1.1", "Host: h", "Content-Length: 7"], body: ["{\"a\":1}"])
    #expect(client.status == 400 && rig.upstreams.isEmpty)
  }
}

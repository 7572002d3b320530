import ConfigurationSupport
import Crypto
import Envelope
@testable import Features
@testable import Forward
@testable import Language
import Observability
import Testing
@testable import Traffic

/// A location whose lines begin in line 2, column 1.
private func location(_ lines: String, outside: String = "") -> LoadedText {
  LoadedText("http { \(outside) server { listen 80; location / { proxy_pass http://127.0.0.1;\n\(lines)\n} } }")
}

private let keys = "message_envelope_key a; message_envelope_mac_key b;\n"
private let on = "message_envelope on; message_envelope_cipher aes-256-cbc;\n"
private let joining =
  "and joining is ambiguous: an attacker can move data from one field to the next | hmac-sha256 payload authenticates the whole body"

@Suite struct `Message envelopes, as configured` {
  private func settings(_ text: LoadedText) -> EnvelopeSettings? {
    guard let pass = text.settings?.http.servers.first?.root.locations.first?[UpstreamPass.self] else {
      return nil
    }
    return pass[EnvelopeSettings.self]
  }

  @Test func `all of it is taken up, from outer levels too`() throws {
    let text = location(
      "message_envelope on;",
      outside: """
        message_envelope_cipher AES-128-CBC; message_envelope_key new credential:old;
        message_envelope_mac hmac-sha1 payload; message_envelope_mac_key /m1 m2;
        message_envelope_replay_window 5m; message_envelope_max_size 64k; ssl_reload off;
        """)
    #expect(text.problems == [])
    let envelope = try #require(settings(text))
    #expect(envelope.suite.cipher == .aes128CBC)
    #expect(envelope.suite.mac == EnvelopeMAC(.hmacSHA1, over: .payload))
    #expect(envelope.keyFiles.map(\.description) == ["new", "/m1", "credential:old", "m2"])
    #expect(envelope.replayWindow == 300_000 && envelope.maxSize == 65536 && !envelope.reloads)
  }

  @Test func `defaults are the specification's`() throws {
    let text = location(on + keys)
    #expect(text.problems == [])
    let envelope = try #require(settings(text))
    #expect(envelope.suite.mac == EnvelopeMAC(.hmacSHA256, over: .payload))
    #expect(envelope.previous == nil && envelope.replayWindow == nil && envelope.maxSize == 1 << 20 && envelope.reloads)
    #expect(settings(location("")) == nil)
    #expect(settings(location("message_envelope off;", outside: on + keys)) == nil)
    let gcm = location(
      "message_envelope on; message_envelope_cipher aes-256-gcm; message_envelope_mac none; message_envelope_key a;")
    #expect(gcm.problems == [] && settings(gcm)?.suite.mac == nil && settings(gcm) != nil)
  }

  @Test(arguments: [
    (
      "message_envelope on;\n" + keys,
      "2:1 \"message_envelope on\" without \"message_envelope_cipher\" | message_envelope_cipher aes-256-gcm;"
    ),
    (
      on + "message_envelope_mac_key b;",
      "2:1 \"message_envelope on\" without \"message_envelope_key\" | message_envelope_key FILE; to create a key: openssl rand -hex 32"
    ),
    (
      on + "message_envelope_key a;",
      "2:1 \"message_envelope on\" without \"message_envelope_mac_key\" | message_envelope_mac_key FILE; or, with aes-256-gcm, message_envelope_mac none"
    ),
    (
      on + "message_envelope_key a; message_envelope_mac none;",
      "3:25 \"message_envelope_mac none\" with aes-256-cbc: an attacker could change a sealed message | use aes-256-gcm, or a MAC"
    ),
    (
      "message_envelope on; message_envelope_cipher aes-256-gcm; message_envelope_mac none;\n" + keys,
      "3:25 \"message_envelope_mac_key\" beside \"message_envelope_mac none\" | remove one of the two"
    ),
    (
      on + "message_envelope_key a b; message_envelope_mac_key c;",
      "3:27 1 MAC keys, but 2 keys of the cipher | give one for each, the current pair first; the cipher's keys are at /etc/x.conf:3:1"
    ),
    (
      on + keys + "message_envelope_max_size 0;",
      "4:27 invalid value \"0\" in \"message_envelope_max_size\" directive | from 1 to 256m: sallyport holds a whole message in memory"
    ),
    (
      on + keys + "message_envelope_max_size 1g;",
      "4:27 invalid value \"1g\" in \"message_envelope_max_size\" directive | from 1 to 256m: sallyport holds a whole message in memory"
    ),
    (
      on + keys + "proxy_pass_request_body off;",
      "4:1 \"proxy_pass_request_body off\" beside \"message_envelope on\" | remove one of the two"
    ),
    (
      on + keys + "proxy_set_header accept-Encoding gzip;",
      "4:1 \"accept-Encoding\" is set here, but message_envelope sets or removes this field | remove one of the two; the other is at /etc/x.conf:2:1"
    ),
    (
      on + keys + "message_envelope_replay_window soon;",
      "4:32 invalid value \"soon\" in \"message_envelope_replay_window\" directive | off, or \(Expected.milliseconds)"
    ),
  ])
  func `contradictions are told where they stand`(lines: String, problem: String) {
    #expect(location(lines).errors == [problem])
  }

  @Test(arguments: [
    ("md5 payload", "\"md5\" is not a supported MAC", 22), ("none payload", "\"none\" is followed by \"payload\"", 27),
    ("hmac-sha1 body", "\"body\" is not what a MAC can cover", 32),
    ("hmac-sha1 payload x", "\"payload\" is followed by \"x\"", 40),
    ("hmac-sha1 fields", "\"fields\" names no field", 32),
    ("hmac-sha1 fields a b a", "the field \"a\" is named twice", 43),
  ])
  func `words that are no MAC are refused`(words: String, problem: String, column: Int) {
    let errors = location(on + keys + "message_envelope_mac \(words);").errors
    #expect(
      errors.count == 1 && errors[0].hasPrefix("4:\(column) \(problem) | none, or one of hmac-sha256"), "\(errors)")
  }

  @Test func `fields come with a warning`() {
    let fields = "message_envelope_mac hmac-sha256 fields a b;\n"
    #expect(
      location(on + keys + fields).problems
        == [
          "4:1 warning: \"fields\" with CBC protects no secret: neither the IV nor unlisted members are authenticated, so an attacker can learn the content of a recorded message, at least its first block, from the responses to changed copies; and joining is ambiguous: an attacker can move data from one field to the next | message_envelope_cipher aes-256-gcm, or message_envelope_mac hmac-sha256 payload"
        ])
    #expect(
      location("message_envelope on; message_envelope_cipher aes-256-gcm;\n" + keys + fields).problems
        == ["4:1 warning: \"fields\": the MAC authenticates only the listed members, \(joining)"])
    #expect(
      location(on + keys + fields + "message_envelope_replay_window 1m;").problems.last
        == "5:1 warning: with \"fields\" and CBC the IV is not authenticated: a replay can use another IV | hmac-sha256 payload, or aes-256-gcm"
    )
  }

  @Test func `what changes nothing is told`() {
    #expect(
      location(keys).problems == [
        "2:1 warning: \"message_envelope_key\" has no effect here: message_envelope is off | message_envelope on;"
      ])
    #expect(
      location(on + keys + "message_envelope_max_size 8m;").problems == [
        "4:1 warning: \"message_envelope_max_size\" is above \"client_max_body_size\", which applies first | client_max_body_size 8m;"
      ])
    let nothing = LoadedText("http { server { listen 80; location / { return 204;\nmessage_envelope on; } } }")
    #expect(
      nothing.problems == [
        "2:1 warning: \"message_envelope on\" without proxy_pass: sallyport seals only responses of upstreams | use it together with proxy_pass"
      ])
  }

  @Test func `what many locations inherit is told once`() {
    let text = LoadedText(
      """
      http { message_envelope on; server { listen 80; location /a { proxy_pass http://127.0.0.1; }
      location /b { proxy_pass http://127.0.0.1; } } }
      """)
    #expect(text.errors.count == 3, "\(text.errors)")
  }
}

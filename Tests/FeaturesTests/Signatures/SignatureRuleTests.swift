import ConfigurationSupport
import Crypto
import Features
import Forward
import Signature
import Testing
import Traffic

/// A location whose lines begin in line 2, column 1.
private func location(_ lines: String, outside: String = "", pass: String = "proxy_pass http://127.0.0.1;")
  -> LoadedText
{
  LoadedText("http { \(outside) server { listen 80; location / { \(pass)\n\(lines)\n} } }")
}

private let verify = "message_signature verify;\nmessage_signature_key k hmac-sha256 a.key;\n"
private let sign = "message_signature sign;\nmessage_signature_key k hmac-sha256 a.key;\n"

@Suite struct `Message signatures, as configured` {
  private func root(_ text: LoadedText) -> LocationSettings? { text.settings?.http.servers.first?.root.locations.first }

  private func signing(_ text: LoadedText) -> SignatureSettings? {
    guard let pass = root(text)?[UpstreamPass.self] else { return nil }
    return pass[SignatureSettings.self]
  }

  @Test func `defaults are strict, and verify and sign exclude each other`() throws {
    let text = location(verify)
    #expect(text.problems == [])
    let settings = try #require(root(text)?[Signatures.self]?.verification)
    #expect(settings.components.map(\.description) == ["\"@method\"", "\"@target-uri\"", "\"content-digest\""])
    #expect(settings.maxAge == 300 && settings.skew == 10 && !settings.hasNonce && settings.label == nil)
    #expect(settings.reloads && settings.keys.map(\.algorithm) == [.hmacSHA256] && signing(text) == nil)
    let other = location(sign)
    #expect(other.problems == [] && signing(other)?.mode == .sign && root(other)?[Signatures.self] == nil)
    #expect(root(location(""))?[Signatures.self] == nil)
    #expect(root(location("message_signature off;", outside: verify))?[Signatures.self] == nil)
  }

  @Test func `all of it is taken up, from outer levels too`() throws {
    let text = location(
      "message_signature VERIFY;",
      outside: """
        message_signature_key a ed25519 /p.pem; message_signature_key "b c" rsa-pss-sha512 credential:x;
        message_signature_components '@query-param;name="x"' x-user date;
        message_signature_max_age 1m skew=0s; message_signature_nonce on; message_signature_label mine; ssl_reload off;
        """)
    #expect(text.problems == [])
    let settings = try #require(root(text)?[Signatures.self]?.verification)
    #expect(settings.keys.map { String(decoding: $0.id, as: UTF8.self) } == ["a", "b c"])
    #expect(settings.keys.map(\.file.description) == ["/p.pem", "credential:x"])
    #expect(settings.components.map(\.description) == ["\"@query-param\";name=\"x\"", "\"x-user\"", "\"date\""])
    #expect(settings.maxAge == 60 && settings.skew == 0 && settings.hasNonce && !settings.reloads)
    #expect(settings.label == Array("mine".utf8))
  }

  @Test(arguments: [
    ("message_signature verify;", "2:1 \"message_signature verify\" without \"message_signature_key\""),
    (
      sign + "message_signature_key l hmac-sha256 b.key;",
      "4:1 \"message_signature sign\" has one key, and this is another"
    ),
    (verify + "message_signature_key k ed25519 b.pem;", "4:23 a second key with the keyid \"k\""),
    (verify + "message_signature_key l md5 b.pem;", "4:25 \"md5\" is not a supported signature algorithm"),
    (verify + "message_signature_key \"\" ed25519 b.pem;", "4:23 invalid keyid \"\""),
    (
      verify + "message_signature_components @status;",
      "4:30 invalid component \"@status\": an unknown component \"@status\""
    ),
    (verify + "message_signature_components 'date;tr';", "4:30 invalid component \"date;tr\": the parameter \"tr\""),
    (verify + "message_signature_components date date;", "4:35 the component \"date\" occurs twice"),
    (sign + "message_signature_components host;", "4:30 \"host\" is no field of every request"),
    (sign + "message_signature_components connection;", "4:30 \"connection\" belongs to one connection"),
    (verify + "message_signature_max_age 0;", "4:27 invalid value \"0\" in \"message_signature_max_age\" directive"),
    (verify + "message_signature_max_age 2d;", "4:27 invalid value \"2d\""),
    (verify + "message_signature_max_age 1m skew=2h;", "4:30 invalid parameter \"skew=2h\""),
    (sign + "message_signature_expires x;", "4:27 invalid value \"x\" in \"message_signature_expires\" directive"),
    (verify + "message_signature_label A;", "4:25 invalid label \"A\""),
    (
      verify + "message_signature_expires 1m;",
      "4:1 warning: \"message_signature_expires\" has no effect with \"message_signature verify\""
    ),
    (
      sign + "message_signature_max_age 1m;",
      "4:1 warning: \"message_signature_max_age\" has no effect with \"message_signature sign\""
    ),
    (
      "message_signature_label a;",
      "2:1 warning: \"message_signature_label\" has no effect here: message_signature is off"
    ),
    (
      sign + "proxy_request_buffering off;",
      "4:1 \"proxy_request_buffering off\" beside a signature with \"content-digest\""
    ),
    (sign + "proxy_set_header Signature x;", "4:1 \"Signature\" is set here, but message_signature writes this field"),
    (sign + "proxy_set_header content-digest x;", "4:1 \"content-digest\" is set here"),
    (sign + "proxy_auth basic; proxy_auth_user_file u;", "4:1 \"proxy_auth\" beside \"message_signature sign\""),
    (verify + "return 200 x;", "4:1 warning: \"return\" answers before \"message_signature\" is judged"),
  ])
  func `faults are named with their place`(lines: String, problem: String) {
    let text = location(lines)
    #expect(text.problems.contains { $0.contains(problem) }, "\(text.problems)")
  }

  /// `off` among the words of `proxy_auth` turns it off.
  @Test(arguments: ["off", "basic off"]) func `a proxy_auth that is off is no other author of a field`(words: String) {
    #expect(location(sign + "proxy_auth \(words);").errors == [])
  }

  @Test func `gRPC has no digest of a stream`() {
    for mode in [verify, sign] {
      let text = location(mode, pass: "grpc_pass grpc://127.0.0.1:1;")
      #expect(text.problems.contains { $0.contains("covers a whole body, and gRPC sends streams") }, "\(text.problems)")
      #expect(
        location(mode + "message_signature_components @method;", pass: "grpc_pass grpc://127.0.0.1:1;").problems == [])
    }
    #expect(location(sign + "proxy_request_buffering off; message_signature_components @path;").problems == [])
  }
}

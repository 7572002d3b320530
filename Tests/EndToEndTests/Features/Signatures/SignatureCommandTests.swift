import Crypto
import TestSupport
import Testing

@Suite(.staged) struct `The signature command` {
  private func signature(_ scene: Scene, _ arguments: [String], input: String = "") async throws -> ToolResult {
    try await scene.run(Sallyport.binary(), ["signature"] + arguments, input: Array(input.utf8))
  }

  @Test func `curl sends what it signs, and the daemon lets it in`() async throws {
    let scene = try Scene.ofTest(), cast = try SignatureCast(scene)
    let upstream = try ScriptedUpstream.echo(scene)
    let proxy = try await PlainProxy(scene, to: upstream.port, location: cast.lines())
    let options = ["--keyid", "k", "--algorithm", "hmac-sha256", "--key", "k.key", "--scheme", "http"]
    let head = "POST /echo?a=1 HTTP/1.1\r\nHost: 127.0.0.1:\(proxy.port)\r\n\r\n"
    let made = try await signature(scene, ["sign"] + options + ["--nonce", "--expires", "60"], input: head + "hello")
    #expect(
      made.status == 0 && made.errors.isEmpty && made.text.hasPrefix("Content-Digest: sha-256=:"), "\(made.everything)")
    let file = try scene.write("fields", made.output)
    let answer = try await proxy.curl("/echo?a=1", ["-X", "POST", "-H", "@\(file)"], input: Array("hello".utf8))
    #expect(answer.status == 200 && answer.text == "hello")
    #expect(
      try await proxy.curl("/echo?a=2", ["-X", "POST", "-H", "@\(file)"], input: Array("hello".utf8)).status == 401)

    let whole =
      "POST /echo?a=1 HTTP/1.1\r\nHost: 127.0.0.1:\(proxy.port)\r\n" + made.text.replacing("\n", with: "\r\n") + "\r\n"
    let verified = try await signature(scene, ["verify"] + options + ["--nonce"], input: whole + "hello")
    #expect(verified.status == 0 && verified.text == "valid: k\n", "\(verified.everything)")
    let cases = [
      (whole + "hallo", "its Content-Digest does not match the body"),
      (whole.replacing("a=1", with: "a=2") + "hello", "it is not authentic"),
      (head + "hello", "it has no Signature-Input"),
    ]
    for (input, reason) in cases {
      let refused = try await signature(scene, ["verify"] + options, input: input)
      #expect(
        refused.status == 1 && refused.errors == "error: the signature is not valid: \(reason)\n",
        "\(refused.everything)")
    }
    let moved = try await signature(
      scene, ["verify"] + options + ["--authority", "other.test"], input: whole + "hello")
    #expect(moved.status == 1)
  }

  @Test func `keys and options at fault are named, with a status of their own`() async throws {
    let scene = try Scene.ofTest()
    _ = try SignatureCast(scene)
    let cases: [([String], String)] = [
      (["--algorithm", "md5", "--key", "k.key"], "--algorithm: \"md5\" is not supported"),
      (["--algorithm", "hmac-sha256", "--key", "none"], "\"none\": cannot be opened"),
      (["--algorithm", "ed25519", "--key", "k.key"], "expected"),
      (
        ["--algorithm", "hmac-sha256", "--key", "k.key", "--scheme", "ftp"], "--scheme \"ftp\": expected http or https"
      ),
      (["--algorithm", "hmac-sha256", "--key", "k.key", "--component", "Date"], "--component Date: a component that"),
      (["--algorithm", "hmac-sha256", "--key", "k.key", "--component", "date;tr"], "the parameter \"tr\""),
    ]
    for (options, reason) in cases {
      for command in ["sign", "verify"] {
        let result = try await signature(
          scene, [command, "--keyid", "k"] + options, input: "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        #expect(result.status == 2 && result.errors.contains(reason) && result.output.isEmpty, "\(result.everything)")
      }
    }
    let words = ["--keyid", "k", "--algorithm", "hmac-sha256", "--key", "k.key"]
    #expect(try await signature(scene, ["sign"] + words, input: "GET / HTTP/1.1\r\nHost: a\r\n").status == 1)
    #expect(try await signature(scene, ["sign"] + words, input: "GET / HTTP/1.1\r\n a\r\n\r\n").status == 1)
  }
}

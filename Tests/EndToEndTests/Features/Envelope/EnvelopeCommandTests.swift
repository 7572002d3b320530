import Bytes
import Crypto
import TestSupport
import Testing

@Suite(.staged) struct `The envelope command` {
  private func envelope(_ scene: Scene, _ arguments: [String], input: [UInt8] = []) async throws -> ToolResult {
    try await scene.run(Sallyport.binary(), ["envelope"] + arguments, input: input)
  }

  @Test(arguments: [
    (Cipher.aes128CBC, "hmac-sha1 payload"), (.aes256CBC, "hmac-sha256 fields a b"), (.aes256GCM, "none"),
  ])
  func `what it seals it opens, and nothing else`(cipher: Cipher, mac: String) async throws {
    let scene = try Scene.ofTest(), cast = try EnvelopeCast(scene, cipher, mac)
    var options =
      ["--cipher", cipher.rawValue, "--key", cast.key, "--mac"] + mac.split(separator: " ").map(String.init)
    if mac != "none" { options += ["--mac-key", cast.macKey] }
    let plain = Array(#"{"a":"x","b":2}"#.utf8)
    let sealed = try await envelope(scene, ["seal"] + options, input: plain)
    #expect(sealed.status == 0 && sealed.errors.isEmpty, "\(sealed.everything)")
    let opened = try await envelope(scene, ["open"] + options, input: sealed.output)
    #expect(opened.status == 0 && opened.output == plain)
    for spoilt in [Array(sealed.output.dropLast()), sealed.output + [0x7D], try cast.seal(plain).reversed()] {
      let refused = try await envelope(scene, ["open"] + options, input: spoilt)
      #expect(refused.status == 1 && refused.output.isEmpty)
      #expect(refused.errors == "error: these keys can't open this input as an envelope\n")
    }
  }

  @Test func `the specification's own spelling works, and a previous key opens`() async throws {
    let scene = try Scene.ofTest(), old = try EnvelopeCast(scene, name: "old"),
      new = try EnvelopeCast(scene, name: "new")
    let sealed = try await envelope(
      scene, ["seal", "--cipher", "aes-256-cbc", "--key", old.key, "--mac-key", old.macKey], input: Array("hello".utf8))
    #expect(try old.openText(sealed.output) == "hello")
    let both = [
      "--cipher", "aes-256-cbc", "--key", new.key, "--mac-key", new.macKey, "--key", old.key, "--mac-key", old.macKey,
    ]
    #expect(try await envelope(scene, ["open"] + both, input: sealed.output).text == "hello")
  }

  @Test func `keys and options at fault are named, with a status of their own`() async throws {
    let scene = try Scene.ofTest(), cast = try EnvelopeCast(scene)
    try scene.write("short", text: "abcd")
    let whole = ["--cipher", "aes-256-cbc", "--key", cast.key, "--mac-key", cast.macKey]
    let cases: [([String], String)] = [
      (["--cipher", "rot13", "--key", cast.key], "--cipher: \"rot13\" is not a supported cipher"),
      (["--cipher", "aes-256-cbc", "--key", "none", "--mac-key", cast.macKey], "\"none\": cannot be opened"),
      (
        ["--cipher", "aes-256-cbc", "--key", "short", "--mac-key", cast.macKey],
        "2 bytes (as hexadecimal), but a key of this cipher has 32"
      ),
      (
        ["--cipher", "aes-128-cbc", "--key", cast.key, "--mac-key", cast.macKey],
        "32 bytes (as hexadecimal), but a key of this cipher has 16"
      ),
      (
        ["--cipher", "aes-256-cbc", "--key", cast.key, "--mac-key", "short"],
        "2 bytes (as hexadecimal), but a MAC key has 16 or more"
      ),
      (["--cipher", "aes-256-cbc", "--key", cast.key], "--mac-key: 0 given, but 1 --key"),
      (["--cipher", "aes-256-cbc", "--key", cast.key, "--mac", "none"], "--mac none with aes-256-cbc"),
      (whole + ["--mac", "md5"], "--mac: \"md5\" is not a supported MAC"),
    ]
    for (options, reason) in cases {
      for command in ["seal", "open"] {
        let result = try await envelope(scene, [command] + options)
        #expect(result.status == 2 && result.errors.contains(reason) && result.output.isEmpty, "\(result.everything)")
      }
    }
    let refused = try await envelope(scene, ["seal"] + whole + ["--mac", "hmac-sha256", "fields", "a"], input: [0x5B])
    #expect(refused.status == 1 && refused.errors.contains("no JSON object"))
  }
}

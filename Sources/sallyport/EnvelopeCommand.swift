import ArgumentParser
import Bytes
import Crypto
import Envelope
import Glibc
import Observability

struct EnvelopeCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "envelope",
    abstract: "Seal or open a message envelope, as message_envelope does.",
    discussion: """
      Reads stdin and writes stdout. A key is a file (or credential:NAME) of hexadecimal digits or base64. Exit status: 0 \
      on success, 1 if the input can't be sealed or opened, 2 if a key or an option is invalid.
      """,
    subcommands: [Seal.self, Open.self]
  ).example("sallyport envelope seal --cipher aes-256-gcm --key envelope.key --mac none < message > sealed")

  struct Seal: ParsableCommand {
    static let configuration = CommandConfiguration(commandName: "seal", abstract: "Seal a plain body in an envelope.")
      .example(
        "sallyport envelope seal --cipher aes-256-gcm --key envelope.key --mac none < message > sealed")
    @OptionGroup var options: EnvelopeOptions

    func run() throws {
      let sealer = Sealer(requests: try options.keys())
      let plain = try EnvelopeStreams.input()
      let sealed: ByteBuffer
      do throws(SealingError) { sealed = try sealer.seal(plain.readable) } catch {
        throw EnvelopeStreams.failure("the input can't be sealed: \(error)", EnvelopeStreams.refused)
      }
      try EnvelopeStreams.output(sealed.readable)
    }
  }

  struct Open: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "open", abstract: "Open an envelope and print its plain body."
    ).example(
      "sallyport envelope open --cipher aes-256-gcm --key envelope.key --mac none < sealed")
    @OptionGroup var options: EnvelopeOptions

    func run() throws {
      let opener = Opener(try options.keys())
      let body = try EnvelopeStreams.input()
      let plain: ByteBuffer
      do throws(EnvelopeError) { plain = try opener.open(body.readable, now: 0) } catch {
        // All failures give the same message, so that a script that passes it on is not an oracle.
        throw EnvelopeStreams.failure("these keys can't open this input as an envelope", EnvelopeStreams.refused)
      }
      try EnvelopeStreams.output(plain.readable)
    }
  }
}

/// The options of both commands, in the words of the directives.
struct EnvelopeOptions: ParsableArguments {
  @Option(help: "aes-128-cbc, aes-256-cbc or aes-256-gcm.")
  var cipher: String

  @Option(help: "The cipher's key. A second --key is the previous key, which only opens envelopes.")
  var key: [String]

  @Option(name: .customLong("mac-key"), help: "The MAC's key: one for each --key, in the same order.")
  var macKey: [String] = []

  @Option(
    parsing: .upToNextOption,
    help: "hmac-sha256 or hmac-sha1, then payload or fields NAME …; or none (default: hmac-sha256 payload).")
  var mac: [String] = []

  func keys() throws -> EnvelopeKeys {
    let outcome = Result { () throws(ParseError) in try parsed() }
    switch outcome {
    case .success(let keys): return keys
    case .failure(let fault): throw EnvelopeStreams.failure(fault.text, EnvelopeStreams.misused)
    }
  }

  private struct ParseError: Error {
    let text: String
    init(_ text: String, _ hint: String? = nil) { self.text = text + (hint.map { "\n    hint: \($0)" } ?? "") }
  }

  private func parsed() throws(ParseError) -> EnvelopeKeys {
    let suite = try suite()
    guard (1...2).contains(key.count) else {
      throw ParseError("--key: expected one key, or the current key and the previous one")
    }
    let wanted = suite.mac == nil ? 0 : key.count
    guard macKey.count == wanted else {
      throw ParseError(
        suite.mac == nil
          ? "--mac-key and --mac none exclude each other: remove one"
          : "--mac-key: \(macKey.count) given, but \(key.count) --key: give one for each, the current pair first"
      )
    }
    var pairs: [EnvelopeKeys.Pair] = []
    for index in key.indices {
      let count = suite.cipher.keyCount
      let cipher = try load("--key", key[index], .cipherKey, count...count)
      let mac = suite.mac == nil ? nil : try load("--mac-key", macKey[index], .macKey, EnvelopeKeys.macKeyCounts)
      guard let pair = EnvelopeKeys.Pair(suite, cipherKey: cipher, macKey: mac) else {
        throw ParseError(
          "the installed OpenSSL does not support \(suite.mac?.algorithm.rawValue ?? suite.cipher.rawValue)")
      }
      pairs.append(pair)
    }
    return EnvelopeKeys(suite, current: pairs[0], previous: pairs.count > 1 ? pairs[1] : nil)
  }

  private func suite() throws(ParseError) -> EnvelopeSuite {
    guard let cipher = Cipher(rawValue: cipher.lowercased()) else {
      throw ParseError(
        "--cipher: \"\(cipher)\" is not a supported cipher",
        "one of \(Cipher.allCases.map(\.rawValue).joined(separator: ", "))")
    }
    // `--mac "hmac-sha256 payload"` and `--mac hmac-sha256 payload` mean the same.
    let words = mac.count == 1 ? mac[0].split(separator: " ").map(String.init) : mac
    let parsed: EnvelopeMAC?
    do throws(EnvelopeMACError) { parsed = try EnvelopeMAC.parse(words.isEmpty ? ["hmac-sha256"] : words) } catch {
      throw ParseError("--mac: \(error.reason)", error.hint)
    }
    do { return try EnvelopeSuite(cipher, parsed) } catch {
      throw ParseError(
        "--mac none with \(cipher.rawValue): an attacker could change a sealed message", "use aes-256-gcm, or a MAC")
    }
  }

  private func load(
    _ option: String, _ file: String, _ kind: MaterialKind, _ lengths: ClosedRange<Int>
  ) throws(ParseError) -> SecretBytes {
    do throws(MaterialError) {
      return try SymmetricKeyFile.load(
        MaterialReference(parsing: file, relativeTo: ""), expecting: kind, lengths: lengths)
    } catch {
      throw ParseError("\(option) \(error.message)", error.hint)
    }
  }
}

/// stdin, stdout and the errors of the commands.
enum EnvelopeStreams {
  static let refused: Int32 = 1
  static let misused: Int32 = 2
  /// The largest size of an input: no message is larger.
  private static let limit = 1 << 30

  static func failure(_ text: String, _ status: Int32) -> ExitCode {
    LogFile.standardError.write(string: "error: \(text)\n")
    return ExitCode(status)
  }

  static func input() throws -> ByteBuffer {
    var input = ByteBuffer()
    while true {
      input.reserve(64 * 1024)
      let count = read(STDIN_FILENO, input.writable.baseAddress, input.writable.count)
      if count < 0, errno == EINTR { continue }
      guard count >= 0 else { throw failure("stdin can't be read: \(String(cString: strerror(errno)))", refused) }
      if count == 0 { return input }
      input.didWrite(count)
      guard input.count <= limit else { throw failure("stdin has more than \(limit >> 30) GiB", refused) }
    }
  }

  static func output(_ bytes: UnsafeRawBufferPointer) throws {
    var done = 0
    while done < bytes.count {
      let count = write(STDOUT_FILENO, bytes.baseAddress.map { $0 + done }, bytes.count - done)
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { throw failure("stdout can't be written: \(String(cString: strerror(errno)))", refused) }
      done += count
    }
  }
}

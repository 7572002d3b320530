import ArgumentParser
import Bytes
import Crypto
import Glibc
import HTTP
import Signature

struct SignatureCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "signature",
    abstract: "Sign or verify an HTTP request, as message_signature does.",
    discussion: """
      Reads a request of HTTP/1.1 from stdin: its head, an empty line and its body. Exit status: 0 on success, 1 if the \
      request can't be signed or its signature isn't valid, 2 if a key or an option is invalid.
      """,
    subcommands: [Sign.self, Verify.self]
  ).example("sallyport signature verify --keyid alice --algorithm ed25519 --key alice.pub < request")

  struct Sign: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "sign",
      abstract: "Print the fields that sign a request.",
      discussion: """
        The output is Content-Digest, where it is covered and the request has a body without it, Signature-Input and \
        Signature. curl reads it: curl -H @FILE.
        """
    ).example("sallyport signature sign --keyid alice --algorithm ed25519 --key alice.key < request")
    @OptionGroup var options: SignatureOptions

    @Option(help: "The label of the signature.")
    var label = "sig1"

    @Option(help: "Seconds until the signature expires.")
    var expires: Int?

    @Flag(help: "Add a random nonce.")
    var nonce = false

    func run() throws {
      let key = try options.load(.sign)
      guard FieldParser.isKey(Array(label.utf8)) else {
        throw EnvelopeStreams.failure(
          "--label \"\(label)\" is not a label: lower-case letters, digits and _-.*, not beginning with a digit",
          EnvelopeStreams.misused)
      }
      if let expires, !(1...86_400).contains(expires) {
        throw EnvelopeStreams.failure("--expires \(expires): expected 1 to 86400 seconds", EnvelopeStreams.misused)
      }
      let policy = MessageSigner.Policy(
        label: Array(label.utf8), keyID: Array(options.keyid.utf8), components: try options.components(),
        lifetime: expires.map { Int64($0) }, hasNonce: nonce)
      let signer = MessageSigner(policy, key)
      var request = try SignatureRequest(options)
      var output = ByteBuffer()
      if signer.coversDigest, !request.body.isEmpty {
        if request.message.values(of: Component.contentDigest).isEmpty {
          let value = request.body.withUnsafeBytes { ContentDigest.value(of: $0) }
          request.message.replace(Component.contentDigest, by: value)
          SignatureRequest.write("Content-Digest", value, to: &output)
        } else if !request.hasItsDigest {
          throw EnvelopeStreams.failure("the Content-Digest does not match the body", EnvelopeStreams.refused)
        }
      }
      do throws(MessageSigner.Fault) {
        let fields = try signer.sign(request.message, hasBody: !request.body.isEmpty, now: Int64(time(nil)))
        SignatureRequest.write("Signature-Input", fields.input, to: &output)
        SignatureRequest.write("Signature", fields.signature, to: &output)
      } catch {
        throw EnvelopeStreams.failure("the request can't be signed: \(error)", EnvelopeStreams.refused)
      }
      try EnvelopeStreams.output(output.readable)
    }
  }

  struct Verify: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "verify",
      abstract: "Verify the signature of a request, and print its keyid."
    ).example("sallyport signature verify --keyid alice --algorithm ed25519 --key alice.pub < request")
    @OptionGroup var options: SignatureOptions

    @Option(help: "The label of the signature; without it, the request must have exactly one.")
    var label: String?

    @Option(name: .customLong("max-age"), help: "Seconds since the signature was created.")
    var maxAge = 300

    @Flag(help: "Demand a nonce. Whether it was seen before is not checked.")
    var nonce = false

    func run() throws {
      let key = try options.load(.verify)
      if maxAge < 1 {
        throw EnvelopeStreams.failure("--max-age \(maxAge): expected 1 second or more", EnvelopeStreams.misused)
      }
      if let label, !FieldParser.isKey(Array(label.utf8)) {
        throw EnvelopeStreams.failure("--label \"\(label)\" is not a label", EnvelopeStreams.misused)
      }
      let policy = SignatureVerifier.Policy(
        label: label.map { Array($0.utf8) }, required: try options.components(), maxAge: Int64(max(0, maxAge)),
        skew: 10, requiresNonce: nonce)
      guard let verifier = SignatureVerifier(policy, keys: [Array(options.keyid.utf8): key], standIn: nil) else {
        return
      }
      let request = try SignatureRequest(options)
      do throws(SignatureFault) {
        let verified = try verifier.verify(
          request.message, hasBody: !request.body.isEmpty, now: Int64(time(nil)))
        if let digest = verified.digest, !request.body.withUnsafeBytes({ digest.matches($0) }) {
          throw .digest("does not match the body")
        }
      } catch {
        throw EnvelopeStreams.failure("the signature is not valid: \(error)", EnvelopeStreams.refused)
      }
      var output = ByteBuffer()
      output.append(string: "valid: \(options.keyid)\n")
      try EnvelopeStreams.output(output.readable)
    }
  }
}

/// The options of both commands, in the words of the directives.
struct SignatureOptions: ParsableArguments {
  @Option(help: "The key's name in signatures.")
  var keyid: String

  @Option(help: "hmac-sha256, ecdsa-p256-sha256, ed25519, rsa-pss-sha512 or rsa-v1_5-sha256.")
  var algorithm: String

  @Option(help: "A file with the secret, the private key to sign, or the public key to verify.")
  var key: String

  @Option(
    name: .customLong("component"), parsing: .singleValue,
    help: "What is covered; once for each component (default: @method, @target-uri, content-digest).")
  var names: [String] = []

  @Option(help: "http or https.")
  var scheme = "https"

  @Option(help: "The host and port of the request, in place of its Host field.")
  var authority: String?

  func load(_ purpose: SignatureKey.Purpose) throws -> SignatureKey {
    guard !keyid.isEmpty, keyid.utf8.allSatisfy({ (0x20...0x7E).contains($0) }) else {
      throw EnvelopeStreams.failure(
        "--keyid \"\(keyid)\": expected printable ASCII characters", EnvelopeStreams.misused)
    }
    if authority?.isEmpty == true {
      throw EnvelopeStreams.failure("--authority \"\": expected HOST or HOST:PORT", EnvelopeStreams.misused)
    }
    guard ["http", "https"].contains(scheme) else {
      throw EnvelopeStreams.failure("--scheme \"\(scheme)\": expected http or https", EnvelopeStreams.misused)
    }
    guard let algorithm = SignatureAlgorithm(rawValue: algorithm) else {
      let all = SignatureAlgorithm.allCases.map(\.rawValue).joined(separator: ", ")
      throw EnvelopeStreams.failure(
        "--algorithm: \"\(algorithm)\" is not supported\n    hint: one of \(all)", EnvelopeStreams.misused)
    }
    do throws(MaterialError) {
      return try SignatureKey.load(MaterialReference(parsing: key, relativeTo: ""), algorithm, to: purpose)
    } catch {
      let hint = error.hint.map { "\n    hint: \($0)" } ?? ""
      throw EnvelopeStreams.failure("--key \(error.message)\(hint)", EnvelopeStreams.misused)
    }
  }

  func components() throws -> [Component] {
    try (names.isEmpty ? ["@method", "@target-uri", "content-digest"] : names).map { name in
      do throws(ComponentError) { return try Component(parsing: name) } catch {
        throw EnvelopeStreams.failure("--component \(name): \(error)", EnvelopeStreams.misused)
      }
    }
  }
}

/// The request on stdin.
struct SignatureRequest {
  var message: SignedMessage
  let body: [UInt8]

  init(_ options: SignatureOptions) throws {
    let input = try EnvelopeStreams.input()
    let head = RequestHead()
    var parser = HeadParser()
    let limits = HeadLimits(
      lineBytes: 64 * 1024, headBytes: 256 * 1024, fields: 1000, ignoreInvalidNames: false, underscores: true)
    switch parser.request(input.readable, limits: limits, into: head) {
    case .complete(let consumed): body = Array(input.readable.dropFirst(consumed))
    case .incomplete:
      throw EnvelopeStreams.failure(
        "stdin is not a whole head of a request: it must end with an empty line", EnvelopeStreams.refused)
    case .failed(let error):
      throw EnvelopeStreams.failure("stdin is not a request of HTTP/1.1: \(error.reason)", EnvelopeStreams.refused)
    }
    let isTLS = options.scheme == "https"
    message = SignedMessage(head, isTLS: isTLS)
    if let authority = options.authority { message.setAuthority(Array(authority.utf8), isTLS: isTLS) }
  }

  /// Whether the Content-Digest is that of the body.
  var hasItsDigest: Bool {
    let value = Array(message.values(of: Component.contentDigest).joined(separator: [0x2C, 0x20]))
    guard let digest = try? ContentDigest(value) else { return false }
    return body.withUnsafeBytes { digest.matches($0) }
  }

  static func write(_ name: String, _ value: [UInt8], to output: inout ByteBuffer) {
    output.append(string: "\(name): ")
    output.append(value)
    output.append("\n")
  }
}

import Crypto
import Forward
import Language
import Observability
import Signature
import Traffic

extension SignatureSettings {
  private static let levels = DirectiveContexts.everyHTTP

  private static let keyRow = Row<Self>.lines(
    "message_signature_key", levels, .words(3...3, "KEYID ALGORITHM MATERIAL"),
    "A key: hmac-sha256 with a secret as hexadecimal digits or base64; ecdsa-p256-sha256, ed25519, rsa-pss-sha512 or rsa-v1_5-sha256 with a public key to verify, or a private key to sign. To sign, exactly one.",
    example: "message_signature_key device-7 ed25519 device-7.pub;", trust: .told
  ) { $0.keys = keys($1, for: $0.mode, &$2) }

  static let componentsRow = Row<Self>.line(
    "message_signature_components", levels, .words(1...Int.max, "COMPONENT …"),
    initial: standardComponents.joined(separator: " "),
    "What a signature must cover, or covers: derived components and names of fields, with parameters as `'@query-param;name=\"x\"'`. `content-digest` applies to requests with a body.",
    example: "message_signature_components @method @target-uri content-digest client-cert;", trust: .told
  ) { $0.components = SignedComponents.read($1.arguments, signs: $0.mode == .sign, &$2) }

  static let maxAgeRow = Row<Self>.line(
    "message_signature_max_age", levels, .words(1...2, "TIME [skew=TIME]"), initial: "5m skew=10s",
    "`verify`: how long a signature is valid after `created`, and how far in the future `created` may be.",
    example: "message_signature_max_age 1m skew=5s;", trust: .told
  ) { $0.readAge($1, &$2) }

  static let expiresRow = Row<Self>.line(
    "message_signature_expires", levels, .words(1...1, "TIME | off"), initial: "off",
    "`sign`: the time from `created` to `expires`.", example: "message_signature_expires 30s;"
  ) { $0.lifetime = lifetime($1, &$2) }

  static let rows = [
    Row(Signatures.row), keyRow, componentsRow, maxAgeRow, expiresRow,
    .line(
      "message_signature_nonce", levels, .words(1...3, "on | off [store=NAME [fail=closed|local]]"), initial: "off",
      "`verify`: a signature needs a nonce, and each nonce of a key is accepted once, by all workers together; with `store`, by all machines with this `shared_store`, and while it can't be asked, requests get 503 (`fail=closed`, which needs no saying) or this process alone remembers (`local`). `sign`: signatures get a random nonce.",
      example: "message_signature_nonce on;", trust: .told
    ) { $0.readNonce($1, &$2) },
    .line(
      "message_signature_label", levels, .words(1...1, "NAME"),
      "The signature's label. `verify`: without it, a request must have exactly one signature. `sign`: `sig1` without it.",
      example: "message_signature_label device;"
    ) { $0.label = label($1, &$2) },
  ]

  /// What is in effect at a level; nil where it is off or invalid.
  static func read(_ scope: Scope, _ mode: Mode, _ builder: inout SettingsBuilder) -> SignatureSettings? {
    guard Signatures.mode(scope) == mode, let line = Signatures.row.line(in: scope) else { return nil }
    // Each diagnostic appears once, although several locations may inherit the invalid directive.
    let before = builder.diagnostics
    builder.diagnostics = []
    var settings = SignatureSettings()
    (settings.mode, settings.reloads, settings.location) = (mode, scope.reloadsFiles, line.location)
    if keyRow.line(in: scope) == nil {
      builder.error(
        line.location, "\"message_signature \(line.text(0))\" without \"message_signature_key\"",
        hint: "message_signature_key KEYID hmac-sha256 FILE; to create a secret: openssl rand -hex 32")
    }
    rows.read(scope, into: &settings, &builder)
    builder.diagnostics += [SignatureRule.withoutEffect(scope, mode)].compactMap { $0 }
    let isWhole = !builder.hasError(since: 0)
    builder.diagnostics = before + builder.diagnostics.filter { !before.contains($0) }
    return isWhole ? settings : nil
  }

  private mutating func readNonce(_ line: Directive, _ builder: inout SettingsBuilder) {
    guard let isOn = Flag(line.text(0)) else {
      return builder.error(
        line.place(0), "invalid value \"\(line.text(0))\" in \"\(line.name)\" directive, it must be \"on\" or \"off\"",
        hint: "\(line.name) on;")
    }
    hasNonce = isOn
    let words = line.arguments.dropFirst()
    for word in words where !["store", "fail"].contains(word.text.splitAtEquals.name) || !isOn || mode == .sign {
      return builder.error(
        word.location, "invalid parameter \"\(word.text)\" in \"\(line.name)\"",
        hint: "store= and fail=, with \"message_signature verify\"")
    }
    nonceStore = StoreUse.read(words, of: line.name, standard: .closed, allowing: [.closed, .local], &builder)
  }

  private static func keys(_ lines: [Directive], for mode: Mode, _ builder: inout SettingsBuilder) -> [Key] {
    if mode == .sign, lines.count > 1 {
      builder.error(
        lines[1].location, "\"message_signature sign\" has one key, and this is another",
        hint: "the first is at \(lines[0].location)")
      return []
    }
    var keys: [Key] = []
    for line in lines {
      let id = Array(line.text(0).utf8)
      guard !id.isEmpty, id.count <= 256, id.allSatisfy({ (0x20...0x7E).contains($0) }) else {
        builder.error(line.place(0), "invalid keyid \"\(line.text(0))\"", hint: "1 to 256 printable ASCII characters")
        continue
      }
      if keys.contains(where: { $0.id == id }) {
        builder.error(
          line.place(0), "a second key with the keyid \"\(line.text(0))\"", hint: "each key needs a keyid of its own")
        continue
      }
      guard let algorithm = SignatureAlgorithm(rawValue: line.text(1)) else {
        let all = SignatureAlgorithm.allCases.map(\.rawValue).joined(separator: ", ")
        builder.error(
          line.place(1), "\"\(line.text(1))\" is not a supported signature algorithm", hint: "one of \(all)")
        continue
      }
      guard let file = builder.material(line, at: 2) else { continue }
      keys.append(Key(id: id, algorithm: algorithm, file: file))
    }
    return keys
  }

  private mutating func readAge(_ line: Directive, _ builder: inout SettingsBuilder) {
    if let time = Quantity.seconds(line.text(0)), SignatureRule.times.contains(time) {
      maxAge = time
    } else {
      builder.refuse(line, 0, hint: Wording(SignatureRule.timeHint))
    }
    guard line.arguments.count > 1 else { return }
    let text = line.text(1)
    if text.hasPrefix("skew="), let time = Quantity.seconds(String(text.dropFirst(5))), time <= 3600 {
      skew = time
    } else {
      builder.error(
        line.place(1), "invalid parameter \"\(text)\" in \"\(line.name)\" directive", hint: "skew=TIME, up to 1h")
    }
  }

  private static func lifetime(_ line: Directive, _ builder: inout SettingsBuilder) -> Int? {
    if line.text(0).lowercased() == "off" { return nil }
    if let time = Quantity.seconds(line.text(0)), SignatureRule.times.contains(time) { return time }
    builder.refuse(line, 0, hint: "off, or \(SignatureRule.timeHint)")
    return nil
  }

  private static func label(_ line: Directive, _ builder: inout SettingsBuilder) -> [UInt8]? {
    let label = Array(line.text(0).utf8)
    if label.count <= 64, FieldParser.isKey(label) { return label }
    builder.error(
      line.place(0), "invalid label \"\(line.text(0))\"",
      hint: "a lower-case letter, then lower-case letters, digits and _ - . *, up to 64 characters")
    return nil
  }
}

import Crypto
import Observability
import Signature
import Language

extension SettingsBuilder {
  /// Builds `message_signature` of a level; nil where it is off or invalid.
  mutating func signature(_ scope: Scope, _ mode: SignatureSettings.Mode) -> SignatureSettings? {
    guard Signatures.mode(scope) == mode, let line = scope.value(Signatures.name) else { return nil }
    // Each diagnostic appears once, although several locations may inherit the invalid directive.
    let before = diagnostics
    diagnostics = []
    let settings = signature(scope, mode, at: line)
    diagnostics = before + diagnostics.filter { !before.contains($0) }
    return settings
  }

  private mutating func signature(
    _ scope: Scope, _ mode: SignatureSettings.Mode, at line: Directive
  ) -> SignatureSettings? {
    let keys = signatureKeys(scope, mode, at: line)
    let components = signatureComponents(scope, mode)
    let (maxAge, skew) = signatureAge(scope)
    let lifetime = signatureLifetime(scope)
    let label = signatureLabel(scope)
    let nonce = signatureNonce(scope, mode)
    diagnostics += SignatureRule.withoutEffect(scope, mode)
    guard let keys, let components, !diagnostics.contains(where: { $0.severity == .error }) else { return nil }
    var settings = SignatureSettings(
      mode: mode, keys: keys, components: components, maxAge: maxAge, skew: skew, lifetime: lifetime,
      hasNonce: nonce.isOn, label: label, reloads: scope.reloadsFiles, location: line.location)
    settings.nonceStore = nonce.store
    return settings
  }

  /// `message_signature_nonce`
  private mutating func signatureNonce(
    _ scope: Scope, _ mode: SignatureSettings.Mode
  ) -> (isOn: Bool, store: StoreUse?) {
    let name = "message_signature_nonce"
    guard let line = scope.value(name) else { return (false, nil) }
    guard let isOn = scope.flag(name) else {
      error(
        line.place(0), "invalid value \"\(line.text(0))\" in \"\(name)\" directive, it must be \"on\" or \"off\"",
        hint: "\(name) on;")
      return (false, nil)
    }
    let words = line.arguments.dropFirst()
    for word in words where !["store", "fail"].contains(word.text.splitAtEquals.name) || !isOn || mode == .sign {
      error(
        word.location, "invalid parameter \"\(word.text)\" in \"\(name)\"",
        hint: "store= and fail=, with \"message_signature verify\"")
      return (isOn, nil)
    }
    return (isOn, storeUse(words, of: name, standard: .closed, allowing: [.closed, .local]))
  }

  private mutating func signatureKeys(
    _ scope: Scope, _ mode: SignatureSettings.Mode, at line: Directive
  ) -> [SignatureSettings.Key]? {
    let lines = scope.list("message_signature_key")
    guard let first = lines.first else {
      error(
        line.location, "\"message_signature \(line.text(0))\" without \"message_signature_key\"",
        hint: "message_signature_key KEYID hmac-sha256 FILE; to create a secret: openssl rand -hex 32")
      return nil
    }
    if mode == .sign, lines.count > 1 {
      error(
        lines[1].location, "\"message_signature sign\" has one key, and this is another",
        hint: "the first is at \(first.location)")
      return nil
    }
    var keys: [SignatureSettings.Key] = []
    for line in lines {
      let id = Array(line.text(0).utf8)
      guard !id.isEmpty, id.count <= 256, id.allSatisfy({ (0x20...0x7E).contains($0) }) else {
        error(line.place(0), "invalid keyid \"\(line.text(0))\"", hint: "1 to 256 printable ASCII characters")
        continue
      }
      if keys.contains(where: { $0.id == id }) {
        error(
          line.place(0), "a second key with the keyid \"\(line.text(0))\"", hint: "each key needs a keyid of its own")
        continue
      }
      guard let algorithm = SignatureAlgorithm(rawValue: line.text(1)) else {
        let all = SignatureAlgorithm.allCases.map(\.rawValue).joined(separator: ", ")
        error(line.place(1), "\"\(line.text(1))\" is not a supported signature algorithm", hint: "one of \(all)")
        continue
      }
      guard let file = material(line, at: 2) else { continue }
      keys.append(SignatureSettings.Key(id: id, algorithm: algorithm, file: file))
    }
    return keys.count == lines.count ? keys : nil
  }

  private mutating func signatureComponents(_ scope: Scope, _ mode: SignatureSettings.Mode) -> [Component]? {
    guard let line = scope.value("message_signature_components") else {
      return try? ["@method", "@target-uri", "content-digest"].map { try Component(parsing: $0) }
    }
    var components: [Component] = []
    for (index, word) in line.arguments.enumerated() {
      let component: Component
      do throws(ComponentError) { component = try Component(parsing: word.text) } catch {
        self.error(
          line.place(index), "invalid component \"\(word.text)\": \(error)",
          hint:
            "@method, @target-uri, @authority, @scheme, @request-target, @path, @query, '@query-param;name=\"x\"', or the name of a field in lower case"
        )
        continue
      }
      if components.contains(component) {
        error(line.place(index), "the component \"\(word.text)\" occurs twice", hint: "remove one of the two")
      } else if mode == .sign, let fault = SignatureRule.unsignable(component) {
        error(line.place(index), fault, hint: "@authority covers the host")
      }
      components.append(component)
    }
    return components.count == line.arguments.count ? components : nil
  }

  private mutating func signatureAge(_ scope: Scope) -> (maxAge: Int, skew: Int) {
    var (maxAge, skew) = (300, 10)
    guard let line = scope.value("message_signature_max_age") else { return (maxAge, skew) }
    if let time = Quantity.seconds(line.text(0)), SignatureRule.times.contains(time) {
      maxAge = time
    } else {
      error(
        line.place(0), "invalid value \"\(line.text(0))\" in \"\(line.name)\" directive", hint: SignatureRule.timeHint)
    }
    guard line.arguments.count > 1 else { return (maxAge, skew) }
    let text = line.text(1)
    if text.hasPrefix("skew="), let time = Quantity.seconds(String(text.dropFirst(5))), time <= 3600 {
      skew = time
    } else {
      error(line.place(1), "invalid parameter \"\(text)\" in \"\(line.name)\" directive", hint: "skew=TIME, up to 1h")
    }
    return (maxAge, skew)
  }

  private mutating func signatureLifetime(_ scope: Scope) -> Int? {
    guard let line = scope.value("message_signature_expires"), line.text(0).lowercased() != "off" else { return nil }
    if let time = Quantity.seconds(line.text(0)), SignatureRule.times.contains(time) { return time }
    error(
      line.place(0), "invalid value \"\(line.text(0))\" in \"\(line.name)\" directive",
      hint: "off, or \(SignatureRule.timeHint)")
    return nil
  }

  private mutating func signatureLabel(_ scope: Scope) -> [UInt8]? {
    guard let line = scope.value("message_signature_label") else { return nil }
    let label = Array(line.text(0).utf8)
    if label.count <= 64, FieldParser.isKey(label) { return label }
    error(
      line.place(0), "invalid label \"\(line.text(0))\"",
      hint: "a lower-case letter, then lower-case letters, digits and _ - . *, up to 64 characters")
    return nil
  }
}

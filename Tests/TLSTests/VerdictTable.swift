import TLS

/// What is wrong with an upstream. Its leaf is the pinned one, and its root the only anchor, unless said otherwise.
enum ParseError: String, CaseIterable, Sendable {
  case nothing = "valid"
  case expired, notYetValid = "not yet valid", selfSigned = "self-signed", wrongName = "wrong name"
  case otherCA = "other CA", revoked, wrongUsage = "wrong key usage", pathTooLong = "path too long"
  case weakSignature = "MD5 or SHA-1 signed", shortKey = "512-bit key"
}

enum Pinning: String, CaseIterable, Sendable {
  case none, publicKey = "public_key", certificate
}

/// One cell of the table in docs/SECURITY.md, which is written from here and tested against the code.
struct Cell: Hashable, Sendable, CustomStringConvertible {
  var fault: ParseError
  var pinning: Pinning
  var allowsInvalid: Bool
  var checksName: Bool

  static let all: [Cell] = ParseError.allCases.flatMap { fault in
    Pinning.allCases.flatMap { pinning in
      [false, true].flatMap { allowsInvalid in
        [true, false].map { Cell(fault: fault, pinning: pinning, allowsInvalid: allowsInvalid, checksName: $0) }
      }
    }
  }

  var description: String {
    "\(fault.rawValue), pinning \(pinning.rawValue)\(allowsInvalid ? ", allow_invalid" : "")\(checksName ? "" : ", no name")"
  }

  /// What sallyport says; nil: refused when the configuration is read ("can only be trusted by a pin").
  var verdict: TrustOutcome? {
    if pinning == .none && allowsInvalid { return nil }
    let refused: TrustOutcome? =
      switch fault {
      case .nothing: nil
      case .wrongName: checksName ? .name : nil
      case .revoked: .revoked
      case .expired, .notYetValid: isExcused ? nil : .expired
      case .selfSigned, .otherCA, .pathTooLong, .weakSignature: isExcused || pinning == .certificate ? nil : .chain
      case .wrongUsage: isExcused ? nil : .chain
      case .shortKey: .chain
      }
    if let refused { return refused }
    return isExcused && !leavesChainWhole ? .trustedByPin : .trusted
  }

  /// A pin of the key stands for the chain.
  private var isExcused: Bool { allowsInvalid && pinning == .publicKey }
  private var leavesChainWhole: Bool { fault == .nothing || fault == .wrongName }

  /// What AFNetworking's AFSecurityPolicy says (evaluateServerTrust:forDomain:), its device trusting our anchor.
  var isAcceptedByAFSecurityPolicy: Bool {
    // "In order to validate a domain name for self signed certificates, you MUST use pinning."
    if allowsInvalid && checksName && pinning == .none { return false }
    guard allowsInvalid || isValid(pinIsAnchor: false) else { return false }
    switch pinning {
    case .none, .publicKey: return true
    // SecTrustSetAnchorCertificates(pinned), and it must be valid then.
    case .certificate: return isValid(pinIsAnchor: true)
    }
  }

  /// SecTrustEvaluate with SecPolicyCreateSSL(name), or without a name SecPolicyCreateBasicX509.
  private func isValid(pinIsAnchor: Bool) -> Bool {
    switch fault {
    case .nothing: true
    case .expired, .notYetValid, .revoked, .shortKey: false
    case .wrongName, .wrongUsage: !checksName
    case .selfSigned, .otherCA, .pathTooLong, .weakSignature: pinIsAnchor
    }
  }

  /// Why sallyport and AFSecurityPolicy differ here; nil: they don't.
  var difference: Difference? {
    let isAccepted = verdict == .trusted || verdict == .trustedByPin
    guard isAccepted != isAcceptedByAFSecurityPolicy else { return nil }
    switch (verdict, fault) {
    case (nil, _): return .anybody
    case (.name, _): return .nameOfPinned
    case (_, .revoked): return .revocation
    case (_, .shortKey): return .shortKey
    case (_, .wrongUsage): return .usage
    default: return isAccepted ? .pinIsAnchor : nil
    }
  }
}

/// Reasons, as docs/SECURITY.md numbers them.
enum Difference: Int, CaseIterable, Sendable {
  case anybody = 1, nameOfPinned, revocation, shortKey, usage, pinIsAnchor

  var reason: String {
    switch self {
    case .anybody:
      "stricter: AFSecurityPolicy accepts every upstream in this mode unless it checks the name, and a name without a verified chain proves nothing. sallyport refuses such a configuration when it reads it."
    case .nameOfPinned:
      "stricter: where invalid certificates are allowed, AFSecurityPolicy does not check the name. A wrong name is not a fault of the chain, so sallyport checks it; `proxy_ssl_verify_name off` turns this check off."
    case .revocation:
      "stricter: nothing excuses a certificate that its own CA has revoked."
    case .shortKey:
      "stricter: a pin replaces signatures, but not the strength of the key. Anybody can compute the private key of a key worth less than 80 bits (RSA under 1024), and then match the pin."
    case .usage:
      "stricter: without a name, AFSecurityPolicy does not check the key usage either. sallyport checks name and usage independently."
    case .pinIsAnchor:
      "AFSecurityPolicy also requires allowInvalidCertificates. In sallyport, a pinned certificate file is itself a trust anchor: only the holder of its key is accepted, and its dates and usage are checked."
    }
  }
}

/// The table as docs/SECURITY.md has it.
enum VerdictTable {
  static let begin = "<!-- verdicts: written by `SALLYPORT_WRITE_MANUAL=1 swift test --filter VerdictTableTests` -->"
  static let end = "<!-- end of verdicts -->"

  static func markdown() -> String {
    let columns = Pinning.allCases.flatMap { pinning in [false, true].map { (pinning, $0) } }
    var lines = [begin]
    lines.append(
      "| upstream | " + columns.map { "`\($0.0.rawValue)`\($0.1 ? " + allow_invalid" : "")" }.joined(separator: " | ")
        + " |")
    lines.append("| --- |" + String(repeating: " --- |", count: columns.count))
    for fault in ParseError.allCases {
      let cells = columns.map { pinning, allowsInvalid in
        let both = [true, false].map {
          text(Cell(fault: fault, pinning: pinning, allowsInvalid: allowsInvalid, checksName: $0))
        }
        return both[0] == both[1] ? both[0] : "\(both[0]); no name: \(both[1])"
      }
      lines.append("| \(fault.rawValue) | \(cells.joined(separator: " | ")) |")
    }
    lines.append("")
    for difference in Difference.allCases { lines.append("\(difference.rawValue). \(difference.reason)") }
    lines.append(end)
    return lines.joined(separator: "\n")
  }

  private static func text(_ cell: Cell) -> String {
    let verdict =
      switch cell.verdict {
      case nil: "no start"
      case .trusted?: "trusted"
      case .trustedByPin?: "trusted-by-pin"
      case let refused?: "**\(refused.rawValue)**"
      }
    return verdict + (cell.difference.map { " (\($0.rawValue))" } ?? "")
  }
}

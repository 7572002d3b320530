import Crypto
import Forward
import Language
import Observability
import Traffic

/// Errors in a location's pins for its upstream (docs/SECURITY.md, *Trust in upstreams*). Each case is one rule, and
/// the cases are in the order of the messages.
enum PinningRule: CaseIterable {
  case pinningWithoutPin
  case pinsWithPinningNone
  case onlyKeyHashesForCertificates
  case keyHashForCertificates
  case certificateHashForKeys
  case allowInvalidWithoutPin
  case reportOnlyBesideAllowInvalid
  case reportOnlyBesideVerifyOff
  case verifyOffBesideAllowInvalidOff
  case reportOnlyWithoutPin
  case chainPinForCertificates
  case chainPinOfExcusedChain

  func diagnostics(_ facts: UpstreamTrustFacts) -> [Diagnostic] {
    guard facts.mayUseTLS else { return [] }
    switch self {
    case .keyHashForCertificates: return unfit(facts, .keyHash)
    case .certificateHashForKeys: return unfit(facts, .certificateHash)
    default: return diagnostic(facts).map { [$0] } ?? []
    }
  }

  private func diagnostic(_ facts: UpstreamTrustFacts) -> Diagnostic? {
    let allowInvalid = facts.allowInvalid.flatMap { $0.value ? $0.directive : nil }
    let reportOnly = facts.reportOnly.flatMap { $0.value ? $0.directive : nil }
    switch self {
    case .pinningWithoutPin:
      guard let pinning = facts.pinning, pinning.value != "none", facts.pins.isEmpty else { return nil }
      return Diagnostic(
        .error, at: pinning.directive.location, "\"proxy_ssl_pinning \(pinning.value)\" without a pin",
        hint: "add proxy_ssl_pin; `sallyport pin FILE` or `sallyport pin HOST:PORT` prints it")
    case .pinsWithPinningNone:
      guard let pinning = facts.pinning, pinning.value == "none", let pin = facts.pins.first else { return nil }
      return Diagnostic(
        .error, at: pin.word.location, "a pin is given, but \"proxy_ssl_pinning none\" ignores it",
        hint: "remove one of the two; the other is at \(pinning.directive.location)")
    case .onlyKeyHashesForCertificates:
      guard facts.mode == .certificate, facts.hasOnlyKeyHashes, let pinning = facts.pinning else { return nil }
      return Diagnostic(
        .error, at: pinning.directive.location,
        "\"proxy_ssl_pinning certificate\" with hashes of keys only: no certificate can match",
        hint: "pin certificates (cert:HEX or a file), or use proxy_ssl_pinning public_key")
    case .allowInvalidWithoutPin:
      guard let allowInvalid, facts.pins.isEmpty else { return nil }
      return Diagnostic(
        .error, at: allowInvalid.location,
        "\"proxy_ssl_allow_invalid on\" without a pin: a self-signed upstream can only be trusted by a pin",
        hint: "add proxy_ssl_pin (`sallyport pin HOST:PORT` prints it); a name check alone proves nothing")
    case .reportOnlyBesideAllowInvalid:
      guard let allowInvalid, let reportOnly else { return nil }
      return Diagnostic(
        .error, at: reportOnly.location,
        "\"proxy_ssl_pin_report_only on\" beside \"proxy_ssl_allow_invalid on\": every upstream would be accepted",
        hint: "remove one of the two; the other is at \(allowInvalid.location)")
    case .reportOnlyBesideVerifyOff:
      guard let reportOnly, let verify = facts.verify, !verify.value, facts.isPinned else { return nil }
      return Diagnostic(
        .error, at: reportOnly.location,
        "\"proxy_ssl_pin_report_only on\" beside \"proxy_ssl_verify off\": every upstream would be accepted",
        hint:
          "only the pin counts with proxy_ssl_verify off; remove one of the two; the other is at \(verify.directive.location)"
      )
    case .verifyOffBesideAllowInvalidOff:
      guard let said = facts.allowInvalid, !said.value, let verify = facts.verify, !verify.value, facts.isPinned else {
        return nil
      }
      return Diagnostic(
        .error, at: said.directive.location,
        "\"proxy_ssl_allow_invalid off\" beside \"proxy_ssl_verify off\", which accepts a pin instead of a verified chain",
        hint: "remove one of the two; the other is at \(verify.directive.location)")
    case .reportOnlyWithoutPin:
      guard let reportOnly, facts.pins.isEmpty else { return nil }
      return Diagnostic(
        .warning, at: reportOnly.location, "\"proxy_ssl_pin_report_only on\" has no effect: nothing is pinned",
        hint: "add proxy_ssl_pin; `sallyport pin HOST:PORT` prints it")
    case .chainPinForCertificates:
      guard facts.mode == .certificate, let pin = facts.pins.first(where: { $0.scope == .chain }) else { return nil }
      return Diagnostic(
        .warning, at: pin.word.location, "\"chain\" has no effect on this pin: it applies only to pins of keys",
        hint: "with proxy_ssl_pinning certificate, a pin can match any certificate of the verified chain")
    case .chainPinOfExcusedChain:
      guard facts.excusesChain, facts.mode == .publicKey, let pin = facts.pins.first(where: { $0.scope == .chain })
      else { return nil }
      return Diagnostic(
        .warning, at: pin.word.location, "\"chain\" has no effect on this pin: here the chain does not have to verify",
        hint: "with proxy_ssl_allow_invalid on, or proxy_ssl_verify off, only the upstream's own key counts")
    case .keyHashForCertificates, .certificateHashForKeys: return nil
    }
  }

  /// Reports each pin that the mode can't compare. A file is checked when it is loaded.
  private func unfit(_ facts: UpstreamTrustFacts, _ spelling: Pin.Spelling) -> [Diagnostic] {
    let isForKeys = spelling == .keyHash
    guard facts.isPinned, facts.mode == (isForKeys ? .certificate : .publicKey),
      !(isForKeys && facts.hasOnlyKeyHashes)
    else { return [] }
    return facts.pins.filter { $0.spelling == spelling }.map { pin in
      isForKeys
        ? Diagnostic(
          .error, at: pin.word.location, "a key's hash matches nothing with \"proxy_ssl_pinning certificate\"",
          hint: "write the certificate's hash (cert:HEX) or its file")
        : Diagnostic(
          .error, at: pin.word.location, "a certificate's hash matches nothing with \"proxy_ssl_pinning public_key\"",
          hint: facts.pinning == nil
            ? "pins of both kinds are given: write the key's hash (`sallyport pin FILE` prints it), or only cert:HEX"
            : "write the key's hash (`sallyport pin FILE` prints it), or use proxy_ssl_pinning certificate")
    }
  }
}

extension UpstreamTrustFacts {
  fileprivate var hasOnlyKeyHashes: Bool { !pins.isEmpty && pins.allSatisfy { $0.spelling == .keyHash } }
}

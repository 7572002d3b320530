import Crypto
import Forward
import Identity
import Language
import Observability
import TLS
import Traffic

/// Errors in what a server demands of its clients' own certificates: pins and purpose. Each case is one rule. What can't
/// work as it looks is refused, because it would let in, or leave in, somebody whom the configuration seems to keep out.
enum ClientTrustRule: CaseIterable {
  case pinWithoutVerification
  case pinningWithoutPin
  case keyHashForCertificates
  case certificateHashForKeys
  case chainPinForCertificates
  case chainPinWithoutAnchors
  case revocationOfPinsAlone
  case statusOfPinsAlone
  case namesOfPinsAlone
  case fingerprintDeniedOfPinsAlone
  case pinsBesideBundles
  case purposeWithoutVerification
  case anyPurposeForAnybody

  static func diagnostics(_ block: ServerBlock) -> [Diagnostic] { allCases.flatMap { $0.diagnostics(block) } }

  private func diagnostics(_ block: ServerBlock) -> [Diagnostic] {
    let root = block.root, own: Diagnostic?
    switch self {
    case .pinWithoutVerification:
      own = ClientTrust.pinLine(ownOf: block.scope).flatMap {
        block.unasked($0, hint: "ssl_verify_client on, or optional")
      }
    case .purposeWithoutVerification:
      own = ClientTrust.purposeLine(block.scope).own.flatMap {
        block.unasked($0, hint: "ssl_verify_client on, or optional")
      }
    case .pinningWithoutPin:
      guard let line = ClientTrust.pinningLine(block.scope).own, !ClientTrust.isPinned(block.scope) else { return [] }
      own = Diagnostic(
        .error, at: line.location, "\"ssl_client_pinning \(line.text(0))\" without a pin",
        hint: "add ssl_client_pin; `sallyport pin FILE` prints it")
    case .keyHashForCertificates, .certificateHashForKeys, .chainPinForCertificates, .chainPinWithoutAnchors:
      return pinDiagnostics(block)
    case .revocationOfPinsAlone:
      guard block.reliesOnPins, let line = block.revocationLine else { return [] }
      own = Diagnostic(
        .error, at: line.location,
        "\"ssl_crl\" revokes nobody here: clients get in by a pin alone, whatever a list says",
        hint: "name the CAs too (ssl_client_certificate), or remove ssl_crl; to end a client's access, remove its pin")
    case .statusOfPinsAlone:
      guard block.reliesOnPins, let tls = block.tls, tls.clientStatus.extent != .off,
        let line = block.statusLine
      else { return [] }
      own = Diagnostic(
        .error, at: line.location, "\"ssl_ocsp\" asks about nobody here: clients get in by a pin alone",
        hint: "name the CAs too (ssl_client_certificate), or ssl_ocsp off; to end a client's access, remove its pin")
    case .namesOfPinsAlone:
      guard block.vouchesForNoNames else { return [] }
      return Self.distinct(root.withNested.flatMap { $0.clientRules?.unprovenKeys ?? [] }).map { key, place in
        Diagnostic(
          .error, at: place,
          "the rule reads \"\(key.rawValue)\", but clients of the server at \(block.place) get in by a pin alone, which does not vouch for it",
          hint:
            "who has the pinned key can write any name into a certificate: use spki=…, name the CAs too (ssl_client_certificate), or pin certificates by file (ssl_client_pinning certificate)"
        )
      }
    case .fingerprintDeniedOfPinsAlone:
      guard block.vouchesForNoNames, block.tls?.clientPins?.mode == .publicKey else { return [] }
      let places = root.withNested.flatMap { $0.clientRules?.deny ?? [] }.filter { $0.reads(.fingerprint) }
      return Self.distinct(places.map { (IdentityKey.fingerprint, $0.location) }).map { _, place in
        Diagnostic(
          .error, at: place, "a client evades this rule by a new certificate for its pinned key",
          hint: "deny the key: ssl_client_deny spki=…; or remove its pin")
      }
    case .pinsBesideBundles:
      guard block.tls?.workloadTrust != nil, block.tls?.clientPins != nil else { return [] }
      own = Diagnostic(
        .error, at: ClientTrust.pinLine(ownOf: block.scope)?.location ?? block.place,
        "\"ssl_client_pin\" beside the bundles of SPIFFE",
        hint: "the key of an SVID changes with each renewal: name the IDs that get in, by ssl_client_allow uri=…")
    case .anyPurposeForAnybody:
      guard let tls = block.tls, tls.verification != .off, tls.clientPurpose == .any, tls.clientPins == nil,
        tls.rules?.needsCertificate != true, let line = ClientTrust.purposeLine(block.scope).inEffect
      else { return [] }
      own = Diagnostic(
        .error, at: line.location,
        "\"ssl_client_purpose any\" in the server at \(block.place), which has no ssl_client_allow and no ssl_client_pin: every certificate of its CAs would get in, those of every web server too",
        hint: "say which clients are meant: ssl_client_allow dns=client.example; or ssl_client_pin sha256//…;")
    }
    return own.map { [$0] } ?? []
  }

  private func pinDiagnostics(_ block: ServerBlock) -> [Diagnostic] {
    guard let pins = block.tls?.clientPins else { return [] }
    let pinning = ClientTrust.pinningLine(block.scope).inEffect
    return pins.sources.compactMap { pin in
      switch (self, Pin.Spelling(pin.spelling), pins.mode, pin.scope) {
      case (.keyHashForCertificates, .keyHash, .certificate, _):
        Diagnostic(
          .error, at: pin.location, "a key's hash matches nothing with \"ssl_client_pinning certificate\"",
          hint: "write the certificate's hash (cert:HEX) or its file")
      case (.certificateHashForKeys, .certificateHash, .publicKey, _):
        Diagnostic(
          .error, at: pin.location, "a certificate's hash matches nothing with \"ssl_client_pinning public_key\"",
          hint: pinning == nil
            ? "pins of both kinds are given: write the key's hash (`sallyport pin FILE` prints it), or only cert:HEX"
            : "write the key's hash (`sallyport pin FILE` prints it), or use ssl_client_pinning certificate")
      case (.chainPinForCertificates, _, .certificate, .chain):
        Diagnostic(
          .error, at: pin.location, "\"chain\" applies only to pins of keys",
          hint: "with ssl_client_pinning certificate, a pin is the client's own certificate")
      case (.chainPinWithoutAnchors, _, .publicKey, .chain) where block.reliesOnPins:
        Diagnostic(
          .error, at: pin.location, "\"chain\" without CAs: no chain of a client is verified here",
          hint: "name the CAs (ssl_client_certificate), or pin the clients' own keys, without \"chain\"")
      default: nil
      }
    }
  }

  private static func distinct(
    _ places: [(key: IdentityKey, at: SourceLocation)]
  ) -> [(key: IdentityKey, at: SourceLocation)] {
    var seen: Set<SourceLocation> = []
    return places.filter { seen.insert($0.at).inserted }
  }
}

extension ServerBlock {
  /// Whether the server asks clients for certificates, and only pins say which of them get in.
  fileprivate var reliesOnPins: Bool { tls.map { $0.verification != .off && $0.reliesOnPins } ?? false }

  /// Whether nobody vouches for what any client's certificate says. A certificate that is pinned by its file is known.
  var vouchesForNoNames: Bool {
    guard reliesOnPins, let pins = tls?.clientPins else { return false }
    return pins.mode == .publicKey || pins.sources.allSatisfy { Pin.Spelling($0.spelling) != .file }
  }
}

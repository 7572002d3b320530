import Bytes
import Crypto
import Features
import Forward
import Loading
import Negotiation
import TLS
import Traffic

/// What changes at one server block that both configurations have.
struct ServerDifference {
  private(set) var changes: [TrustChange] = []

  init(_ old: ComparedServer, _ new: ComparedServer) {
    var found = TrustChanges()
    Self.compareListeners(old, new, &found)
    Self.compareNames(old, new, &found)
    if let before = old.settings.stream, let after = new.settings.stream {
      Self.compareSessions(before, after, &found)
    } else if !old.isOfStream, !new.isOfStream {
      Self.compareHeads(old.settings.head, new.settings.head, &found)
    }
    if let before = old.settings.clientPolicy, let after = new.settings.clientPolicy {
      Self.compareVerification(before, after, &found)
      Self.compareMaterial(old, new, &found)
      Self.compareProtocol(before, after, &found)
    }
    changes = found.all.map { $0.about("\(new.title) (\(new.settings.location))") }
    compareLocations(old, new)
  }

  // MARK: Where it listens

  private static func compareListeners(_ old: ComparedServer, _ new: ComparedServer, _ found: inout TrustChanges) {
    func addresses(_ server: ComparedServer) -> Set<String> {
      Set(server.listeners.map { "\($0.address)\($0.isTLS ? " with TLS" : " without TLS")" })
    }
    found.set(addresses(old), addresses(new)) {
      "listens on \($0)"
    } removed: {
      "no longer listens on \($0)"
    }
    func believed(_ server: ComparedServer) -> Set<String> {
      Set(server.listeners.filter(\.expectsProxyHeader).map { "\($0.address)" })
    }
    found.set(believed(old), believed(new)) {
      "the PROXY header on \($0) says who the client is"
    } removed: {
      "the PROXY header on \($0) no longer says who the client is"
    }
  }

  private static func compareNames(_ old: ComparedServer, _ new: ComparedServer, _ found: inout TrustChanges) {
    let before = Set(old.settings.names.map(\.asWritten)), after = Set(new.settings.names.map(\.asWritten))
    found.set(before, after) {
      "also serves the name \($0)"
    } removed: {
      "no longer serves the name \($0)"
    }
  }

  /// How connections of `stream` begin.
  private static func compareSessions(
    _ old: StreamServerSettings, _ new: StreamServerSettings, _ found: inout TrustChanges
  ) {
    if old.asked != new.asked {
      found.other(
        new.asked.map { "clients ask for TLS in the words of \($0) (starttls)" }
          ?? "clients begin with TLS at once (no starttls)")
    }
    if old.preread.isOn != new.preread.isOn {
      found.other(
        new.preread.isOn
          ? "the name of a ClientHello selects the server block, unverified (ssl_preread)"
          : "the name of a ClientHello no longer selects the server block (ssl_preread)")
    }
  }

  /// What a client may write in a request's head. An application can take `X_User` for `X-User`.
  private static func compareHeads(
    _ old: ClientHeadSettings, _ new: ClientHeadSettings, _ found: inout TrustChanges
  ) {
    found.flag(
      old.underscoresInFields, new.underscoresInFields,
      opens: "clients' fields with underscores in their names go to upstreams (underscores_in_headers)",
      closes: "clients' fields with underscores in their names no longer go to upstreams")
    found.flag(
      !old.ignoresInvalidFields, !new.ignoresInvalidFields,
      opens: "clients' fields with invalid names go to upstreams (ignore_invalid_headers)",
      closes: "clients' fields with invalid names no longer go to upstreams")
    if old.mergesSlashes != new.mergesSlashes {
      found.other("slashes in a path are \(new.mergesSlashes ? "merged" : "no longer merged") (merge_slashes)")
    }
  }

  // MARK: Which clients

  private static func strength(_ mode: ClientVerification) -> Int {
    switch mode {
    case .off: 0
    case .optionalNoCA: 1
    case .optional: 2
    case .on: 3
    }
  }

  private static func compareVerification(
    _ old: ServerTLSSettings, _ new: ServerTLSSettings, _ found: inout TrustChanges
  ) {
    if old.verification != new.verification {
      let sentence =
        switch new.verification {
        case .off: "clients are no longer asked for a certificate"
        case .optionalNoCA: "the certificate of a client is asked for, but no CA has to have issued it"
        case .optional:
          new.reliesOnPins
            ? "clients get in with a pinned certificate, or with none"
            : "clients get in with a certificate of its CAs, or with none"
        case .on:
          new.reliesOnPins
            ? "clients must present a pinned certificate" : "clients must present a certificate of its CAs"
        }
      if strength(new.verification) < strength(old.verification) {
        found.opens(sentence)
      } else {
        found.closes(sentence)
      }
    }
    if old.rejection != new.rejection {
      found.flag(
        old.rejection == .reportOnly, new.rejection == .reportOnly,
        opens: "refuses no client any more: a refusal is only reported (ssl_verify_report_only)",
        closes: "refuses clients again that it only reported")
      if old.rejection != .reportOnly, new.rejection != .reportOnly {
        found.other("refuses clients by \(new.rejection == .handshake ? "a TLS alert" : "an HTTP response")")
      }
    }
    if new.verification != .off {
      if new.verifyDepth > old.verifyDepth {
        found.opens("chains of clients may have depth \(new.verifyDepth) (was \(old.verifyDepth))")
      } else if new.verifyDepth < old.verifyDepth {
        found.closes("chains of clients may have only depth \(new.verifyDepth) (was \(old.verifyDepth))")
      }
    }
    if old.verification != .off, new.verification != .off {
      found.flag(
        old.clientPurpose == .any, new.clientPurpose == .any,
        opens: "the certificate of a client need not be one for clients (ssl_client_purpose any)",
        closes: "the certificate of a client must be one for clients (ssl_client_purpose client)")
    }
    found.flag(
      !old.rejectsHandshake, !new.rejectsHandshake, opens: "handshakes are no longer rejected",
      closes: "all handshakes are rejected")
    found.flag(
      !old.revocationFetch.isOn, !new.revocationFetch.isOn,
      opens: "no revocation list of clients' CAs is fetched any more (ssl_crl http://…, ssl_crl_fetch)",
      closes: "clients are refused unless the revocation list of their CA could be fetched")
    if old.revocationFetch.isOn, new.revocationFetch.isOn {
      found.guards(
        Set(old.revocationFetch.lists.map(\.url.description)), Set(new.revocationFetch.lists.map(\.url.description))
      ) {
        "the revocation list at \($0) counts for clients"
      } removed: {
        "the revocation list at \($0) no longer counts for clients"
      }
      if old.revocationFetch.points != new.revocationFetch.points {
        found.other(
          "other revocation lists that clients' certificates name are fetched (ssl_crl_fetch \(new.revocationFetch.points.inWords))"
        )
      }
    }
    compareStatus(old.clientStatus, new.clientStatus, &found)
  }

  private static func compareStatus(
    _ old: ClientStatusSettings, _ new: ClientStatusSettings, _ found: inout TrustChanges
  ) {
    func extent(_ extent: ClientStatusSettings.Extent) -> Int {
      switch extent {
      case .off: 0
      case .leaf: 1
      case .on: 2
      }
    }
    if extent(new.extent) < extent(old.extent) {
      found.opens(
        new.extent == .off
          ? "OCSP responders are no longer asked about clients" : "OCSP responders are asked about leaves only")
    } else if extent(new.extent) > extent(old.extent) {
      found.closes("OCSP responders are asked about clients (ssl_ocsp \(new.extent.rawValue))")
    } else if new.extent != .off, old.responder != new.responder {
      found.other(
        "another OCSP responder is asked about clients: \(new.responder.map { "\($0)" } ?? "that of the certificate")")
    }
  }

  private static func compareMaterial(_ old: ComparedServer, _ new: ComparedServer, _ found: inout TrustChanges) {
    guard let before = old.material?.material, let after = new.material?.material else { return }
    let verifies = old.settings.clientPolicy?.verification != .off && new.settings.clientPolicy?.verification != .off
    if verifies, old.settings.tls?.workloadTrust != new.settings.tls?.workloadTrust {
      if let trust = new.settings.tls?.workloadTrust {
        found.opens("clients may have an SVID that \(trust.inWords) verifies (SPIFFE)")
      } else {
        found.closes("an SVID of the SPIFFE agent's trust domains lets no client in any more")
      }
    }
    if verifies {
      let authorities = (before.clientCAs + before.trustedCAs, after.clientCAs + after.trustedCAs)
      found.set(Set(authorities.0.map(\.named)), Set(authorities.1.map(\.named))) {
        "clients of one more CA get in: \($0)"
      } removed: {
        "clients of this CA no longer get in: \($0)"
      }
      found.compare(before.revocations, after.revocations, of: "clients")
    }
    if new.settings.tls?.verification != .off { comparePins(old, new, &found) }
    let shown = (Set(before.certificates.map(\.certificate.named)), Set(after.certificates.map(\.certificate.named)))
    if shown.0 != shown.1 {
      found.other("shows clients another certificate: \(shown.1.sorted().joined(separator: ", "))")
    }
    let named = (old.settings.tls?.namedCertificates ?? [], new.settings.tls?.namedCertificates ?? [])
    if named.0 != named.1 {
      let names = named.1.map { "\($0.certificate)" }.joined(separator: ", ")
      found.other(
        names.isEmpty ? "handshakes choose no certificates any more" : "handshakes choose the certificate: \(names)")
    }
  }

  /// Pins beside CAs keep clients out; pins alone let them in.
  private static func comparePins(_ old: ComparedServer, _ new: ComparedServer, _ found: inout TrustChanges) {
    func pins(_ server: ComparedServer) -> (set: PinSet?, areAlone: Bool) {
      let isAsked = server.settings.tls?.verification != .off
      return (isAsked ? server.material?.material.clientPins : nil, server.settings.tls?.reliesOnPins ?? false)
    }
    func spellings(_ pins: PinSet?) -> Set<String> { Set(pins?.pins.map { pins?.spelling(of: $0) ?? "" } ?? []) }
    let (before, after) = (pins(old), pins(new))
    let (former, present) = (spellings(before.set), spellings(after.set))
    switch (before.set, after.set) {
    case (nil, nil): return
    case (nil, _?) where !after.areAlone:
      return found.closes(
        "clients must match a pin too (ssl_client_pin): \(present.sorted().joined(separator: "; "))")
    case (_?, nil) where !before.areAlone:
      return found.opens(
        "clients need not match a pin any more (were \(former.sorted().joined(separator: "; ")))")
    default: break
    }
    found.set(former, present) {
      "clients with the pin \($0) get in"
    } removed: {
      "clients with the pin \($0) no longer get in"
    }
    // What a pin alone leaves out: the chain, its end and its revocation.
    if before.set == nil || after.set == nil || before.areAlone != after.areAlone {
      found.flag(
        before.areAlone, after.areAlone,
        opens: "a pin alone lets a client in: no CA, no revocation list and no validity of its chain counts",
        closes: "a pin alone no longer lets a client in")
    }
    if let mode = before.set?.mode, let now = after.set?.mode, mode != now {
      found.other(
        "pins of clients are compared with \(now == .publicKey ? "the key" : "the whole certificate") (ssl_client_pinning)"
      )
    }
  }

  private static func compareProtocol(
    _ old: ServerTLSSettings, _ new: ServerTLSSettings, _ found: inout TrustChanges
  ) {
    found.compare(old.versions, new.versions, of: "clients")
    if old.ciphers != new.ciphers {
      found.other(
        "the cipher list towards clients is \(new.ciphers ?? "the default") (was \(old.ciphers ?? "the default"))")
    }
    if old.groupsInWords != new.groupsInWords {
      found.other(
        "the groups of the key exchange with clients are \(new.groupsInWords) "
          + "(were \(old.groupsInWords))")
    }
    if old.confCommands != new.confCommands { found.other("ssl_conf_command has changed") }
    found.flag(
      old.earlyData, new.earlyData,
      opens: "takes requests in early data, which an attacker can replay (ssl_early_data)",
      closes: "takes no requests in early data")
    if old.ticketKeys != new.ticketKeys || old.ticketStore != new.ticketStore {
      found.other("the keys of session tickets come from elsewhere (ssl_session_ticket_key)")
    }
  }

  // MARK: Locations

  private mutating func compareLocations(_ old: ComparedServer, _ new: ComparedServer) {
    // A server of `stream` has no locations, so those of a server that moves there are not to be compared.
    let before = old.isOfStream == new.isOfStream ? ComparedLocation.all(of: old) : [ComparedLocation.root(of: old)]
    let after = ComparedLocation.all(of: new)
    var shared: Set<TrustChange> = []
    for location in after {
      let place =
        location.isRoot
        ? "\(new.title) (\(new.settings.location))"
        : "location \(location.key) of server \(new.name) (\(location.settings.location))"
      guard let former = before.first(where: { $0.key == location.key }) else {
        changes += location.asNew(in: new).map { $0.about(place) }
        continue
      }
      let found = LocationDifference(former, location).changes
      if location.isRoot { shared = Set(found) }
      // What a location inherits is said once, of its server.
      changes += found.filter { location.isRoot || !shared.contains($0) }.map { $0.about(place) }
    }
    // The first regular expression that matches decides.
    func patterns(_ locations: [ComparedLocation], in others: [ComparedLocation]) -> [String] {
      let known = Set(others.map(\.key))
      return locations.map(\.key).filter { $0.contains("~ ") && known.contains($0) }
    }
    if patterns(before, in: after) != patterns(after, in: before) {
      changes.append(
        TrustChange(
          direction: .other,
          sentence:
            "server \(new.name) (\(new.settings.location)): its locations with regular expressions come in another order"
        ))
    }
    for location in before where !after.contains(where: { $0.key == location.key }) {
      let place = "location \(location.key) of server \(new.name)"
      changes.append(
        TrustChange(
          direction: .other, sentence: "\(place) is gone: other locations get its requests"))
    }
  }
}

extension TrustChange {
  func about(_ place: String) -> TrustChange { TrustChange(direction: direction, sentence: "\(place): \(sentence)") }
}

extension Certificate {
  /// The subject, and the fingerprint, which alone identifies the certificate.
  var named: String { "\(subject) (SHA-256 \(Hex.encode(sha256)))" }
}

extension TrustChanges {
  mutating func compare(_ old: TLSVersions, _ new: TLSVersions, of whom: String) {
    let names: [(TLSVersions, String)] = [
      (.tls10, "TLSv1"), (.tls11, "TLSv1.1"), (.tls12, "TLSv1.2"), (.tls13, "TLSv1.3"),
    ]
    for (version, name) in names {
      flag(
        old.contains(version), new.contains(version), opens: "\(name) is allowed with \(whom)",
        closes: "\(name) is no longer allowed with \(whom)")
    }
  }

  /// Revocation lists by issuer. A list that revokes fewer certificates than before opens.
  mutating func compare(_ old: [RevocationList], _ new: [RevocationList], of whom: String) {
    func issuers(_ lists: [RevocationList]) -> Set<String> { Set(lists.map { "\($0.issuer)" }) }
    guards(issuers(old), issuers(new)) {
      "the revocation list of \($0) counts for \(whom)"
    } removed: {
      "the revocation list of \($0) no longer counts for \(whom)"
    }
    for list in new {
      let former = old.filter { $0.issuer == list.issuer && $0.scope == list.scope }
      guard let former = former.first, !old.contains(where: { $0.sha256 == list.sha256 }) else { continue }
      let sentence = "the revocation list of \(list.issuer) revokes \(list.count) (was \(former.count))"
      if list.count < former.count { opens(sentence) } else { closes(sentence) }
    }
  }
}

extension RevocationFetch.Points {
  fileprivate var inWords: String {
    switch self {
    case .none: "off"
    case .anywhere: "on"
    case .hosts(let hosts): hosts.map { $0.name + ($0.port.map { ":\($0)" } ?? "") }.joined(separator: " ")
    }
  }
}

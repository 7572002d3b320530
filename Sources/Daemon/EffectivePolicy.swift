import Crypto
import Enrolment
import Envelope
import Identity
import Proxy
import TLS
import UpstreamAuth
import Upstream

/// Describes a configuration's policy in words: which clients have access, who certifies them, and which upstreams the
/// proxy trusts.
///
/// Inheritance and defaults decide much that no single line of the configuration says.
struct EffectivePolicy {
  private let http: HTTPSettings
  private let material: KeyMaterial
  private(set) var lines: [String] = []

  init(_ http: HTTPSettings, _ material: KeyMaterial) {
    self.http = http
    self.material = material
    for index in http.servers.indices { describe(server: index) }
  }

  /// The policy of one upstream alone.
  init(of pass: ProxyPassSettings, _ http: HTTPSettings, _ material: KeyMaterial) {
    self.http = http
    self.material = material
    describe(pass)
    // The caller has told the upstream itself.
    lines.removeFirst(min(1, lines.count))
  }

  private mutating func add(_ level: Int, _ name: String, _ text: String) {
    let label = String(repeating: "  ", count: level) + name
    lines.append(label + String(repeating: " ", count: max(1, 18 - label.count)) + text)
  }

  private static let notLoaded = "unknown: its files could not be loaded, see the errors above"

  // MARK: Clients

  private mutating func describe(server index: Int) {
    let server = http.servers[index]
    let names = server.names.map(\.asWritten).filter { !$0.isEmpty }
    lines.append("server \(names.isEmpty ? "(no name)" : names.joined(separator: " "))  \(server.location)")
    for listener in http.listeners where listener.servers.contains(index) {
      let isDefault = listener.defaultServer == index && listener.servers.count > 1
      let words = [listener.isTLS ? " ssl" : "", server.http2.isOn ? " http2" : "", isDefault ? " default_server" : ""]
      add(1, "listen", "\(listener.address)\(words.joined())")
    }
    if let tls = server.tls { describe(tls, index) }
    describe(server.root.clientRules, 1)
    if let stream = server.stream { describe(stream, server.root) }
    for location in (server.root.locations + server.root.conditional).flatMap(\.withNested) {
      describe(location, in: server.root)
    }
    lines.append("")
  }

  private mutating func describe(_ tls: ServerTLSSettings, _ index: Int) {
    // Nobody gets far enough to be judged.
    if tls.rejectsHandshake { return add(1, "handshake", "rejected (ssl_reject_handshake)") }
    guard material.servers.indices.contains(index), let loaded = material.servers[index]?.material else {
      return add(1, "TLS", Self.notLoaded)
    }
    for pair in loaded.certificates { add(1, "certificate", pair.certificate.summary) }
    for named in tls.namedCertificates {
      let key = named.key.map { ", key \($0)" } ?? ""
      add(1, "certificate", "what \(named.certificate) names\(key), loaded in the handshake, which fails without it")
    }
    add(1, "key exchange", tls.groupsInWords)
    add(1, "clients", tls.verification.inWords)
    guard tls.verification != .off else { return }
    if tls.verification != .optionalNoCA {
      add(1, "depth", "\(tls.verifyDepth)")
    }
    if tls.rejection == .reportOnly {
      add(1, "WARNING", "refuses NOBODY: who would be refused is only reported (ssl_verify_report_only on)")
    }
    if tls.rejection == .handshake {
      let reason = http.servers[index].stream == nil ? " (ssl_verify_reject handshake)" : ""
      add(1, "refused by", "a TLS alert\(reason)")
    }
    for authority in loaded.clientCAs { add(1, "CA", authority.summary) }
    for authority in loaded.trustedCAs { add(1, "CA, not named", authority.summary) }
    for list in loaded.revocations { add(1, "CRL", list.summary) }
  }

  /// Deny rules come first, and one allow rule is enough.
  private mutating func describe(_ rules: ClientRules?, _ level: Int) {
    guard let rules else { return }
    for rule in rules.deny { add(level, "deny", "\(rule.spelling)  \(rule.location)") }
    for rule in rules.allow { add(level, "allow", "\(rule.spelling)  \(rule.location)") }
    if rules.allow.isEmpty { add(level, "allow", "all others") } else { add(level, "deny", "all others") }
  }

  // MARK: Upstreams

  private mutating func describe(_ stream: StreamServerSettings, _ root: LocationSettings) {
    if stream.preread.isOn { add(1, "server block", "by the name in a ClientHello that nobody verifies (ssl_preread)") }
    if let words = stream.negotiationWords {
      add(1, "begins with", "\(words), until the client asks for TLS (starttls)")
    }
    lines.append("  connections")
    for line in root.policy { add(2, line.label, line.text) }
    if let pass = root[ProxyPassSettings.self] { return describe(pass) }
    if root.hasContent { add(2, "content", root.contentWords(http)) }
  }

  private mutating func describe(_ location: LocationSettings, in root: LocationSettings) {
    let hasRules = location.clientRules !== root.clientRules
    if !location.hasContent, !hasRules { return }
    lines.append("  location \(location.match.asWritten)")
    if hasRules { describe(location.clientRules, 2) }
    for line in location.policy { add(2, line.label, line.text) }
    if let pass = location[ProxyPassSettings.self] { describe(pass) }
  }

  private mutating func describe(_ pass: ProxyPassSettings) {
    let version = pass.version == .http2 ? ", HTTP/2" : ""
    func located(_ scheme: UpstreamScheme, _ name: String) -> String {
      pass.tcp == nil ? "\(scheme.rawValue)://\(name)\(version)" : "\(name)\(scheme == .https ? ", over TLS" : "")"
    }
    switch pass.target {
    case .group(let index, let scheme):
      let group = http.groups[index]
      let servers = group.servers.map { server in
        "\(server.address)\(server.isBackup ? " (backup)" : "")\(server.isDown ? " (down)" : "")"
      }
      let name = servers == [group.name] ? "" : "\(group.name): "
      add(2, "upstream", located(scheme, name + servers.joined(separator: ", ")))
    case .template(let template, let scheme):
      add(2, "upstream", located(scheme, template.text(http.slotNames)))
    case .url(let template):
      add(2, "upstream", "\(template.text(http.slotNames))\(version)")
      if pass.tls == nil { add(2, "", "502 for an https value: there are no trust settings") }
    }
    if let words = pass.tcp?.negotiationWords {
      add(2, "begins with", "\(words), until the upstream agrees to TLS (proxy_starttls)")
    }
    if let check = pass.healthCheck { add(2, "health", check.inWords) }
    if let names = ClientIdentity.fields(of: pass.clientIdentity) { add(2, "client fields", names) }
    if let envelope = pass.envelope {
      add(2, "envelope", material.envelopes[envelope] == nil ? Self.notLoaded : envelope.inWords)
    }
    describe(pass.authentication)
    guard let tls = pass.tls else { return }
    describe(tls, name: pass.tlsName.text(http.slotNames))
    if let identity = pass.identity {
      add(
        2, "presents",
        "what \(identity.certificate.text(http.slotNames)) names, loaded when a request needs it; 502 without it")
    }
  }

  private mutating func describe(_ asked: UpstreamAuthSettings?) {
    guard let asked else { return }
    let schemes: [(AuthSchemes, String)] = [(.digest, "digest"), (.ntlm, "ntlm"), (.basic, "basic")]
    let names = schemes.filter { asked.schemes.contains($0.0) }.map(\.1).joined(separator: ", ")
    guard let count = material.userFiles[asked.users]?.count else { return add(2, "answers", Self.notLoaded) }
    add(2, "answers", "a 401 by \(names), as one of \(count) users of \(asked.users); 403 for other clients")
    for space in asked.spaces {
      let realm = space.realm.map { ", realm \"\(String(decoding: $0, as: UTF8.self))\"" } ?? ""
      add(2, "", "in \(space.scheme)://\(space.host)\(space.port.map { ":\($0)" } ?? "")\(realm)")
    }
  }

  private mutating func describe(_ tls: UpstreamTLSSettings, name: String) {
    // If files could not be loaded, no policy is shown: half of one would say less than the configuration file does.
    guard let loaded = material.upstreams[tls]?.material else { return add(2, "TLS", Self.notLoaded) }
    switch tls.trust {
    case .anybody, .pinnedLeaf(_, nil, _): add(2, "chain", "NOT verified")
    case .verified, .pinned: add(2, "chain", "must verify, depth \(tls.verifyDepth)")
    case .pinnedLeaf: add(2, "chain", "need NOT verify where a pin matches (proxy_ssl_allow_invalid on)")
    }
    for anchor in loaded.policy.anchors?.certificates ?? [] { add(2, "anchor", anchor.summary) }
    if tls.trust.anchors?.includesSystem == true { add(2, "anchor", "those of the system") }
    for list in loaded.policy.anchors?.revocations ?? [] { add(2, "CRL", list.summary) }
    for anchor in loaded.policy.pins?.certificates ?? [] { add(2, "anchor", "the pinned \(anchor.summary)") }
    add(2, "name", tls.trust.checksName ? "must be \(name)" : "NOT checked")
    if let pins = loaded.policy.pins {
      add(2, "pinned", tls.trust.whatIsPinned(pins.mode))
      for pin in pins.pins { add(2, "pin", pins.spelling(of: pin)) }
    } else {
      add(2, "pin", "none")
    }
    add(2, "key exchange", tls.groupsInWords)
    if let identity = loaded.identity { add(2, "presents", identity.certificate.summary) }
    if case .anybody = tls.trust {
      add(2, "WARNING", "the upstream is not authenticated: an attacker on the path can take its place")
    }
  }
}

extension RevocationList {
  fileprivate var summary: String { "\(issuer), \(count) revoked, until \(nextUpdateText)" }
}

extension TrustTerms {
  fileprivate func whatIsPinned(_ mode: PinningMode) -> String {
    switch (self, mode) {
    case (.pinnedLeaf, .publicKey): "the upstream's own key, whatever its chain"
    case (.pinnedLeaf, .certificate): "the upstream's own certificate, whatever its chain"
    case (.pinned(_, _, _, reportsOnly: true), _): "a mismatch is only REPORTED (proxy_ssl_pin_report_only on)"
    case (_, .publicKey): "the upstream's key; for a chain pin any key of the verified chain"
    case (_, .certificate): "a certificate of the verified chain, byte for byte"
    }
  }
}

extension ClientVerification {
  fileprivate var inWords: String {
    switch self {
    case .off: "anybody: no certificate is asked for (ssl_verify_client off)"
    case .on: "only with a certificate of these CAs (ssl_verify_client on)"
    case .optional: "with a certificate of these CAs, or with none (ssl_verify_client optional)"
    case .optionalNoCA: "anybody; a certificate is asked for but NOT judged (ssl_verify_client optional_no_ca)"
    }
  }
}

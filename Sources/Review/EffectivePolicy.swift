import Crypto
import Enrolment
import Features
import Forward
import Identity
import Loading
import Negotiation
import Observability
import SPIFFE
import TLS
import Traffic
import Upstream

/// Describes a configuration's policy in words: which clients have access, who certifies them, and which upstreams the
/// proxy trusts.
///
/// Inheritance and defaults decide much that no single line of the configuration says.
struct EffectivePolicy {
  private let http: HTTPSettings
  private let material: KeyMaterial
  private(set) var lines: [PolicyLine] = []
  /// The locations of the present server block whose variables never lead to an https upstream.
  private var plain: Set<ObjectIdentifier> = []
  /// By which ways clients without a certificate reach each upstream, in sentences.
  private(set) var doors: [String] = []

  /// `resolved`: as `http.groups`.
  init(_ http: HTTPSettings, _ material: KeyMaterial, _ resolved: [ResolvedGroup] = []) {
    self.http = http
    self.material = material
    for index in http.servers.indices { describe(server: index) }
    doors = UpstreamDoors(http, resolved).lines
  }

  /// The policy of one upstream alone.
  init(of pass: UpstreamPass, _ http: HTTPSettings, _ material: KeyMaterial) {
    self.http = http
    self.material = material
    describe(pass, 2)
    // The caller has told the upstream itself.
    lines.removeFirst(min(1, lines.count))
  }

  private mutating func add(_ level: Int, _ label: String, _ text: String, at place: SourceLocation? = nil) {
    lines.append(PolicyLine(level: level, label: label, text: text, place: place))
  }

  private static let notLoaded = "unknown: its files could not be loaded, see the errors above"

  // MARK: Clients

  private mutating func describe(server index: Int) {
    let server = http.servers[index]
    let names = server.names.map(\.asWritten).filter { !$0.isEmpty }
    let kind = server.stream == nil ? "server" : "stream server"
    add(0, kind, names.isEmpty ? "(no name)" : names.joined(separator: " "), at: server.location)
    for listener in http.listeners(ofServer: index) {
      let isDefault = listener.defaultServer == index && listener.servers.count > 1
      let words = [
        listener.isTLS ? " ssl" : "", server.http2.isOn ? " http2" : "",
        listener.expectsProxyHeader ? " proxy_protocol" : "", isDefault ? " default_server" : "",
      ]
      add(1, "listen", "\(listener.address)\(words.joined())")
    }
    if let stream = server.stream { describe(opening: stream, server.root) }
    if let tls = server.tls {
      describe(tls, index)
    } else if let policy = server.relayedPolicy {
      describe(clientsBy: policy, index)
    } else if server.stream != nil {
      add(1, "clients", "anybody, without TLS here")
    }
    for line in server.root.clientPolicy(of: server) { add(1, line.label, line.text) }
    describe(server.root.clientRules, 1)
    if let stream = server.stream {
      return describe(content: stream, server.root)
    }
    plain = http.plainLocations(ofServer: index)
    for location in (server.root.locations + server.root.conditional).flatMap(\.withNested) {
      describe(location, in: server.root)
    }
    for line in http.features.serverPolicy(server.root) { add(1, line.label, line.text) }
  }

  /// What a server of `stream` does before TLS.
  private mutating func describe(opening stream: StreamServerSettings, _ root: LocationSettings) {
    for line in root.openingPolicy { add(1, line.label, line.text) }
    if let asked = stream.asked {
      add(1, "starttls", "clients ask for TLS in the words of \(asked); nobody goes on without it")
    }
    if stream.preread.isOn {
      add(1, "ssl_preread", "the name of a ClientHello selects the server block; nothing of it is verified")
    }
  }

  /// What becomes of the connections of a server of `stream`.
  private mutating func describe(content stream: StreamServerSettings, _ root: LocationSettings) {
    if stream.lifetime > 0 {
      add(1, "lifetime", "\(Self.time(stream.lifetime)) at most (connection_max_time)")
    }
    for line in root.policy { add(1, line.label, line.text) }
    if let pass = root[UpstreamPass.self] {
      describe(pass, 1)
    } else if root.hasContent {
      add(1, "content", root.contentWords(http))
    }
  }

  private static func time(_ milliseconds: Int) -> String {
    switch milliseconds {
    case let time where time % 3_600_000 == 0: "\(time / 3_600_000) h"
    case let time where time % 60_000 == 0: "\(time / 60_000) min"
    case let time where time % 1000 == 0: "\(time / 1000) s"
    default: "\(milliseconds) ms"
    }
  }

  private mutating func describe(_ tls: ServerTLSSettings, _ index: Int) {
    // Nobody gets far enough to be judged.
    if tls.rejectsHandshake { return add(1, "handshake", "rejected (ssl_reject_handshake)") }
    guard material.servers.indices.contains(index), let loaded = material.servers[index]?.material else {
      return add(1, "TLS", Self.notLoaded)
    }
    for pair in loaded.certificates { add(1, "certificate", pair.certificate.summary) }
    if let reference = tls.workloadIdentity {
      add(1, "certificate", "\(reference), from the SPIFFE agent; without it, or after its end, handshakes are refused")
    }
    for named in tls.namedCertificates {
      let key = named.key.map { ", key \($0)" } ?? ""
      add(1, "certificate", "what \(named.certificate) names\(key), loaded in the handshake, which fails without it")
    }
    add(1, "key exchange", tls.groupsInWords)
    if case .names(let names) = tls.protocols {
      add(1, "ALPN", "\(names.joined(separator: " ")), if a client offers any")
    }
    describe(clientsBy: tls, loaded, index)
  }

  /// The clients of a server without TLS.
  private mutating func describe(clientsBy policy: ServerTLSSettings, _ index: Int) {
    guard material.servers.indices.contains(index), let loaded = material.servers[index]?.material else {
      return add(1, "clients", Self.notLoaded)
    }
    describe(clientsBy: policy, loaded, index)
  }

  private mutating func describe(clientsBy tls: ServerTLSSettings, _ loaded: ServerTLSMaterial, _ index: Int) {
    add(1, "clients", tls.clientsInWords)
    guard tls.verification != .off else { return }
    if tls.verification != .optionalNoCA, !tls.reliesOnPins {
      add(1, "depth", "\(tls.verifyDepth)")
    }
    if let pins = loaded.clientPins { describe(pins, tls) }
    if tls.clientPurpose == .any, !tls.reliesOnPins {
      add(1, "purpose", "NOT judged: a certificate need not be one for clients (ssl_client_purpose any)")
    }
    if tls.rejection == .reportOnly {
      add(1, "WARNING", "refuses NOBODY: who would be refused is only reported (ssl_verify_report_only on)")
    }
    if tls.rejection == .handshake {
      let isOfStream = http.servers[index].stream != nil
      add(1, "refused by", isOfStream ? "a TLS alert" : "a TLS alert (ssl_verify_reject handshake)")
    }
    if let trust = tls.workloadTrust { add(1, "CA", "\(trust.inWords), from the SPIFFE agent") }
    for authority in loaded.clientCAs { add(1, "CA", authority.summary) }
    for authority in loaded.trustedCAs { add(1, "CA, not named", authority.summary) }
    for list in loaded.revocations { add(1, "CRL", list.summary) }
  }

  /// The pins of clients, and what a pin alone does not give.
  private mutating func describe(_ pins: PinSet, _ tls: ServerTLSSettings) {
    switch (tls.reliesOnPins, pins.mode) {
    case (false, .publicKey):
      add(1, "pinned", "the client's key too; for a chain pin any key of the verified chain (ssl_client_pin)")
    case (false, .certificate): add(1, "pinned", "the client's certificate too, byte for byte (ssl_client_pin)")
    case (true, .publicKey): add(1, "pinned", "the client's own key, which the handshake proves (ssl_client_pin)")
    case (true, .certificate): add(1, "pinned", "the client's own certificate, byte for byte (ssl_client_pin)")
    }
    for pin in pins.pins {
      guard pins.mode == .certificate, case .certificate(let certificate) = pin.target else {
        add(1, "pin", pins.spelling(of: pin))
        continue
      }
      add(1, "pin", "\(pins.spelling(of: pin)), \(certificate.summary)")
    }
    guard tls.reliesOnPins else { return }
    let hasOnlyFiles = pins.mode == .certificate && pins.certificates.count == pins.pins.count
    add(
      1, "NOT judged",
      hasOnlyFiles
        ? "revocation: a client gets in until its certificate ends or its pin is removed"
        : "validity, revocation and names: a client gets in until its pin is removed")
  }

  /// Deny rules come first, and one allow rule is enough.
  private mutating func describe(_ rules: ClientRules?, _ level: Int) {
    guard let rules else { return }
    for rule in rules.deny { add(level, "deny", rule.spelling, at: rule.location) }
    for rule in rules.allow { add(level, "allow", rule.spelling, at: rule.location) }
    if rules.allow.isEmpty { add(level, "allow", "all others") } else { add(level, "deny", "all others") }
  }

  // MARK: Upstreams

  private mutating func describe(_ location: LocationSettings, in root: LocationSettings) {
    let hasRules = location.clientRules !== root.clientRules
    let policy = location.policy
    if !location.hasContent, !hasRules, policy.isEmpty { return }
    add(1, PolicyLine.location, location.match.asWritten)
    if hasRules { describe(location.clientRules, 2) }
    for line in policy { add(2, line.label, line.text) }
    if let pass = location[UpstreamPass.self] {
      describe(pass, 2, isPlain: plain.contains(ObjectIdentifier(location)))
    }
  }

  /// `isPlain`: its variables never lead to an https upstream.
  private mutating func describe(_ pass: UpstreamPass, _ level: Int, isPlain: Bool = false) {
    let version = pass.version == .http2 ? ", HTTP/2" : ""
    switch pass.target.upstream {
    case .group(let index, let scheme):
      let group = http.groups[index]
      let servers = group.servers.map { server in
        "\(server.address)\(server.isBackup ? " (backup)" : "")\(server.isDown ? " (down)" : "")"
      }
      let name = servers == [group.name] ? "" : "\(group.name): "
      add(level, "upstream", "\(pass.prefix(scheme))\(name)\(servers.joined(separator: ", "))\(version)")
    case .template(let template, let scheme):
      add(level, "upstream", "\(pass.prefix(scheme))\(template.text(http.slotNames))\(version)")
    case .url(let template):
      add(level, "upstream", "\(template.text(http.slotNames))\(version)")
      if pass.trust.tls == nil, !isPlain { add(level, "", "502 for an https value: there are no trust settings") }
    }
    if let tcp = pass.tcp { describe(connection: tcp, pass, level) }
    for line in pass.policy(material.parts) { add(level, line.label, line.text ?? Self.notLoaded) }
    guard let tls = pass.trust.tls, !isPlain else { return }
    describe(tls, name: pass.trust.name.text(http.slotNames), level)
    if let identity = pass.trust.identity {
      let what = pass.tcp == nil ? "request" : "connection"
      add(
        level, "presents",
        "what \(identity.certificate.text(http.slotNames)) names, loaded when a \(what) needs it; 502 without it")
    }
  }

  /// How a server of `stream` connects to its upstream.
  private mutating func describe(connection tcp: TCPPassSettings, _ pass: UpstreamPass, _ level: Int) {
    if let asked = tcp.opening?.asked {
      add(level, "connection", "TLS, asked for in the words of \(asked) (proxy_starttls)")
    } else {
      add(level, "connection", pass.trust.tls == nil ? "without TLS (proxy_ssl off)" : "TLS (proxy_ssl on)")
    }
    if let header = pass.origin.header {
      add(level, "tells", "the upstream who the client is, by a PROXY header (\(header.inWords))")
    }
  }

  private mutating func describe(_ tls: UpstreamTLSSettings, name: String, _ level: Int) {
    // If files could not be loaded, no policy is shown: half of one would say less than the configuration file does.
    guard let loaded = material.upstreams[tls]?.material else { return add(level, "TLS", Self.notLoaded) }
    let first = lines.count
    defer {
      // A name is of one upstream, and a warning is told for each.
      for index in first..<lines.count where !["name", "WARNING"].contains(lines[index].label) {
        lines[index].isOfTrust = true
      }
    }
    switch tls.trust {
    case .anybody, .pinnedLeaf(_, nil, _): add(level, "chain", "NOT verified")
    case .verified, .pinned: add(level, "chain", "must verify, depth \(tls.verifyDepth)")
    case .workload(let trust, _):
      add(level, "chain", "must verify, depth \(tls.verifyDepth)")
      add(level, "anchor", "\(trust.inWords), from the SPIFFE agent")
    case .pinnedLeaf: add(level, "chain", "need NOT verify where a pin matches (proxy_ssl_allow_invalid on)")
    }
    for anchor in loaded.policy.anchors?.certificates ?? [] { add(level, "anchor", anchor.summary) }
    if tls.trust.anchors?.includesSystem == true { add(level, "anchor", "those of the system") }
    for list in loaded.policy.anchors?.revocations ?? [] { add(level, "CRL", list.summary) }
    for anchor in loaded.policy.pins?.certificates ?? [] { add(level, "anchor", "the pinned \(anchor.summary)") }
    if case .workload(_, let ids) = tls.trust {
      add(level, "name", "must be the SPIFFE ID \(ids.map(\.description).joined(separator: " or "))")
    } else {
      add(level, "name", tls.trust.checksName ? "must be \(name)" : "NOT checked")
    }
    if let pins = loaded.policy.pins {
      add(level, "pinned", tls.trust.whatIsPinned(pins.mode))
      for pin in pins.pins { add(level, "pin", pins.spelling(of: pin)) }
    } else {
      add(level, "pin", "none")
    }
    add(level, "key exchange", tls.groupsInWords)
    if let identity = loaded.identity { add(level, "presents", identity.certificate.summary) }
    if let reference = tls.workloadIdentity {
      add(level, "presents", "\(reference), from the SPIFFE agent; without it, no upstream gets a request")
    }
    if case .anybody = tls.trust {
      add(level, "WARNING", "the upstream is not authenticated: an attacker on the path can take its place")
    }
  }
}

extension RevocationList {
  fileprivate var summary: String {
    "\(issuer), \(count) revoked, until \(nextUpdateText)" + (scope.words.map { ", covers only \($0)" } ?? "")
  }
}

extension WorkloadTrust {
  /// Which bundles.
  var inWords: String {
    switch self {
    case .everyDomain: "the bundle of each SVID's own trust domain"
    case .domain(let domain): "the bundle of \(domain) alone"
    }
  }
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

extension ServerTLSSettings {
  fileprivate var clientsInWords: String {
    guard reliesOnPins else { return verification.inWords }
    return switch verification {
    case .off: verification.inWords
    case .on: "only with a pinned certificate, of any CA or none (ssl_verify_client on)"
    case .optional: "with a pinned certificate, of any CA or none, or with no certificate (ssl_verify_client optional)"
    case .optionalNoCA:
      "with a pinned certificate, of any CA or none, or with no certificate (ssl_verify_client optional_no_ca)"
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

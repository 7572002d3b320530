import Crypto
import Features
import Forward
import Identity
import Loading
import Negotiation
import SPIFFE
import TLS
import Traffic
import Transport
import Upstream

/// What changes about the upstream of one `proxy_pass`: where requests go, whom sallyport trusts there, what it shows
/// and tells.
struct UpstreamDifference {
  private let old: UpstreamPass
  private let new: UpstreamPass
  private let before: ComparedConfiguration
  private let after: ComparedConfiguration

  init(
    _ old: UpstreamPass, _ before: ComparedConfiguration, _ new: UpstreamPass, _ after: ComparedConfiguration
  ) {
    self.old = old
    self.before = before
    self.new = new
    self.after = after
  }

  /// What goes to the upstream.
  private var traffic: String { new.tcp == nil ? "requests" : "connections" }

  func compare(_ found: inout TrustChanges) {
    compareDestinations(&found)
    compareSchemes(&found)
    compareOpenings(&found)
    if let one = old.trust.tls, let other = new.trust.tls { compareTrust(one, other, &found) }
    compareOrigins(&found)
    comparePresented(&found)
    UpstreamPass.compareParts(old, new, after.http.features, &found)
    compareFields(&found)
  }

  // MARK: Where requests go

  private static func addresses(_ pass: UpstreamPass, _ http: HTTPSettings) -> Set<String> {
    switch pass.target.upstream {
    case .group(let index, _):
      Set(http.groups.indices.contains(index) ? http.groups[index].servers.map(\.address.description) : [])
    case .template(let template, _), .url(let template): [template.text(http.slotNames)]
    }
  }

  private func compareDestinations(_ found: inout TrustChanges) {
    found.set(Self.addresses(old, before.http), Self.addresses(new, after.http)) {
      "\(traffic) go to \($0)"
    } removed: {
      "\(traffic) no longer go to \($0)"
    }
    let paths = (
      old.target.uri.map { String(decoding: $0, as: UTF8.self) },
      new.target.uri.map { String(decoding: $0, as: UTF8.self) }
    )
    if paths.0 != paths.1 {
      found.other("requests go to the path \(paths.1 ?? "of the client") (was \(paths.0 ?? "that of the client"))")
    }
  }

  /// Over TLS or not. Where a value says its scheme, a request can go out in plaintext, and one to an https value goes out
  /// if there are trust settings.
  private func compareSchemes(_ found: inout TrustChanges) {
    let anybody = new.trust.tls.map { Self.isVerified($0) ? "" : ", to anybody" } ?? ""
    switch (old.scheme, new.scheme) {
    case (.https?, .http?): found.opens("\(traffic) go to the upstream in plaintext")
    case (.https?, nil): found.opens("requests go to the upstream in plaintext if the variables of proxy_pass say so")
    case (nil, .http?): found.opens("all requests go to the upstream in plaintext")
    case (.http?, .https?): found.closes("\(traffic) go to the upstream over TLS\(anybody)")
    case (nil, .https?): found.closes("all requests go to the upstream over TLS\(anybody)")
    case (.http?, nil):
      found.other("requests go to the upstream over TLS if the variables of proxy_pass say so\(anybody)")
    case (nil, nil) where old.trust.tls == nil && new.trust.tls != nil:
      found.opens("requests go to https upstreams if the variables of proxy_pass say so\(anybody)")
    case (nil, nil) where old.trust.tls != nil && new.trust.tls == nil:
      found.closes("no request goes to an https upstream: there are no trust settings")
    case (.http?, .http?), (.https?, .https?), (nil, nil): break
    }
  }

  /// How `stream` asks an upstream for TLS.
  private func compareOpenings(_ found: inout TrustChanges) {
    let asked = (old.tcp?.opening?.asked, new.tcp?.opening?.asked)
    guard asked.0 != asked.1 else { return }
    found.other(
      asked.1.map { "the upstream is asked for TLS in the words of \($0) (proxy_starttls)" }
        ?? "the upstream is no longer asked for TLS (proxy_starttls)")
  }

  /// What a `proxy_pass` tells the upstream of the connection.
  private func compareOrigins(_ found: inout TrustChanges) {
    func local(_ origin: OriginSettings, _ names: [Int: String]) -> String {
      origin.local?.text(names) ?? origin.fixed.local?.description ?? "chosen by the system"
    }
    let addresses = (local(old.origin, before.http.slotNames), local(new.origin, after.http.slotNames))
    if addresses.0 != addresses.1 {
      found.other("connections to the upstream come from the address \(addresses.1) (was \(addresses.0))")
    }
    if old.origin.header != new.origin.header {
      found.other(
        new.origin.header.map { "the upstream is told the client by a PROXY header (\($0.inWords))" }
          ?? "the upstream is no longer told the client by a PROXY header")
    }
    if old.request.body != new.request.body { found.other("the upstream gets another body (proxy_set_body)") }
    let follows = (!old.response.ignoredFields.contains(.redirect), !new.response.ignoredFields.contains(.redirect))
    found.flag(
      follows.0, follows.1, opens: "the upstream may lead a request to any location (X-Accel-Redirect)",
      closes: "the upstream can't lead a request to another location (X-Accel-Redirect is ignored)")
  }

  // MARK: Whom sallyport trusts

  private static func isVerified(_ tls: UpstreamTLSSettings) -> Bool {
    if case .anybody = tls.trust { false } else { true }
  }

  /// An SVID has an ID, which is checked, in place of a name.
  private static func ignoresName(_ tls: UpstreamTLSSettings) -> Bool {
    isVerified(tls) && !tls.trust.checksName && tls.trust.bundles == nil
  }

  private func compareTrust(_ one: UpstreamTLSSettings, _ other: UpstreamTLSSettings, _ found: inout TrustChanges) {
    compareTerms(one.trust, other.trust, &found)
    found.flag(
      Self.ignoresName(one), Self.ignoresName(other),
      opens: "the name in the upstream's certificate is not checked",
      closes: "the name in the upstream's certificate is checked")
    let names = (old.trust.name.text(before.http.slotNames), new.trust.name.text(after.http.slotNames))
    if one.trust.checksName, other.trust.checksName, names.0 != names.1 {
      found.other("the upstream's certificate must have the name \(names.1) (was \(names.0))")
    }
    let policies = (before.material.upstreams[one]?.material, after.material.upstreams[other]?.material)
    if let policy = policies.0?.policy, let next = policies.1?.policy {
      compareAnchors(policy, next, &found)
    }
    if other.verifyDepth > one.verifyDepth {
      found.opens("the upstream's chain may have depth \(other.verifyDepth) (was \(one.verifyDepth))")
    }
    if other.verifyDepth < one.verifyDepth {
      found.closes("the upstream's chain may have only depth \(other.verifyDepth) (was \(one.verifyDepth))")
    }
    found.compare(one.versions, other.versions, of: "the upstream")
    if one.ciphers != other.ciphers {
      found.other(
        "the cipher list towards the upstream is \(other.ciphers ?? "the default") (was \(one.ciphers ?? "the default"))"
      )
    }
    if one.groupsInWords != other.groupsInWords {
      found.other(
        "the groups of the key exchange with the upstream are \(other.groupsInWords) "
          + "(were \(one.groupsInWords))")
    }
    if one.confCommands != other.confCommands { found.other("proxy_ssl_conf_command has changed") }
  }

  private func compareTerms(_ one: TrustSettings, _ other: TrustSettings, _ found: inout TrustChanges) {
    func isReport(_ terms: TrustSettings) -> Bool {
      if case .pinned(_, _, _, reportsOnly: true) = terms { true } else { false }
    }
    switch (one, other) {
    case (.anybody, .anybody): break
    case (_, .anybody):
      found.opens("the upstream is no longer verified: anybody can take its place (proxy_ssl_verify off)")
    case (.anybody, _): found.closes("the upstream is verified")
    case (.workload(let before, let ids), .workload(let after, let others)):
      if before != after { found.other("the upstream is verified by \(after.inWords) (SPIFFE)") }
      found.set(Set(ids.map(\.description)), Set(others.map(\.description))) {
        "the upstream may have the SPIFFE ID \($0)"
      } removed: {
        "the upstream may no longer have the SPIFFE ID \($0)"
      }
    case (_, .workload(let trust, let ids)):
      found.other(
        "the upstream must have a SPIFFE ID, \(ids.map(\.description).joined(separator: " or ")), verified by \(trust.inWords)"
      )
    case (.workload, _): found.opens("the upstream needs no SPIFFE ID any more (proxy_ssl_spiffe_id)")
    case (.pinnedLeaf, .pinnedLeaf): break
    case (_, .pinnedLeaf):
      found.opens(
        "a chain that does not verify is accepted where a pin matches (proxy_ssl_allow_invalid, or proxy_ssl_verify off)"
      )
    case (.pinnedLeaf, _): found.closes("the upstream's chain must verify")
    default: break
    }
    found.flag(
      isReport(one), isReport(other), opens: "a pin that does not match is only reported (proxy_ssl_pin_report_only)",
      closes: "a pin that does not match refuses the upstream")
  }

  private func compareAnchors(_ one: TrustPolicy, _ other: TrustPolicy, _ found: inout TrustChanges) {
    found.set(
      Set((one.anchors?.certificates ?? []).map(\.named)), Set((other.anchors?.certificates ?? []).map(\.named))
    ) {
      "the upstream's certificate may come from the CA \($0)"
    } removed: {
      "the upstream's certificate may no longer come from the CA \($0)"
    }
    if let before = old.trust.tls?.trust.anchors, let after = new.trust.tls?.trust.anchors {
      found.flag(
        before.includesSystem, after.includesSystem,
        opens: "every CA of the system may issue the upstream's certificate",
        closes: "the system's CAs may no longer issue the upstream's certificate")
    }
    found.compare(one.anchors?.revocations ?? [], other.anchors?.revocations ?? [], of: "the upstream")
    switch (one.pins, other.pins) {
    case (.some(let pins), nil):
      found.opens(
        "the upstream's key is no longer pinned (was \(pins.pins.map { pins.spelling(of: $0) }.sorted().joined(separator: ", ")))"
      )
    case (nil, .some(let pins)):
      found.closes(
        "the upstream's key is pinned: \(pins.pins.map { pins.spelling(of: $0) }.sorted().joined(separator: ", "))")
    case (let pins?, let next?):
      func spellings(_ pins: PinSet) -> Set<String> {
        Set(pins.pins.map { "\($0.scope == .chain ? "chain " : "")\(pins.spelling(of: $0))" })
      }
      found.set(spellings(pins), spellings(next)) {
        "one more pin counts: \($0)"
      } removed: {
        "this pin no longer counts: \($0)"
      }
      if pins.mode != next.mode {
        found.other("pins are compared with \(next.mode == .publicKey ? "the key" : "the whole certificate")")
      }
    case (nil, nil): break
    }
  }

  // MARK: What sallyport shows and tells

  private func comparePresented(_ found: inout TrustChanges) {
    func shown(_ pass: UpstreamPass, _ configuration: ComparedConfiguration) -> String? {
      if let identity = pass.trust.identity { return "what \(identity.certificate.asWritten) names" }
      if let reference = pass.trust.tls?.workloadIdentity { return "\(reference), from the SPIFFE agent" }
      return pass.trust.tls.flatMap { configuration.material.upstreams[$0]?.material.identity?.certificate.named }
    }
    let (one, other) = (shown(old, before), shown(new, after))
    if one != other {
      found.other(
        other.map { "shows the upstream another client certificate: \($0)" }
          ?? "shows the upstream no client certificate any more (was \(one ?? ""))")
    }
  }

  private func compareFields(_ found: inout TrustChanges) {
    func fields(_ pass: UpstreamPass, _ names: [Int: String]) -> [String: String] {
      Dictionary(
        pass.request.fields.map { field in
          let values = field.values.isEmpty ? field.candidates : field.values
          return (String(decoding: field.name, as: UTF8.self), values.map { $0.text(names) }.joined(separator: ", "))
        },
        uniquingKeysWith: { $0 + ", " + $1 })
    }
    let (one, other) = (fields(old, before.http.slotNames), fields(new, after.http.slotNames))
    for name in Set(one.keys).union(other.keys).sorted() where one[name] != other[name] {
      switch (one[name], other[name]) {
      case (let value?, nil):
        found.opens(
          "the field \(name) is no longer set (was \(Self.shown(name, value))): a client's own field goes to the upstream"
        )
      case (nil, let value?): found.closes("the field \(name) is set to \(Self.shown(name, value))")
      case (let value?, let next?):
        found.other("the field \(name) is \(Self.shown(name, next)) (was \(Self.shown(name, value)))")
      case (nil, nil): break
      }
    }
    found.flag(
      old.request.passesFields, new.request.passesFields, opens: "the client's fields go to the upstream",
      closes: "the client's fields no longer go to the upstream")
  }

  /// A constant value of a field with credentials is not for a report.
  private static func shown(_ name: String, _ value: String) -> String {
    ["authorization", "cookie", "proxy-authorization"].contains(name.lowercased()) && !value.contains("$")
      ? "********" : "\"\(value)\""
  }
}

extension ProxyHeaderForm {
  /// `version 2, with the client's certificate`
  var inWords: String {
    switch self {
    case .version1: "version 1"
    case .version2(hasCertificate: false): "version 2"
    case .version2(hasCertificate: true): "version 2, with the client's certificate"
    }
  }
}

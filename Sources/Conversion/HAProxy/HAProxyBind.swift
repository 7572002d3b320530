import Language

/// A `bind` line: where clients come in, and the TLS there. With `crt-list`, it is one for each certificate.
struct HAProxyBind {
  let addresses: [String]
  let isTLS: Bool
  let takesProxyProtocol: Bool
  /// The names that select it; empty: all that no other one has.
  private(set) var names: [String] = []
  /// Whether it serves nobody, but refuses names that nobody has (`strict-sni`).
  private(set) var rejects = false
  /// Whether it serves a name that no other one has.
  private(set) var isDefault = false
  /// Whether others share its addresses by their names.
  private(set) var isShared = false
  private let options: [String: [String]]
  private let globals: HAProxyGlobals
  let line: HAProxyLine
  /// Lines of a server block.
  private(set) var statements: [(String, [String])] = []
  private(set) var verification = "off"
  private(set) var changes: [String] = []
  private(set) var refusals: [String] = []

  init(_ line: HAProxyLine, _ globals: HAProxyGlobals) {
    self.line = line
    self.globals = globals
    let found = HAProxyOptions(line.words.dropFirst(2), Self.options)
    var refusals = found.unknown.map { "\"\($0)\" isn't known, and it may be a check" }
    let options = found.values["ssl"] == nil ? found.values : globals.bind.merging(found.values) { $1 }
    self.options = options
    isTLS = options["ssl"] != nil
    takesProxyProtocol = options["accept-proxy"] != nil
    var addresses: [String] = []
    for text in line.word(1).split(separator: ",", omittingEmptySubsequences: false) {
      if let address = Self.address(String(text)) {
        addresses.append(address)
      } else {
        refusals.append("\"\(text)\" needs an IP address with a port, or unix@/PATH")
      }
    }
    if line.word(1).isEmpty { refusals.append("an address is missing") }
    self.addresses = addresses
    self.refusals = refusals
    for name in ["interface", "transparent", "namespace", "ca-verify-file"]
    where options[name] != nil {
      self.refusals.append(
        "\"\(name)\" can't be had: \(Self.instead[name] ?? "name the addresses and certificates in lines of their own")"
      )
    }
    if options["accept-proxy"] != nil {
      changes.append("whose header of the PROXY protocol is believed, set_real_ip_from must say")
    }
    guard isTLS else {
      if options["verify"] != nil || options["ca-file"] != nil {
        self.refusals.append("verify and ca-file need \"ssl\"")
      }
      return
    }
    if !usesList { tls(options) }
  }

  /// Whether the names of certificates choose among them.
  private var usesList: Bool {
    options["crt-list"] != nil || options["strict-sni"] != nil || (options["crt"]?.count ?? 0) > 1
  }

  /// Whether all binds of the same line have the same TLS but for the certificate.
  private(set) var isLikeOthers = true

  /// Whether it shows its certificate for this name, among all binds of the frontend.
  func shows(_ host: String, among all: [HAProxyBind]) -> Bool {
    let peers = all.filter { $0.line == line && !$0.rejects }
    let parent = host.split(separator: ".", maxSplits: 1, omittingEmptySubsequences: false).last ?? ""
    let words = [host, HAProxyCertificateList.word("*.\(parent)") ?? host]
    for word in words {
      if let owner = peers.first(where: { $0.names.contains(word) }) { return owner.names == names }
    }
    return isDefault && !rejects
  }

  /// The same line for each certificate of its list, or for each `crt`; itself for a single one. Notes tell what of the
  /// list can't be had.
  func divided() -> (binds: [HAProxyBind], faults: [ConversionNote]) {
    guard isTLS, usesList else { return ([self], []) }
    let certificates = options["crt"] ?? []
    if let path = options["crt-list"]?.last, !certificates.isEmpty {
      return ([self], [ConversionNote(.refused, line.line, "crt beside crt-list \(path): use the list alone")])
    }
    let list =
      options["crt-list"]?.last.map { HAProxyCertificateList($0, at: line.line, globals) }
      ?? HAProxyCertificateList(certificates, at: line.line, globals)
    var binds: [HAProxyBind] = []
    if options["strict-sni"] != nil {
      var other = self
      other.rejects = true
      other.isDefault = true
      other.isShared = true
      other.statements = [("ssl_reject_handshake", ["on"])]
      binds.append(other)
    }
    for (index, entry) in list.entries.enumerated() {
      var other = self
      other.isShared = true
      // The first certificate is shown where no name fits.
      other.isDefault = index == 0 && options["strict-sni"] == nil
      other.names = entry.names
      var merged = options.merging(entry.options) { $1 }
      merged["crt"] = [entry.certificate]
      other.tls(merged)
      other.isLikeOthers = list.entries.allSatisfy { $0.options == entry.options }
      if other.names.isEmpty, !other.isDefault {
        other.refusals.append("the names of \(entry.certificate) aren't known here")
      }
      binds.append(other)
    }
    return (binds.isEmpty ? [self] : binds, list.faults)
  }

  private mutating func tls(_ options: [String: [String]]) {
    let certificates = options["crt"] ?? []
    if certificates.count != 1 || certificates[0].hasSuffix("/") || certificates[0].hasPrefix("@") {
      refusals.append(
        "a file with a certificate and its key is taken, and no folder: name each file")
    } else {
      let path = globals.certificate(certificates[0])
      statements.append(("ssl_certificate", [path]))
      statements.append(("ssl_certificate_key", [path]))
    }
    let authorities = options["ca-file"]?.last
    switch options["verify"]?.last ?? "none" {
    case "none":
      changes.append("HAProxy verifies no client here (verify none): whoever reaches this port gets in, as before")
    case "optional":
      verification = "optional"
      changes.append("as in HAProxy, a client without a certificate gets in where no rule wants one")
    case "required": verification = "on"
    default: refusals.append("verify is none, optional or required")
    }
    if verification != "off" {
      if let authorities, !authorities.hasPrefix("@"), !authorities.hasSuffix("/") {
        statements.append(("ssl_client_certificate", [globals.authority(authorities)]))
        statements.append(("ssl_verify_depth", ["10"]))
      } else {
        refusals.append("verify needs a file with CAs: ca-file FILE")
      }
      for list in options["crl-file"] ?? [] { statements.append(("ssl_crl", [globals.authority(list)])) }
    }
    statements.append(("ssl_verify_client", [verification]))
    for name in ["crt-ignore-err", "ca-ignore-err"] where options[name] != nil {
      changes.append("\(name) isn't carried over: a client whose certificate has a fault is refused")
    }
    if options["allow-0rtt"] != nil { changes.append("early data isn't accepted (ssl_early_data)") }
    if let ciphers = options["ciphers"]?.last { statements.append(("ssl_ciphers", [ciphers])) }
    if let suites = options["ciphersuites"]?.last { statements.append(("ssl_conf_command", ["Ciphersuites", suites])) }
    if let curves = options["curves"]?.last ?? options["ecdhe"]?.last {
      statements.append(("ssl_ecdh_curve", [curves]))
    }
    if options["no-tls-tickets"] != nil { statements.append(("ssl_session_tickets", ["off"])) }
    let versions = HAProxyVersions(options)
    if let words = versions.words { statements.append(("ssl_protocols", words)) }
    refusals += versions.refusals
    usesHTTP2 = options["alpn"]?.last.map { $0.split(separator: ",").contains("h2") } ?? true
    if options["npn"] != nil { changes.append("NPN isn't there; ALPN is") }
  }

  private(set) var usesHTTP2 = false

  private static func address(_ text: String) -> String? {
    if text.hasPrefix("unix@") { return text.hasPrefix("unix@/") ? "unix:\(text.dropFirst(5))" : nil }
    if text.hasPrefix("/") { return "unix:\(text)" }
    for prefix in ["ipv4@", "ipv6@"] where text.hasPrefix(prefix) { return Endpoint(String(text.dropFirst(5)))?.listen }
    return Endpoint(text)?.listen
  }

  static let options = HAProxyOptions.Names(valued: valued, switches: switches)
  private static let valued: Set<String> = [
    "crt", "ca-file", "ca-verify-file", "crl-file", "verify", "ciphers", "ciphersuites", "curves", "ecdhe", "alpn",
    "npn",
    "ssl-min-ver", "ssl-max-ver", "crt-list", "crt-ignore-err", "ca-ignore-err", "interface", "name", "maxconn",
    "backlog",
    "mode", "user", "group", "uid", "gid", "id", "nice", "process", "thread", "tcp-ut", "mss", "namespace", "level",
    "severity-output", "shards",
  ]
  private static let switches: Set<String> = [
    "ssl", "accept-proxy", "strict-sni", "no-sslv3", "no-tlsv10", "no-tlsv11", "no-tlsv12", "no-tlsv13",
    "no-tls-tickets",
    "tls-ticket-keys", "force-tlsv10", "force-tlsv11", "force-tlsv12", "force-tlsv13", "allow-0rtt", "v4v6", "v6only",
    "tfo", "transparent", "defer-accept", "prefer-client-ciphers", "generate-certificates", "no-strict-sni",
  ]
  private static let instead = [
    "interface": "listen on the interface's address",
    "transparent": "sallyport listens on its own addresses",
  ]
}

/// Versions of TLS by `ssl-min-ver` and the like.
struct HAProxyVersions {
  private(set) var words: [String]?
  private(set) var refusals: [String] = []

  init(_ options: [String: [String]]) {
    let known = ["TLSv1.0", "TLSv1.1", "TLSv1.2", "TLSv1.3"]
    var lowest = 2, highest = 3
    var isSaid = false
    for (name, isLowest) in [("ssl-min-ver", true), ("ssl-max-ver", false)] {
      guard let text = options[name]?.last else { continue }
      guard let place = known.firstIndex(of: text) else {
        refusals.append("\(name): TLSv1.0 to TLSv1.3")
        continue
      }
      if isLowest { lowest = place } else { highest = place }
      isSaid = true
    }
    for (place, name) in ["tlsv10", "tlsv11", "tlsv12", "tlsv13"].enumerated() {
      if options["force-\(name)"] != nil { (lowest, highest, isSaid) = (place, place, true) }
    }
    var allowed = lowest <= highest ? Array(lowest...highest) : []
    for (place, name) in ["tlsv10", "tlsv11", "tlsv12", "tlsv13"].enumerated() where options["no-\(name)"] != nil {
      if allowed.contains(place) { isSaid = true }
      allowed.removeAll { $0 == place }
    }
    if allowed.isEmpty { refusals.append("no version of TLS is left") }
    if isSaid { words = allowed.map { $0 == 0 ? "TLSv1" : known[$0] } }
  }
}

/// The server of `stream` that a command line of ghostunnel's stands for.
struct GhostunnelServer {
  private(set) var block: ConvertedBlock
  private var flags: [String: [GhostunnelFlags.Flag]]
  private let isServer: Bool
  private let head: OldLine
  private let faults: [ConversionNote]

  init(_ flags: GhostunnelFlags, _ head: OldLine, isServer: Bool) {
    block = ConvertedBlock(head)
    self.flags = flags.flags
    self.isServer = isServer
    self.head = head
    faults = flags.faults
  }

  /// The flag, which is then read.
  private mutating func one(_ name: String) -> GhostunnelFlags.Flag? { flags.removeValue(forKey: name)?.last }
  private mutating func all(_ name: String) -> [GhostunnelFlags.Flag] { flags.removeValue(forKey: name) ?? [] }

  mutating func convert(_ document: inout ConversionDocument) {
    for fault in faults { block.refuse(fault.line, fault.reason) }
    listen()
    credentials(&document)
    if isServer { clients() } else { server() }
    algorithms()
    target()
    limits(&document)
    logs(&document)
    rest()
  }

  // MARK: Where clients come in

  private mutating func listen() {
    let unsafe = one("unsafe-listen")
    guard let flag = one("listen") else { return block.refuse(head, "--listen is missing") }
    let text = flag.value
    var addresses: [String] = []
    if text.hasPrefix("unix:") || text.hasPrefix("systemd:") {
      addresses = [text]
    } else if let endpoint = Endpoint(text), let address = endpoint.listen {
      addresses = [address]
      // Go listens on all addresses of both families.
      if endpoint.host == nil, case .port(_, let port) = endpoint.place { addresses.append("[::]:\(port)") }
    }
    guard !addresses.isEmpty, ConvertedWord.isConstant(text) else {
      return block.refuse(flag.line, "listen needs a port with an IP address, unix:PATH or systemd:NAME")
    }
    let words = isServer ? ["ssl"] : []
    block.closed =
      addresses.map { ConvertedWord.statement("listen", [$0] + words) }
      + (isServer ? ["ssl_reject_handshake on;"] : ["deny all;"]) + ["return refused;"]
    block.take(flag.line, "listen", words: [addresses[0]] + words)
    for address in addresses.dropFirst() { block.write("listen", [address] + words) }
    if isServer { return }
    let isSafe = Self.isSafe(text)
    if let unsafe {
      if isSafe {
        block.take(unsafe.line)
      } else {
        block.change(unsafe.line, "whoever reaches this address in clear uses the client certificate, as before")
      }
    } else if !isSafe {
      block.refuse(flag.line, "ghostunnel refuses this address without --unsafe-listen")
    }
  }

  private static func isSafe(_ address: String) -> Bool {
    ["unix:", "systemd:", "127.0.0.1:", "[::1]:", "localhost:"].contains { address.hasPrefix($0) }
  }

  // MARK: The own certificate

  private var certificate: String { isServer ? "ssl_certificate" : "proxy_ssl_certificate" }

  private mutating func credentials(_ document: inout ConversionDocument) {
    let address = one("use-workload-api-addr")
    let workload = one("use-workload-api")
    if let line = address?.line ?? workload?.line {
      usesWorkload = true
      if let address {
        let path =
          address.value.hasPrefix("unix://") ? String(address.value.dropFirst(7)) : String(address.value.dropFirst(5))
        if address.value.hasPrefix("unix:"), path.hasPrefix("/") {
          document.take(address.line, "spiffe_endpoint", "unix:\(path)")
        } else {
          block.refuse(address.line, "the SPIFFE agent is asked at a unix socket: spiffe_endpoint unix:PATH")
        }
      }
      if let workload { block.take(workload.line) }
      block.write(certificate, "spiffe:")
      for name in ["keystore", "cert", "key", "cacert"] {
        if let other = one(name) { block.refuse(other.line, "certificates come from the SPIFFE agent: \(line.text)") }
      }
      if let timeout = one("use-workload-api-timeout") {
        block.take(timeout.line, because: "the start waits for no agent")
      }
      return
    }
    let pass = one("storepass")
    if let keystore = one("keystore") {
      block.take(keystore.line, certificate, ConvertedWord.path(keystore.value))
      block.write("\(certificate)_key", ConvertedWord.path(keystore.value))
      if let pass {
        block.refuse(
          pass.line,
          "a pass phrase never stands in a configuration: write it into a file (mode 0600), and name that here",
          closing: false)
        block.write(isServer ? "ssl_password_file" : "proxy_ssl_password_file", "TO-BE-FILLED-IN/keystore-password")
      }
      for name in ["cert", "key"] {
        if let other = one(name) { block.refuse(other.line, "it contradicts --keystore") }
      }
    } else if let file = one("cert") {
      block.take(file.line, certificate, ConvertedWord.path(file.value))
      if let key = one("key") {
        block.take(key.line, "\(certificate)_key", ConvertedWord.path(key.value))
      } else {
        block.refuse(file.line, "its key is missing: --key, or ssl_certificate_key store:pkcs11:… for a token")
      }
      if let pass { block.refuse(pass.line, "it belongs to --keystore") }
    } else if isServer, flags["auto-acme-cert"] == nil {
      block.refuse(head, "a server needs a certificate: --keystore, or --cert and --key")
    }
    for name in ["auto-acme-cert", "auto-acme-email", "auto-acme-agree-to-tos", "auto-acme-ca", "auto-acme-testca"] {
      if let flag = one(name) {
        block.refuse(
          flag.line,
          "certificates by ACME belong to servers of http (acme_certificate): get this one by another client, and name its files"
        )
      }
    }
    for name in ["pkcs11-module", "pkcs11-token-label", "pkcs11-pin"] {
      if let flag = one(name) {
        block.refuse(
          flag.line, "OpenSSL's provider finds a key in a token: \(certificate)_key store:pkcs11:token=…;object=…")
      }
    }
    for name in ["keychain-identity", "keychain-issuer", "keychain-require-token"] {
      if let flag = one(name) { block.refuse(flag.line, "there is no keychain here: export the certificate") }
    }
  }

  private var usesWorkload = false

  // MARK: Clients

  private mutating func clients() {
    let authorities = one("cacert")
    let everybody = one("disable-authentication")
    let anyClient = one("allow-all")
    let pins = all("allow-spki-pin")
    let rules: [(flags: [GhostunnelFlags.Flag], key: String)] = [
      (all("allow-cn"), "cn"), (all("allow-ou"), "ou"), (all("allow-dns"), "dns"), (all("allow-ip"), "ip"),
      (all("allow-uri"), "uri"),
    ]
    let policies = ["allow-policy", "allow-query"].compactMap { one($0) }
    for flag in policies {
      block.refuse(flag.line, "policies of OPA aren't evaluated: write the conditions as ssl_client_allow lines")
    }
    let hasRules = rules.contains { !$0.flags.isEmpty }
    if let everybody {
      for flag in [anyClient].compactMap({ $0 }) + rules.flatMap(\.flags) + pins {
        block.refuse(flag.line, "it contradicts --disable-authentication")
      }
      if let authorities { block.take(authorities.line, because: "no client is verified by it") }
      return block.change(
        everybody.line, "whoever reaches this port gets in, as before", "ssl_verify_client", "off")
    }
    if let anyClient, hasRules || !policies.isEmpty || !pins.isEmpty {
      return block.refuse(anyClient.line, "it contradicts the other --allow-… flags")
    }
    if !pins.isEmpty {
      if hasRules { block.refuse(pins[0].line, "ghostunnel refuses it beside other --allow-… flags") }
      if let authorities { block.take(authorities.line, because: "a pin counts alone, as with ghostunnel") }
      for pin in pins { self.pin(pin, "ssl_client_pin") }
      return block.write("ssl_verify_client", "on")
    }
    guard anyClient != nil || hasRules else {
      if policies.isEmpty {
        block.refuse(
          head, "no flag says who gets in: --allow-all, --allow-cn and the like, or --disable-authentication")
      }
      return
    }
    if usesWorkload {
      block.write("ssl_client_certificate", "spiffe:")
    } else if let authorities {
      block.take(authorities.line, "ssl_client_certificate", ConvertedWord.path(authorities.value))
    } else {
      return block.refuse(
        head,
        "without --cacert, ghostunnel takes clients of every CA that the system trusts: name the CA of your clients")
    }
    block.write("ssl_verify_depth", "10")
    block.write("ssl_verify_client", "on")
    if let anyClient { block.take(anyClient.line) }
    for (flags, key) in rules { for flag in flags { allow(flag, key) } }
  }

  private mutating func allow(_ flag: GhostunnelFlags.Flag, _ key: String) {
    if key == "ip", !Endpoint.isAddress(flag.value) { return block.refuse(flag.line, "an IP address is needed") }
    if key == "uri", flag.value.split(separator: "/").contains(where: { $0 == "*" || $0 == "**" }) {
      guard let expression = GhostunnelPattern.expression(flag.value) else {
        return block.refuse(flag.line, "\"**\" may only be the last segment")
      }
      return block.take(flag.line, "ssl_client_allow", "uri=~\(expression)")
    }
    guard let condition = ConvertedWord.condition(key, flag.value), !flag.value.contains("$") else {
      return block.refuse(flag.line, "only a plain value is taken")
    }
    block.take(flag.line, "ssl_client_allow", condition)
  }

  private mutating func pin(_ flag: GhostunnelFlags.Flag, _ name: String) {
    guard flag.value.hasPrefix("sha256:") else {
      return block.refuse(flag.line, "a pin is a SHA-256: `sallyport pin FILE` prints that of a certificate")
    }
    block.take(flag.line, name, flag.value)
  }

  // MARK: The server behind

  private mutating func server() {
    block.write("proxy_ssl", "on")
    let authorities = one("cacert")
    let name = one("override-server-name")
    let host = flags["target"]?.last.flatMap { Endpoint($0.value) }?.host ?? "localhost"
    if let anonymous = one("disable-authentication") {
      block.take(anonymous.line, because: "no client certificate is shown")
    }
    for flag in ["verify-policy", "verify-query"].compactMap({ one($0) }) {
      block.refuse(flag.line, "policies of OPA aren't evaluated: name the CA and the server's name, or pin its key")
    }
    for flag in all("verify-cn") + all("verify-ou") {
      block.refuse(
        flag.line,
        "a server is known by the names of its subjectAltName: pin its key with proxy_ssl_pin, or name its CA alone")
    }
    let pins = all("verify-spki-pin")
    let uris = all("verify-uri")
    let names = all("verify-dns") + all("verify-ip")
    if !pins.isEmpty {
      for flag in uris + names { block.refuse(flag.line, "ghostunnel refuses it beside --verify-spki-pin") }
      block.write("proxy_ssl_verify", "off")
      for pin in pins { self.pin(pin, "proxy_ssl_pin") }
      if let authorities { block.take(authorities.line, because: "a pin counts alone, as with ghostunnel") }
      return send(name, host)
    }
    if usesWorkload {
      block.write("proxy_ssl_trusted_certificate", "spiffe:")
      for flag in names { block.refuse(flag.line, "a server of SPIFFE is known by its ID: --verify-uri") }
      if uris.isEmpty {
        block.refuse(
          head,
          "without --verify-uri, ghostunnel takes every workload that the agent vouches for: say which with proxy_ssl_spiffe_id"
        )
      }
      for flag in uris { spiffe(flag) }
      if let name { block.take(name.line, because: "ghostunnel ignores it with SPIFFE") }
      return
    }
    for flag in uris { block.refuse(flag.line, "a URI is judged with SPIFFE only: proxy_ssl_spiffe_id") }
    if let authorities {
      block.take(authorities.line, "proxy_ssl_trusted_certificate", ConvertedWord.path(authorities.value))
    }
    block.write("proxy_ssl_verify", "on")
    block.write("proxy_ssl_verify_depth", "10")
    let expected = (name?.value ?? host).lowercased()
    let others = names.filter { $0.value.lowercased() != expected }
    if others.count < names.count || names.isEmpty {
      for flag in names {
        block.change(
          flag.line, "the server's name is checked in any case, and a wildcard of its certificate counts, too")
      }
    } else {
      for flag in names {
        block.refuse(flag.line, "one name is expected of a server, here \(expected): ghostunnel wants this one, too")
      }
    }
    send(name, host)
  }

  private mutating func send(_ name: GhostunnelFlags.Flag?, _ host: String) {
    guard Endpoint.isHost(name?.value ?? host) else {
      return block.refuse(name?.line ?? head, "a host name or an IP address is needed")
    }
    if let name { block.take(name.line, "proxy_ssl_name", name.value) } else { block.write("proxy_ssl_name", host) }
    block.write("proxy_ssl_server_name", "on")
  }

  /// `*` means the same in an ID, and `**` at the end nearly.
  private mutating func spiffe(_ flag: GhostunnelFlags.Flag) {
    guard flag.value.hasPrefix("spiffe://"), !flag.value.hasPrefix("spiffe://*") else {
      return block.refuse(flag.line, "an ID of SPIFFE with its trust domain is needed")
    }
    block.take(flag.line, "proxy_ssl_spiffe_id", flag.value)
  }

  // MARK: Where connections go

  /// Of proxies, those of HTTP in clear can be had. The port is ghostunnel's if none is named.
  private mutating func proxy(_ flag: GhostunnelFlags.Flag) {
    let scheme = "http://"
    var authority = String(flag.value.dropFirst(scheme.count))
    if authority.hasSuffix("/") { authority.removeLast() }
    let named = Endpoint(authority) ?? Endpoint("\(authority):8080")
    guard flag.value.lowercased().hasPrefix(scheme), !isServer, let named, case .port(let host?, let port) = named.place
    else {
      return block.refuse(
        flag.line, "proxy_via takes http://HOST:PORT, and the proxy's user from a file (user_file=FILE)")
    }
    block.take(flag.line, "proxy_via", "http://\(host.contains(":") ? "[\(host)]" : host):\(port)")
  }

  private mutating func target() {
    let unsafe = one("unsafe-target")
    guard let flag = one("target") else { return block.refuse(head, "--target is missing") }
    if isServer {
      if let unsafe {
        block.take(unsafe.line)
      } else if !Self.isSafe(flag.value) {
        block.refuse(flag.line, "ghostunnel refuses this target without --unsafe-target")
      }
    }
    if let proxy = one("proxy") { self.proxy(proxy) }
    if let protocolFlag = one("proxy-protocol") {
      block.change(
        protocolFlag.line, "the header of version 2 also tells of TLS and the client's name", "proxy_protocol", "v2")
    }
    if let mode = one("proxy-protocol-mode") {
      switch mode.value {
      case "conn", "tls":
        block.change(
          mode.line, "the header of version 2 also tells of TLS and the client's name", "proxy_protocol", "v2")
      case "tls-full": block.take(mode.line, "proxy_protocol", "v2", "certificate")
      default: block.refuse(mode.line, "conn, tls or tls-full", closing: false)
      }
    }
    if flag.value.hasPrefix("unix:"), flag.value.utf8.count > 5 {
      if isServer {
        block.take(flag.line, "proxy_pass", flag.value)
      } else {
        block.refuse(flag.line, "a server with TLS is at HOST:PORT")
      }
      return
    }
    guard let endpoint = Endpoint(flag.value) else { return block.refuse(flag.line, "expected HOST:PORT or unix:PATH") }
    block.take(flag.line, "proxy_pass", endpoint.server())
  }

  // MARK: Algorithms, times and logs

  private mutating func algorithms() {
    let prefix = isServer ? "ssl" : "proxy_ssl"
    if let version = one("max-tls-version") {
      switch version.value {
      case "TLS1.2": block.take(version.line, "\(prefix)_protocols", "TLSv1.2")
      case "TLS1.3": block.take(version.line)
      default: block.refuse(version.line, "TLS1.2 or TLS1.3")
      }
    }
    guard let suites = one("cipher-suites") else { return }
    let names = ["AES": "ECDHE+AESGCM", "CHACHA": "ECDHE+CHACHA20"]
    let found = suites.value.split(separator: ",").map { names[OldText.trimmed($0)] }
    guard !found.isEmpty, found.allSatisfy({ $0 != nil }) else {
      return block.refuse(
        suites.line, "AES and CHACHA; older ciphers must be named by \(prefix)_ciphers", closing: false)
    }
    block.take(suites.line, "\(prefix)_ciphers", found.compactMap { $0 }.joined(separator: ":"))
  }

  private mutating func time(_ name: String, _ directive: String, standard: String? = nil) {
    guard let flag = one(name) else {
      if let standard { block.write(directive, standard) }
      return
    }
    guard let milliseconds = GhostunnelDuration.milliseconds(flag.value) else {
      return block.refuse(flag.line, "no time: 300ms, 10s or 1m30s", closing: false)
    }
    block.take(flag.line, directive, GhostunnelDuration.written(milliseconds))
  }

  private mutating func limits(_ document: inout ConversionDocument) {
    if isServer, let flag = flags["connect-timeout"]?.last,
      let milliseconds = GhostunnelDuration.milliseconds(flag.value)
    {
      block.write("ssl_handshake_timeout", GhostunnelDuration.written(milliseconds))
    } else if isServer {
      block.write("ssl_handshake_timeout", "10s")
    }
    time("connect-timeout", "proxy_connect_timeout", standard: "10s")
    time("max-conn-lifetime", "connection_max_time")
    block.change(head, "ghostunnel has no limit of silence; here it is long", "proxy_timeout", "12h")
    if let flag = one("close-timeout") {
      block.change(
        flag.line, "a connection ends once the bytes of the side that ended first are delivered (proxy_half_close)")
    }
    if let flag = one("max-concurrent-conns") {
      if let number = Int(flag.value), number > 0 {
        document.beforeStreams.append("limit_conn_zone $server_port zone=ghostunnel:1m;")
        block.change(
          flag.line, "a connection above the limit is refused, and doesn't wait", "limit_conn", "ghostunnel",
          "\(number)")
      } else if flag.value == "0" {
        block.take(flag.line)
      } else {
        block.refuse(flag.line, "a number is needed", closing: false)
      }
    }
    if let flag = one("shutdown-timeout") {
      if let milliseconds = GhostunnelDuration.milliseconds(flag.value), milliseconds > 0 {
        document.take(flag.line, "worker_shutdown_timeout", GhostunnelDuration.written(milliseconds))
      } else {
        document.refuse(flag.line, "no time: 300ms, 10s or 1m30s")
      }
    } else {
      document.write("worker_shutdown_timeout", "5m")
    }
  }

  private mutating func logs(_ document: inout ConversionDocument) {
    let quiet = all("quiet")
    let level = quiet.contains { $0.value == "all" } ? "crit" : quiet.isEmpty ? "info" : "notice"
    for flag in quiet {
      if ["", "all"].contains(flag.value) {
        document.take(flag.line)
      } else {
        document.change(flag.line, "error_log has a level for all messages")
      }
    }
    if let syslog = one("syslog") {
      document.take(syslog.line, "error_log", "syslog:server=unix:/dev/log", level)
    } else {
      document.write("error_log", "stderr", level)
    }
  }

  private mutating func rest() {
    let withoutEffect = [
      "timed-reload": "changed files are loaded by themselves (ssl_reload)", "use-landlock": "`sandbox on` is usual",
      "metrics-prefix": "without effect", "metrics-interval": "without effect",
      "skip-resolve": "names are looked up at the start",
    ]
    let harmless = [
      "status": "write a server of http with `metrics;` and `status;` in locations of its own",
      "enable-pprof": "there is no profile to ask for", "enable-shutdown": "QUIT drains: `sallyport signal quit`",
      "metrics-graphite": "metrics are asked for: `metrics;` in a location of http",
      "metrics-url": "metrics are asked for: `metrics;` in a location of http",
      "target-status": "connections go to the next server while one fails; health checks belong to groups of http",
      "eventlog": "there is no such log", "disable-landlock": "`sandbox off;` turns it off",
      "allow-unsafe-cipher-suites": "older ciphers must be named by ssl_ciphers",
    ]
    for (name, given) in flags.sorted(by: { $0.key < $1.key }) {
      for flag in given {
        if let reason = withoutEffect[name] {
          block.take(flag.line, because: reason)
        } else if let reason = harmless[name] {
          block.refuse(flag.line, reason, closing: false)
        } else {
          block.refuse(flag.line, "this flag isn't known in this mode, and it may be a check")
        }
      }
    }
    flags = [:]
  }
}

/// A pattern of --allow-uri: `*` is a segment, `**` at the end any number of them.
enum GhostunnelPattern {
  /// A regular expression that matches no more than ghostunnel's does.
  static func expression(_ pattern: String) -> String? {
    let segments = pattern.split(separator: "/", omittingEmptySubsequences: false)
    var parts: [String] = []
    for (index, segment) in segments.enumerated() {
      switch segment {
      case "*": parts.append("[^/]+")
      case "**":
        guard index == segments.count - 1, index > 0 else { return nil }
        return parts.joined(separator: "/") + "(?:/.*)?"
      default: parts.append(ConvertedWord.expression(of: String(segment)))
      }
    }
    return parts.joined(separator: "/") + "/?"
  }
}

/// One service of stunnel's file as a server of `stream`.
///
/// In server mode, TLS of clients ends here; in client mode, clients come in clear and the upstream gets TLS.
struct StunnelService {
  let service: StunnelFile.Service
  /// The service whose port this one shares, as `sni = MASTER:NAME` says; nil: it has its own.
  let master: StunnelFile.Service?
  /// Whether others share this one's port.
  let isMaster: Bool
  /// Names of this service at its master's port, each a word of `server_name`.
  let names: [(word: String, line: OldLine)]
  private var block: ConvertedBlock
  private let all: [String: [StunnelOption]]
  /// A group for several targets.
  private(set) var group: ConvertedBlock?
  private let groupName: String

  init(
    _ service: StunnelFile.Service, master: StunnelFile.Service?, isMaster: Bool,
    names: [(word: String, line: OldLine)], number: Int
  ) {
    self.service = service
    self.master = master
    self.isMaster = isMaster
    self.names = names
    groupName = "stunnel_\(number)"
    block = ConvertedBlock(service.head)
    // A service's own value counts, and a list goes on.
    all = Dictionary(grouping: service.defaults.filter { StunnelWords.isOfServices($0.name) } + service.options) {
      $0.name
    }
  }

  private func options(_ name: String) -> [StunnelOption] { all[name] ?? [] }
  private func last(_ name: String) -> StunnelOption? { all[name]?.last }
  private func isOn(_ name: String) -> Bool { last(name)?.value.lowercased() == "yes" }
  private var isClient: Bool { isOn("client") }

  /// The server, as far as it could be made.
  mutating func converted() -> ConvertedBlock {
    listen()
    if isClient { clientMode() } else { serverMode() }
    target()
    times()
    rest()
    return block
  }

  // MARK: Where clients come in

  private mutating func listen() {
    let owner = master.map { $0.options + $0.defaults } ?? service.options + service.defaults
    guard let accept = (owner.last { $0.name == "accept" && !$0.value.isEmpty }) else {
      block.refuse(
        service.head,
        "it has no \"accept\": sallyport opens its own sockets; name the port with listen, or listen systemd:NAME")
      return
    }
    let endpoint = accept.value.hasPrefix("/") ? Endpoint(socket: accept.value) : Endpoint(accept.value)
    guard let address = endpoint?.listen, ConvertedWord.isConstant(address) else {
      block.refuse(accept.line, "listen needs a port with an IP address, or a path: write the address of this machine")
      return
    }
    if isClient {
      block.closed = [ConvertedWord.statement("listen", [address]), "deny all;", "return refused;"]
      block.take(accept.line, "listen", address, because: "clients come in clear, as with client = yes")
      return
    }
    let words = [address, "ssl"] + (isMaster ? ["default_server"] : [])
    block.closed =
      [ConvertedWord.statement("listen", words)]
      + (names.isEmpty ? [] : [ConvertedWord.statement("server_name", names.map(\.word))])
      + ["ssl_reject_handshake on;", "return refused;"]
    if master == nil {
      block.take(accept.line, "listen", words: words)
    } else {
      block.write("listen", words)
    }
    if let own = last("accept"), master != nil {
      block.refuse(own.line, "a service with \"sni\" has its master's port and can't have one of its own")
    }
    for name in names { block.take(name.line) }
    if !names.isEmpty { block.write("server_name", names.map(\.word)) }
  }

  // MARK: Server mode

  private mutating func serverMode() {
    certificate("ssl_certificate", "ssl_certificate_key", isRequired: true)
    protocols("ssl_protocols")
    ciphers("ssl")
    verifyClients()
    negotiate(isServer: true)
    if let option = last("sessioncachetimeout") { seconds(option, "ssl_session_timeout") }
    if let option = last("sessionresume") {
      if option.value.lowercased() == "no" {
        block.take(option.line, "ssl_session_tickets", "off")
      } else {
        block.take(option.line)
      }
    }
    if let option = last("redirect") {
      block.refuse(
        option.line,
        "a client whose certificate is refused gets a TLS alert, and is passed to no other server: leave it out",
        closing: false)
    }
  }

  /// Who gets in, as stunnel decides by `verify`, `verifyChain`, `verifyPeer`, `requireCert` and the names to check.
  private mutating func verifyClients() {
    let terms = StunnelTerms(options: all)
    for note in terms.taken { block.take(note.line, because: note.reason) }
    if let fault = terms.fault { block.refuse(fault.line, fault.reason) }
    guard terms.verifiesChain || terms.verifiesPeer else {
      let reason = "stunnel verifies no client here: whoever reaches this port gets in, as before"
      if let line = terms.lineOfLevel {
        block.change(line, reason, "ssl_verify_client", "off")
      } else {
        block.change(service.head, reason + " (no verifyChain, verifyPeer or verify)", "ssl_verify_client", "off")
      }
      if let line = terms.lineOfRequirement {
        block.refuse(
          line, "it requires any certificate at all, whoever issued it, which proves nothing: use verifyChain")
      }
      // Somebody may think that these checks are in effect.
      for name in StunnelWords.checks {
        for option in options(name) {
          block.refuse(
            option.line, "stunnel ignores it without verifyChain or verifyPeer: add one of them, or remove this line")
        }
      }
      for name in ["crlfile", "crlpath", "ocsp", "ocspaia"] {
        for option in options(name) {
          block.refuse(option.line, "stunnel ignores it without verifyChain: add verifyChain, or remove this line")
        }
      }
      if let option = last("cafile") {
        block.refuse(
          option.line, "stunnel asks for no certificate by it without verifyChain: add verifyChain, or remove this line"
        )
      }
      return
    }
    guard let file = authorities(terms) else { return }
    if terms.verifiesChain {
      block.take(file.line, "ssl_client_certificate", ConvertedWord.path(file.value))
      block.write("ssl_verify_depth", "10")
    }
    if terms.verifiesPeer {
      block.change(
        file.line,
        "the client's certificate must be one of this file, byte for byte; stunnel compares subject and key, so after a "
          + "renewal the new certificate must be put into the file (ssl_client_pinning public_key compares the key alone)",
        "ssl_client_pin", ConvertedWord.path(file.value))
      block.write("ssl_client_pinning", "certificate")
    }
    if terms.isOptional, let line = terms.lineOfLevel {
      block.change(
        line, "as in stunnel, a client without a certificate gets in; `on` requires one", "ssl_verify_client",
        "optional")
    } else {
      block.write("ssl_verify_client", "on")
    }
    revocation("ssl_crl", terms)
    checks()
    if let option = last("ocsp") {
      block.take(option.line, "ssl_ocsp_responder", option.value)
      if !isOn("ocspaia") { block.write("ssl_ocsp", "on") }
    }
    if let option = last("ocspaia") {
      if isOn("ocspaia") { block.take(option.line, "ssl_ocsp", "on") } else { block.take(option.line) }
    }
  }

  /// The file with CAs or certificates.
  private mutating func authorities(_ terms: StunnelTerms) -> StunnelOption? {
    for name in ["capath", "caengine"] {
      for option in options(name) {
        block.refuse(
          option.line,
          "CAs come from a file: put the certificates of the folder into one, as `cat FOLDER/*.pem > ca.pem` does, and name it in CAfile"
        )
      }
    }
    guard let file = last("cafile") else {
      if options("capath").isEmpty, let line = terms.lineOfLevel {
        block.refuse(line, "it needs CAfile, and there is none")
      }
      return nil
    }
    return file
  }

  private mutating func revocation(_ name: String, _ terms: StunnelTerms) {
    for option in options("crlpath") {
      block.refuse(
        option.line, "revocation lists come from a file: `cat FOLDER/*.r0 > crl.pem`, and name it in CRLfile")
    }
    for option in options("crlfile") {
      if terms.verifiesChain {
        block.change(
          option.line, "every CA of a chain needs a list here; stunnel looks only for that of the peer's own CA", name,
          ConvertedWord.path(option.value))
      } else {
        block.refuse(
          option.line, "a peer that is pinned has no CA that revokes: use verifyChain too, or remove this line")
      }
    }
  }

  /// checkHost, checkEmail and checkIP of clients: one of each kind that is given must match.
  private mutating func checks() {
    var rules: [[String]] = [[]]
    for (name, key) in [("checkhost", "dns"), ("checkemail", "email"), ("checkip", "ip")] {
      let given = options(name)
      guard !given.isEmpty else { continue }
      if Set(given.map(\.isDefault)).count > 1 {
        return block.refuse(given[0].line, "it stands before the services and in this one, too: write it once")
      }
      var next: [[String]] = []
      for option in given {
        let isName = name != "checkhost" || Endpoint.isHost(option.value)
        guard isName, let condition = ConvertedWord.condition(key, option.value) else {
          return block.refuse(option.line, "only a plain value is taken: write ssl_client_allow \(key)=PATTERN")
        }
        next += rules.map { $0 + [condition] }
        guard next.count <= 64 else {
          return block.refuse(option.line, "more than 64 combinations of names: write ssl_client_allow lines")
        }
        block.change(
          option.line,
          "only the certificate's subjectAltName counts, and never its common name; a wildcard in the certificate is no match"
        )
      }
      rules = next
    }
    for rule in rules where !rule.isEmpty { block.write("ssl_client_allow", rule) }
  }

  // MARK: Client mode

  private mutating func clientMode() {
    block.write("proxy_ssl", "on")
    certificate("proxy_ssl_certificate", "proxy_ssl_certificate_key", isRequired: false)
    protocols("proxy_ssl_protocols")
    ciphers("proxy_ssl")
    verifyServer()
    negotiate(isServer: false)
    for name in ["ocsp", "ocspaia"] where last(name).map({ $0.value.lowercased() != "no" }) ?? false {
      if let option = last(name) {
        block.refuse(
          option.line, "OCSP is asked about clients only: use CRLfile, or a pin of the server's key")
      }
    }
    if let option = last("redirect") { block.refuse(option.line, "it belongs to servers", closing: false) }
    for name in ["sessioncachetimeout"] {
      if let option = last(name) { block.take(option.line, because: "without effect") }
    }
    if let option = last("sessionresume") {
      block.take(option.line, "proxy_ssl_session_reuse", option.value.lowercased() == "no" ? "off" : "on")
    }
  }

  private mutating func verifyServer() {
    let terms = StunnelTerms(options: all)
    for note in terms.taken { block.take(note.line, because: note.reason) }
    if let fault = terms.fault { block.refuse(fault.line, fault.reason) }
    let connect = tunnel?.end ?? last("connect").flatMap { $0.value.hasPrefix("/") ? nil : Endpoint($0.value) }
    let host = connect?.host ?? "localhost"
    serverName(host)
    if terms.isOptional, let line = terms.lineOfLevel {
      block.change(line, "a server always has a certificate: it must verify")
    }
    guard terms.verifiesChain || terms.verifiesPeer else {
      for name in StunnelWords.checks + ["crlfile", "crlpath", "cafile", "capath"] {
        for option in options(name) {
          block.refuse(
            option.line, "stunnel ignores it without verifyChain or verifyPeer: add one of them, or remove this line")
        }
      }
      let port = if case .port(_, let port)? = connect?.place { port } else { 0 }
      let negotiation = StunnelWords.negotiations[last("protocol")?.value.lowercased() ?? ""] ?? nil
      let proxy = tunnel == nil ? nil : last("connect").flatMap { Endpoint($0.value) }
      let gap = TrustGap(host: host, port: port, starttls: negotiation, via: proxy.map { "http://\($0.server())" })
      block.leave(gap, terms.lineOfLevel ?? service.head, "stunnel")
      block.write("proxy_ssl_verify", "off")
      block.write("proxy_ssl_pin", gap.path)
      return
    }
    guard let file = authorities(terms) else { return }
    if terms.verifiesChain {
      block.take(file.line, "proxy_ssl_trusted_certificate", ConvertedWord.path(file.value))
      block.write("proxy_ssl_verify", "on")
      block.write("proxy_ssl_verify_depth", "10")
    } else {
      block.write("proxy_ssl_verify", "off")
    }
    if terms.verifiesPeer {
      block.take(file.line, "proxy_ssl_pin", ConvertedWord.path(file.value))
    }
    revocation("proxy_ssl_crl", terms)
  }

  /// The name that is sent to the server and expected in its certificate. Here both are one.
  private mutating func serverName(_ host: String) {
    let checked = StunnelWords.checks.flatMap(options)
    let sni = last("sni")
    if let sni, sni.value.isEmpty {
      block.take(sni.line, "proxy_ssl_server_name", "off")
    } else if let sni {
      block.take(sni.line, "proxy_ssl_server_name", "on")
    } else {
      block.write("proxy_ssl_server_name", "on")
    }
    for option in checked where option.name == "checkemail" {
      block.refuse(option.line, "a server is known by a host name or an IP address, and not by an address of mail")
    }
    let names = checked.filter { $0.name != "checkemail" }
    if names.count > 1, let second = names.dropFirst().first {
      block.refuse(
        second.line, "one name is expected of a server: write a server for each, or pin the key with proxy_ssl_pin")
      return
    }
    let sent = sni.flatMap { $0.value.isEmpty ? nil : $0.value }
    if let name = names.first {
      guard Endpoint.isHost(name.value) else {
        return block.refuse(name.line, "a host name or an IP address is needed")
      }
      if let sent, let sni, sent.lowercased() != name.value.lowercased() {
        return block.refuse(
          sni.line, "the name that is sent is the one that the certificate must have, here \(name.value)")
      }
      if sent == nil, sni == nil, name.value.lowercased() != host.lowercased() {
        block.change(
          name.line, "it is also sent as SNI, where stunnel sends \(host)", "proxy_ssl_name", name.value)
      } else {
        block.take(name.line, "proxy_ssl_name", name.value)
      }
      return
    }
    let name = sent ?? host
    guard Endpoint.isHost(name) else {
      return block.refuse(sni?.line ?? service.head, "a host name or an IP address is needed")
    }
    block.write("proxy_ssl_name", name)
    if StunnelTerms(options: all).verifiesChain, !StunnelTerms(options: all).verifiesPeer {
      block.change(
        service.head,
        "without checkHost, stunnel takes any certificate of the CA; here it must be for \(name) (proxy_ssl_name says otherwise)"
      )
    }
  }

  // MARK: Both

  private mutating func certificate(_ certificate: String, _ key: String, isRequired: Bool) {
    guard let file = last("cert") else {
      if isRequired { block.refuse(service.head, "a server needs a certificate: cert = FILE") }
      if let key = last("key") { block.refuse(key.line, "there is no cert that it belongs to") }
      return
    }
    guard !file.value.lowercased().hasPrefix("pkcs11:") else {
      return block.refuse(
        file.line, "only keys stay in a token: write its certificate to a file; key = pkcs11:… becomes store:pkcs11:…")
    }
    block.take(file.line, certificate, ConvertedWord.path(file.value))
    guard let own = last("key") else { return block.write(key, ConvertedWord.path(file.value)) }
    if own.value.lowercased().hasPrefix("pkcs11:") {
      block.change(own.line, "the key in the token, by OpenSSL's provider", key, "store:\(own.value)")
    } else {
      block.take(own.line, key, ConvertedWord.path(own.value))
    }
  }

  private mutating func protocols(_ name: String) {
    var versions = StunnelVersions()
    for option in options("sslversion") { versions.only(option, &block) }
    for option in options("sslversionmin") { versions.bound(option, isLowest: true, &block) }
    for option in options("sslversionmax") { versions.bound(option, isLowest: false, &block) }
    for option in options("options") {
      if versions.exclude(option, &block) { continue }
      switch option.value.uppercased() {
      case "CIPHER_SERVER_PREFERENCE":
        if isClient { block.take(option.line) } else { block.take(option.line, "ssl_prefer_server_ciphers", "on") }
      case "NO_TICKET":
        if isClient {
          block.take(option.line, "proxy_ssl_session_reuse", "off")
        } else {
          block.take(option.line, "ssl_session_tickets", "off")
        }
      case "SINGLE_ECDH_USE", "SINGLE_DH_USE", "NO_COMPRESSION", "NO_SESSION_RESUMPTION_ON_RENEGOTIATION",
        "NO_RENEGOTIATION", "-NO_RENEGOTIATION", "DONT_INSERT_EMPTY_FRAGMENTS":
        block.take(option.line, because: "always so, or without effect in today's TLS")
      default:
        block.refuse(
          option.line, "the option isn't carried over: ssl_conf_command Options has what OpenSSL offers", closing: false
        )
      }
    }
    guard let words = versions.words else { return }
    guard !words.isEmpty else {
      return block.refuse(service.head, "no version of TLS is left that sallyport has: TLSv1 to TLSv1.3")
    }
    block.write(name, words)
  }

  private mutating func ciphers(_ prefix: String) {
    let level = last("securitylevel")
    if let level, let number = Int(level.value), (0...5).contains(number) {
      if let ciphers = last("ciphers") {
        block.take(level.line)
        block.take(ciphers.line, "\(prefix)_ciphers", "\(ciphers.value):@SECLEVEL=\(number)")
      } else {
        block.change(
          level.line, "with the ciphers that are usual here", "\(prefix)_ciphers",
          "ECDHE+AESGCM:ECDHE+CHACHA20:@SECLEVEL=\(number)")
      }
    } else if let level {
      block.refuse(level.line, "a security level is a number from 0 to 5")
    } else if let ciphers = last("ciphers") {
      let names = ciphers.value.contains("@SECLEVEL") ? ciphers.value : "\(ciphers.value):@SECLEVEL=2"
      block.take(ciphers.line, "\(prefix)_ciphers", names, because: "with stunnel's security level, 2")
    } else {
      // stunnel's own level, which refuses keys that are weaker.
      block.write("\(prefix)_ciphers", "ECDHE+AESGCM:ECDHE+CHACHA20:@SECLEVEL=2")
    }
    if let option = last("ciphersuites") {
      block.take(option.line, "\(prefix)_conf_command", "Ciphersuites", option.value)
    }
    for name in ["curve", "curves"] {
      if let option = last(name) { block.take(option.line, "\(prefix)_ecdh_curve", option.value) }
    }
    for option in options("config") { command(option, prefix) }
  }

  /// `config = COMMAND:PARAMETER` of OpenSSL. Those that could let in more are not taken.
  private mutating func command(_ option: StunnelOption, _ prefix: String) {
    let parts = option.value.split(separator: ":", maxSplits: 1).map { OldText.trimmed($0) }
    let known = ["Ciphersuites", "Curves", "Groups", "SignatureAlgorithms", "ClientSignatureAlgorithms"]
    guard parts.count == 2, let name = known.first(where: { $0.lowercased() == parts[0].lowercased() }) else {
      return block.refuse(option.line, "this command of OpenSSL isn't carried over: there may be a directive for it")
    }
    block.take(option.line, "\(prefix)_conf_command", name, parts[1])
  }

  private mutating func negotiate(isServer: Bool) {
    guard let option = last("protocol") else {
      for name in StunnelWords.negotiationDetails {
        for option in options(name) { block.refuse(option.line, "it belongs to \"protocol\", which isn't there") }
      }
      return
    }
    let name = option.value.lowercased()
    if name == "proxy", isServer {
      return block.take(option.line, "proxy_protocol", "on")
    }
    if let tunnel {
      block.take(option.line)
      block.take(tunnel.option.line)
      for option in StunnelWords.negotiationDetails.filter({ $0 != "protocolhost" }).flatMap(options) {
        block.refuse(option.line, "the proxy's user stands in a file: proxy_via http://… user_file=FILE")
      }
      return
    }
    guard let negotiation = StunnelWords.negotiations[name] ?? nil, !(name == "ldap" && isServer) else {
      return block.refuse(
        option.line,
        "there is no negotiation of this protocol: \(StunnelWords.negotiations.keys.sorted().joined(separator: ", ")) are there"
      )
    }
    for name in StunnelWords.negotiationDetails {
      for option in options(name) {
        block.refuse(option.line, "sallyport tells nobody a name or password in this negotiation")
      }
    }
    if isServer {
      if negotiation == "postgres" {
        block.take(option.line, "starttls", negotiation)
      } else {
        block.change(option.line, "sallyport greets the client itself, before it connects", "starttls", negotiation)
      }
    } else {
      block.take(option.line, "proxy_starttls", negotiation)
    }
  }

  /// Where a proxy of HTTP, which `connect` then names, is to connect to (`protocol = connect`); nil: there is none.
  private var tunnel: (option: StunnelOption, end: Endpoint)? {
    guard isClient, last("protocol")?.value.lowercased() == "connect", let option = last("protocolhost"),
      let end = Endpoint(option.value), end.host != nil
    else { return nil }
    return (option, end)
  }

  // MARK: Where connections go

  private mutating func target() {
    for name in ["exec", "execargs", "pty"] {
      for option in options(name) {
        block.refuse(
          option.line,
          "sallyport starts no programs: let systemd start it by a socket (Accept=yes), and name that socket")
      }
    }
    if let option = last("transparent"), !["none", "no"].contains(option.value.lowercased()) {
      block.refuse(
        option.line, "sallyport can't show another address than its own: use the PROXY protocol (proxy_protocol)")
    } else if let option = last("transparent") {
      block.take(option.line)
    }
    if let option = last("local") {
      if Endpoint.isAddress(option.value) {
        block.take(option.line, "proxy_bind", option.value)
      } else {
        block.refuse(option.line, "proxy_bind needs an IP address", closing: false)
      }
    }
    let targets = options("connect")
    guard !targets.isEmpty else {
      if options("exec").isEmpty { block.refuse(service.head, "it has no \"connect\"") }
      return
    }
    var servers: [String] = []
    for option in targets {
      let endpoint = option.value.hasPrefix("/") ? Endpoint(socket: option.value) : Endpoint(option.value)
      guard let endpoint, ConvertedWord.isConstant(option.value) else {
        block.refuse(option.line, "expected [HOST:]PORT or the path of a socket")
        return
      }
      servers.append(endpoint.server())
    }
    let isPriority = last("failover")?.value.lowercased() == "prio" || isOn("delay")
    if let option = last("failover") {
      if isPriority, servers.count > 2 {
        block.change(option.line, "the first target is used, and the others in turn while it fails")
      } else {
        block.take(option.line)
      }
    }
    if let option = last("delay") {
      if isOn("delay") {
        block.change(
          option.line, "names are looked up at the start: `server … resolve` with a resolver looks them up again")
      } else {
        block.take(option.line)
      }
    }
    if let tunnel {
      guard servers.count == 1, !servers[0].hasPrefix("unix:") else {
        return block.refuse(targets[0].line, "one proxy is expected, at HOST:PORT")
      }
      block.take(targets[0].line, "proxy_via", "http://\(servers[0])")
      return block.write("proxy_pass", tunnel.end.server())
    }
    if servers.count == 1 {
      block.take(targets[0].line, "proxy_pass", servers[0])
      return
    }
    var group = ConvertedBlock(targets[0].line)
    group.group = groupName
    group.closed = ["server 127.0.0.1:1 down;"]
    for (index, server) in servers.enumerated() {
      if isPriority, index > 0 {
        group.take(targets[index].line, "server", server, "backup")
      } else {
        group.take(targets[index].line, "server", server)
      }
    }
    self.group = group
    block.write("proxy_pass", groupName)
  }

  // MARK: Times and what is left

  private mutating func seconds(_ option: StunnelOption, _ name: String) {
    guard let number = Int(option.value), (0...1_000_000_000).contains(number) else {
      return block.refuse(option.line, "expected seconds", closing: false)
    }
    block.take(option.line, name, "\(number)s")
  }

  private mutating func times() {
    if let option = last("timeoutconnect") {
      seconds(option, "proxy_connect_timeout")
    } else {
      block.write("proxy_connect_timeout", "10s")
    }
    if let option = last("timeoutidle") {
      seconds(option, "proxy_timeout")
    } else {
      // stunnel's own.
      block.write("proxy_timeout", "12h")
    }
    if let option = last("timeoutbusy") {
      if isClient {
        block.change(option.line, "proxy_connect_timeout limits the handshake, too")
      } else {
        seconds(option, "ssl_handshake_timeout")
      }
    }
  }

  /// Options that need no line here, and those that nobody knows.
  private mutating func rest() {
    for (name, options) in all.sorted(by: { ($0.value[0].line.number, $0.key) < ($1.value[0].line.number, $1.key) }) {
      guard let line = options.last?.line, !StunnelWords.handled.contains(name) else { continue }
      if name == "sni" || name == "client" {
        if name == "client" { block.take(line) }
      } else if let reason = StunnelWords.withoutEffect[name] {
        for option in options { block.take(option.line, because: reason) }
      } else if let reason = StunnelWords.harmless[name] {
        for option in options { block.refuse(option.line, reason, closing: false) }
      } else if let reason = StunnelWords.closing[name] {
        let isOff = options.last?.value.lowercased() == "no"
        for option in options { if isOff { block.take(option.line) } else { block.refuse(option.line, reason) } }
      } else if name.isEmpty {
        block.refuse(line, "nobody knows what this line says, and it may be a check")
      } else {
        for option in options {
          block.refuse(
            option.line, "this option isn't known, and it may be a check: leave it out, or write its directive")
        }
      }
    }
  }
}

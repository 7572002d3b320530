/// A backend: its group of servers, and what a location or a server of `stream` says of it.
struct HAProxyBackend {
  let name: String
  let isHTTP: Bool
  /// The group's name here.
  let groupName: String
  private(set) var group: ConvertedBlock
  /// Lines about TLS to its servers.
  private(set) var trust: [(String, [String])] = []
  private(set) var isTLS = false
  /// What its own rules say of a request.
  private(set) var rules = HAProxyRules()
  private(set) var times: [(String, [String])] = []
  private(set) var proxyProtocol: String?
  private(set) var usesForwardedFor = false
  private var checks = HAProxyChecks()
  /// What a location, or a server of `stream`, says of checks; empty: servers are judged by connections that fail.
  private(set) var check: [String] = []
  /// Blocks `match` that the checks need.
  var matches: [String] {
    check.isEmpty ? [] : checks.match.map { ["match \(groupName) {", "    status \($0);", "}"] } ?? []
  }
  var isClosed: Bool { group.isClosed }

  init(
    _ section: HAProxyFile.Section, lines: [HAProxyLine], isHTTP: Bool, number: Int, _ globals: HAProxyGlobals
  ) {
    name = section.name
    self.isHTTP = isHTTP
    groupName = "haproxy_\(number)"
    group = ConvertedBlock(section.head)
    group.group = groupName
    group.closed = ["server 127.0.0.1:1 down;"]
    let conditions = HAProxyConditions(lines)
    let lastBalance = lines.last { $0.name == "balance" }
    var servers: [Server] = []
    var common: [String] = []
    for line in lines {
      switch line.name {
      case "acl": group.take(line.line)
      case "default-server": common += line.words.dropFirst()
      case "server": servers.append(Server(line, common: common, globals.server))
      case "balance":
        if line == lastBalance { balance(line, lines) } else { group.take(line.line) }
      case "option": option(line)
      case "timeout": time(line)
      case "http-request", "http-response":
        // The front of a `listen` section reads its rules.
        if section.kind == "backend" { rules.read(line, conditions, &group) }
      case "mode", "retries", "log", "description", "id", "fullconn", "enabled", "http-reuse", "hash-type", "maxconn",
        "unique-id-format", "log-format", "errorfile", "backlog", "bind", "default_backend", "use_backend",
        "tcp-request",
        "monitor-uri", "redirect", "stats", "compression", "filter", "http-error":
        if section.kind == "backend" { remaining(line) }
      case "disabled": group.refuse(line.line, "the backend is disabled in the old file, too")
      case "cookie": cookie(line)
      case "stick-table", "stick", "dynamic-cookie-key", "appsession":
        group.refuse(line.line, "clients stay at a server by `sticky cookie NAME;` in the group", closing: false)
      case "http-check", "tcp-check", "external-check": checks.read(line, &group)
      default: if section.kind == "backend" { group.refuse(line.line, "it isn't known, and it may be a check") }
      }
    }
    add(servers, section, globals)
  }

  private mutating func remaining(_ line: HAProxyLine) {
    switch line.name {
    case "mode", "log", "description", "id", "enabled", "http-reuse", "hash-type", "unique-id-format", "log-format",
      "fullconn", "backlog", "retries", "maxconn":
      group.take(line.line)
    case "errorfile", "compression", "filter", "http-error", "stats":
      group.refuse(line.line, "it isn't carried over: error_page, gzip and status are there", closing: false)
    case _ where line.isDefault: break
    default: group.refuse(line.line, "it belongs to frontends, or it may be a check")
    }
  }

  private mutating func balance(_ line: HAProxyLine, _ lines: [HAProxyLine]) {
    let method = line.word(1)
    let isKeyed = !["roundrobin", "static-rr", "leastconn"].contains(method)
    if isKeyed, lines.contains(where: { $0.name == "server" && $0.words.contains("backup") }) {
      return group.refuse(
        line.line, "a server with backup can't stand beside it: the servers take turns", closing: false)
    }
    switch method {
    case "roundrobin", "static-rr": group.take(line.line)
    case "leastconn": group.take(line.line, "least_conn", words: [])
    case "random", "random(2)": group.take(line.line, "random", words: [])
    case "source":
      group.change(line.line, "the same client stays at one server, but not at the one that HAProxy chose")
      group.write("hash", "$remote_addr")
    case "uri" where isHTTP:
      group.change(line.line, "the same path stays at one server, but not at the one that HAProxy chose")
      group.write("hash", "$uri")
    default:
      group.refuse(line.line, "the servers take turns: hash KEY; has what `\(method)` may mean", closing: false)
    }
  }

  private mutating func option(_ line: HAProxyLine) {
    switch line.word(1) {
    case "forwardfor":
      usesForwardedFor = true
      if line.words.count > 2 {
        group.change(line.line, "X-Forwarded-For has the addresses that the client sent, and its own behind them")
      } else {
        group.take(line.line)
      }
    case "httpchk" where isHTTP: checks.read(line, &group)
    case "httpchk", "ssl-hello-chk", "mysql-check", "pgsql-check", "redis-check", "smtpchk", "ldap-check", "tcp-check",
      "external-check":
      group.refuse(
        line.line, "the check connects only, or is left out: health_check with match has what a server must send",
        closing: false)
    default: group.take(line.line, because: "without effect here")
    }
  }

  /// `cookie NAME insert`, which names a server by what only the proxy can read.
  private mutating func cookie(_ line: HAProxyLine) {
    let name = line.word(1)
    let options = line.words.dropFirst(2)
    guard isHTTP, options.contains("insert"), !name.isEmpty,
      options.allSatisfy({ ["insert", "indirect", "nocache", "httponly", "secure"].contains($0) })
    else {
      return group.refuse(
        line.line, "`cookie NAME insert` is taken, with indirect, nocache, httponly and secure", closing: false)
    }
    group.change(
      line.line, "the cookie has another value, so each client is bound anew once", "sticky",
      words: ["cookie", name] + ["httponly", "secure"].filter(options.contains))
  }

  private mutating func time(_ line: HAProxyLine) {
    guard let time = HAProxyTime.written(line.word(2)) else {
      return group.refuse(line.line, "no time: 500, 10s or 5m", closing: false)
    }
    switch line.word(1) {
    case "connect": times.set("proxy_connect_timeout", time)
    case "server" where isHTTP:
      times.set("proxy_read_timeout", time)
      times.set("proxy_send_timeout", time)
    case "server": times.set("proxy_timeout", time)
    default: break
    }
    group.take(line.line)
  }

  // MARK: Servers

  private struct Server {
    let line: HAProxyLine
    var options: [String: String] = [:]
    var unknown: [String] = []

    init(_ line: HAProxyLine, common: [String], _ standard: [String: [String]]) {
      self.line = line
      let found = HAProxyOptions(common + line.words.dropFirst(3), Self.names)
      unknown = found.unknown
      options = found.values.mapValues { $0.last ?? "" }
      if options["no-ssl"] != nil { options["ssl"] = nil }
      if options["ssl"] != nil { options.merge(standard.mapValues { $0.last ?? "" }) { own, _ in own } }
    }

    private static let names = HAProxyOptions.Names(valued: valued, switches: switches)
    private static let valued: Set<String> = [
      "weight", "maxconn", "inter", "fastinter", "downinter", "rise", "fall", "port", "addr", "verify", "verifyhost",
      "ca-file", "crl-file", "crt", "sni", "alpn", "check-alpn", "check-sni", "ciphers", "ciphersuites", "ssl-min-ver",
      "ssl-max-ver", "cookie", "slowstart", "resolvers", "init-addr", "observe", "on-marked-down", "on-marked-up",
      "error-limit", "maxqueue", "id", "source", "pool-max-conn", "pool-purge-delay", "minconn", "resolve-prefer",
      "proto",
      "hash-key", "tcp-ut",
    ]
    private static let switches: Set<String> = [
      "check", "ssl", "backup", "disabled", "enabled", "check-ssl", "no-check", "no-check-ssl", "send-proxy",
      "send-proxy-v2", "send-proxy-v2-ssl", "send-proxy-v2-ssl-cn", "no-ssl", "no-ssl-reuse", "check-send-proxy",
      "no-sslv3", "no-tlsv10", "no-tlsv11", "no-tls-tickets", "ssl-reuse", "non-stick", "no-backup",
    ]
  }

  /// TLS and the PROXY protocol are the group's, so all servers must have them alike.
  private struct Terms: Hashable {
    var isTLS: Bool
    var options: [String: String]
  }

  private mutating func add(
    _ servers: [Server], _ section: HAProxyFile.Section, _ globals: HAProxyGlobals
  ) {
    guard let first = servers.first else {
      return group.refuse(section.head, "it has no server")
    }
    let ofTLS = [
      "verify", "verifyhost", "ca-file", "crl-file", "crt", "sni", "ciphers", "ciphersuites", "ssl-min-ver",
      "ssl-max-ver",
      "send-proxy", "send-proxy-v2", "send-proxy-v2-ssl", "send-proxy-v2-ssl-cn",
    ]
    func terms(_ server: Server) -> Terms {
      Terms(isTLS: server.options["ssl"] != nil, options: server.options.filter { ofTLS.contains($0.key) })
    }
    if let checked = servers.first(where: { $0.options["check"] != nil }) {
      check = checks.words(checked.options, isHTTP: isHTTP, name: groupName)
    }
    var hosts: Set<String> = []
    for server in servers {
      for word in server.unknown {
        group.refuse(server.line.line, "\"\(word)\" isn't known, and it may be a check")
      }
      if terms(server) != terms(first) {
        group.refuse(server.line.line, "all servers of a group have the same TLS here: write a group for each kind")
      }
      let text = server.line.word(2)
      let endpoint =
        text.hasPrefix("unix@/")
        ? Endpoint(socket: String(text.dropFirst(5))) : text.hasPrefix("/") ? Endpoint(socket: text) : Endpoint(text)
      guard let endpoint else {
        group.refuse(server.line.line, "a server needs an address and a port")
        continue
      }
      hosts.insert(endpoint.host ?? "localhost")
      var words = [endpoint.server(standard: "127.0.0.1")]
      for (name, parameter) in [("weight", "weight"), ("maxconn", "max_conns")] {
        guard let text = server.options[name] else { continue }
        guard let number = Int(text), (0...1_000_000).contains(number) else {
          group.refuse(server.line.line, "\(name) \(text): a number is needed")
          continue
        }
        if number > 0 { words.append("\(parameter)=\(number)") } else if name == "weight" { words.append("down") }
      }
      if server.options["backup"] != nil { words.append("backup") }
      if server.options["disabled"] != nil, !words.contains("down") { words.append("down") }
      let isChecked = server.options["check"] != nil
      if server.options["slowstart"] != nil || server.options["source"] != nil {
        group.refuse(
          server.line.line, "slowstart and source aren't carried over: slow_start and proxy_bind are there",
          closing: false)
      }
      if isChecked, check.isEmpty {
        group.change(
          server.line.line, "it is judged by connections that fail (max_fails), and isn't asked in between", "server",
          words: words)
      } else if !isChecked, !check.isEmpty {
        group.change(server.line.line, "it is asked as the others are", "server", words: words)
      } else {
        group.take(server.line.line, "server", words: words)
      }
    }
    isTLS = first.options["ssl"] != nil
    if first.options["send-proxy"] != nil { proxyProtocol = "on" }
    if first.options.keys.contains(where: { $0.hasPrefix("send-proxy-v2") }) { proxyProtocol = "v2" }
    if isTLS { trust(first, hosts, globals) }
  }

  private mutating func trust(_ server: Server, _ hosts: Set<String>, _ globals: HAProxyGlobals) {
    let line = server.line.line
    let options = server.options
    let sni = options["sni"].flatMap { text -> String? in
      text.hasPrefix("str(") && text.hasSuffix(")") ? String(text.dropFirst(4).dropLast()) : nil
    }
    if options["sni"] != nil, sni == nil {
      group.refuse(line, "only sni str(NAME) is taken: proxy_ssl_name can have variables")
    }
    if let sni, let host = options["verifyhost"], sni.lowercased() != host.lowercased() {
      group.refuse(line, "the name that is sent is the one that the certificate must have")
    }
    let name = options["verifyhost"] ?? sni
    if let certificate = options["crt"] {
      let path = globals.certificate(certificate)
      trust.append(("proxy_ssl_certificate", [path]))
      trust.append(("proxy_ssl_certificate_key", [path]))
    }
    if let ciphers = options["ciphers"] { trust.append(("proxy_ssl_ciphers", [ciphers])) }
    if let suites = options["ciphersuites"] { trust.append(("proxy_ssl_conf_command", ["Ciphersuites", suites])) }
    let versions = HAProxyVersions(options.mapValues { [$0] })
    for refusal in versions.refusals { group.refuse(line, refusal) }
    if let words = versions.words { trust.append(("proxy_ssl_protocols", words)) }
    if let name {
      guard Endpoint.isHost(name) else { return group.refuse(line, "a host name or an IP address is needed") }
      trust.append(("proxy_ssl_name", [name]))
      trust.append(("proxy_ssl_server_name", [sni == nil ? "off" : "on"]))
    } else if hosts.count == 1, let host = hosts.first {
      trust.append(("proxy_ssl_name", [host]))
    } else {
      group.refuse(line, "one name is expected in the certificates of a group: verifyhost NAME")
    }
    switch options["verify"] {
    case "none"?:
      let host = Endpoint(server.line.word(2))?.host ?? "localhost"
      let port = if case .port(_, let port)? = Endpoint(server.line.word(2))?.place { port } else { 0 }
      let gap = TrustGap(host: host, port: port)
      group.leave(gap, line, "HAProxy (verify none)")
      trust.append(("proxy_ssl_verify", ["off"]))
      trust.append(("proxy_ssl_pin", [gap.path]))
    case "required"?:
      guard let file = options["ca-file"], !file.hasSuffix("/") else {
        return group.refuse(line, "the server is verified, and no file with CAs is named: ca-file FILE")
      }
      if file != "@system-ca" {
        guard !file.hasPrefix("@") else { return group.refuse(line, "a file with CAs is needed") }
        trust.append(("proxy_ssl_trusted_certificate", [globals.authority(file)]))
      }
      trust.append(("proxy_ssl_verify", ["on"]))
      trust.append(("proxy_ssl_verify_depth", ["10"]))
      if let list = options["crl-file"] { trust.append(("proxy_ssl_crl", [globals.authority(list)])) }
      if name == nil {
        group.change(
          line, "HAProxy takes any certificate of the CA without verifyhost; here it must be for the server's host")
      }
    default: group.refuse(line, "verify is none or required")
    }
    for (_, words) in trust where !words.allSatisfy(ConvertedWord.isConstant) {
      group.refuse(line, "a word with \"$\"")
    }
  }
}

/// How a backend's servers are asked whether they are well.
struct HAProxyChecks {
  private var path: String?
  private(set) var match: String?

  mutating func read(_ line: HAProxyLine, _ group: inout ConvertedBlock) {
    switch (line.name, line.word(1)) {
    case ("option", _):
      // `option httpchk [METHOD] [URI [VERSION]]`
      let words = line.words.dropFirst(2).filter { !$0.hasPrefix("HTTP/") }
      let method = words.count > 1 || words.first?.hasPrefix("/") == false ? words.first ?? "" : "OPTIONS"
      path = words.first { $0.hasPrefix("/") } ?? "/"
      asked(line, by: method, &group)
    case ("http-check", "send"):
      let words = line.words.dropFirst(2)
      func value(_ name: String) -> String? {
        words.firstIndex(of: name).flatMap { $0 + 1 < words.endIndex ? words[$0 + 1] : nil }
      }
      if let uri = value("uri"), uri.hasPrefix("/") { path = uri }
      if words.contains("hdr") || words.contains("body") {
        return group.refuse(line.line, "a check is a GET with the name of the group as host", closing: false)
      }
      asked(line, by: value("meth") ?? "OPTIONS", &group)
    case ("http-check", "expect") where line.word(2) == "status" && line.words.count == 4:
      let range = line.word(3)
      guard range.utf8.allSatisfy({ $0 &- 48 < 10 || $0 == UInt8(ascii: "-") }), !range.isEmpty else { fallthrough }
      match = range
      group.take(line.line)
    default:
      group.refuse(line.line, "health_check in a location tells what a healthy server answers", closing: false)
    }
  }

  private func asked(_ line: HAProxyLine, by method: String, _ group: inout ConvertedBlock) {
    if method == "GET" {
      group.take(line.line)
    } else {
      group.change(line.line, "servers are asked by GET, and not by \(method)")
    }
  }

  /// The words behind `health_check`; empty: a connection alone proves nothing more of a server of http than requests do.
  func words(_ options: [String: String], isHTTP: Bool, name: String) -> [String] {
    guard !isHTTP || path != nil else { return [] }
    let interval = options["inter"].flatMap { HAProxyTime.written($0) } ?? "2s"
    var words = [
      "interval=\(interval)", "fails=\(number(options["fall"]) ?? 3)", "passes=\(number(options["rise"]) ?? 2)",
    ]
    if let port = number(options["port"]) { words.append("port=\(port)") }
    if let path { words.append("uri=\(path)") }
    if path != nil, match != nil { words.append("match=\(name)") }
    return words
  }

  private func number(_ text: String?) -> Int? {
    text.flatMap { Int($0) }.flatMap { (1...65_535).contains($0) ? $0 : nil }
  }
}

extension [(String, [String])] {
  /// A directive that stands once, in place of an earlier one of its name.
  mutating func set(_ name: String, _ word: String) {
    removeAll { $0.0 == name }
    append((name, [word]))
  }
}

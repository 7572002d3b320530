import Language

/// A frontend, or the front of a `listen` section, as servers of `http` or `stream`.
struct HAProxyFrontend {
  private struct Route {
    var hosts: HAProxyHosts?
    var places: [HAProxyPlace]?
    var names: [String]?
    let backend: String
    let line: OldLine
  }

  private let section: HAProxyFile.Section
  private let isHTTP: Bool
  private let backends: [String: HAProxyBackend]
  /// What all servers of the frontend have in common: notes, and whether they are closed.
  private var common: ConvertedBlock
  private var binds: [HAProxyBind] = []
  private var routes: [Route] = []
  private var standard: (name: String, line: OldLine)?
  private var rules = HAProxyRules()
  private var statements: [(String, [String])] = []
  private var usesForwardedFor = false
  /// `map` lines, which stand before the servers of `stream`.
  private(set) var before: [String] = []
  private let number: Int

  init(
    _ section: HAProxyFile.Section, lines: [HAProxyLine], isHTTP: Bool, number: Int, backends: [String: HAProxyBackend],
    _ globals: HAProxyGlobals
  ) {
    self.section = section
    self.isHTTP = isHTTP
    self.backends = backends
    self.number = number
    common = ConvertedBlock(section.head)
    let conditions = HAProxyConditions(lines)
    if section.kind == "listen" { standard = (section.name, section.head) }
    for line in lines { read(line, conditions, globals) }
    if binds.isEmpty { common.refuse(section.head, "it has no \"bind\"") }
    if rules.usesSource, binds.contains(where: \.takesProxyProtocol) {
      common.refuse(
        section.head, "rules about addresses behind accept-proxy need set_real_ip_from: write who is believed")
    }
    if !isHTTP, !rules.fields.isEmpty || !rules.responses.isEmpty {
      common.refuse(section.head, "rules about requests need mode http")
    }
  }

  private mutating func read(
    _ line: HAProxyLine, _ conditions: HAProxyConditions, _ globals: HAProxyGlobals
  ) {
    let end = line.words.firstIndex { $0 == "if" || $0 == "unless" } ?? line.words.endIndex
    switch line.name {
    case "bind":
      let divided = HAProxyBind(line, globals).divided()
      binds += divided.binds
      for fault in divided.faults { common.refuse(fault.line, fault.reason) }
      var told: Set<String> = []
      for bind in divided.binds {
        for refusal in bind.refusals where told.insert(refusal).inserted { common.refuse(line.line, refusal) }
        for change in bind.changes where told.insert(change).inserted { common.change(line.line, change) }
      }
      if told.isEmpty { common.take(line.line) }
    case "acl":
      if conditions.isKnown(line.word(1)) {
        common.take(line.line)
      } else {
        common.refuse(line.line, "this condition can't be had; a rule that needs it is refused, too", closing: false)
      }
    case "default_backend":
      standard = (line.word(1), line.line)
      common.take(line.line)
    case "use_backend": route(line, conditions.terms(line.words[end...]))
    case "http-request", "http-response": rules.read(line, conditions, &common)
    case "redirect": rules.redirect(line, conditions.terms(line.words[end...]), from: 1, &common)
    case "tcp-request": tcp(line, conditions.terms(line.words[end...]))
    case "option": option(line)
    case "timeout": time(line)
    case "maxconn", "rate-limit", "monitor-uri":
      common.refuse(
        line.line, "it isn't carried over: worker_connections, limit_conn, limit_req and a location are there",
        closing: false)
    case "mode", "log", "description", "id", "backlog", "unique-id-format", "unique-id-header", "log-format",
      "log-tag", "enabled", "http-reuse", "retries", "fullconn", "hash-type":
      common.take(line.line, because: "without effect here")
    case "server", "default-server", "balance", "cookie", "stick-table", "stick", "http-check", "tcp-check":
      if section.kind != "listen", !line.isDefault { common.refuse(line.line, "it belongs to a backend") }
    case "stats":
      common.refuse(line.line, "status; and metrics; in a location have what the page shows", closing: false)
    case "compression", "errorfile", "http-error", "errorloc", "filter":
      common.refuse(line.line, "it isn't carried over: error_page, gzip and status are there", closing: false)
    case "disabled": common.refuse(line.line, "it is disabled in the old file, too")
    default: common.refuse(line.line, "it isn't known, and it may be a check")
    }
  }

  private mutating func option(_ line: HAProxyLine) {
    switch line.word(1) {
    case "forwardfor":
      usesForwardedFor = true
      common.take(line.line)
    default: common.take(line.line, because: "without effect here")
    }
  }

  private mutating func time(_ line: HAProxyLine) {
    guard let time = HAProxyTime.written(line.word(2)) else {
      return common.refuse(line.line, "no time: 500, 10s or 5m", closing: false)
    }
    switch line.word(1) {
    case "client" where isHTTP:
      statements.set("client_body_timeout", time)
      statements.set("send_timeout", time)
    case "http-request" where isHTTP: statements.set("client_header_timeout", time)
    case "http-keep-alive" where isHTTP: statements.set("keepalive_timeout", time)
    default: break
    }
    common.take(line.line)
  }

  private mutating func route(_ line: HAProxyLine, _ alternatives: [[HAProxyTerm]]?) {
    guard let alternatives else { return common.refuse(line.line, HAProxyRules.tooLong) }
    guard backends[line.word(1)] != nil else { return common.refuse(line.line, "there is no such backend") }
    for terms in alternatives {
      var route = Route(hosts: nil, places: nil, names: nil, backend: line.word(1), line: line.line)
      for term in terms {
        switch term.criterion {
        case .host(let hosts) where route.hosts == nil && isHTTP:
          route.hosts = HAProxyHosts(names: hosts, isNegated: term.isNegated)
        case .pathPrefix(let paths) where !term.isNegated && route.places == nil && isHTTP:
          route.places = paths.map { HAProxyPlace(path: $0, isExact: false) }
        case .path(let paths) where !term.isNegated && route.places == nil && isHTTP:
          route.places = paths.map { HAProxyPlace(path: $0, isExact: true) }
        case .serverName(let names) where !term.isNegated && route.names == nil && !isHTTP: route.names = names
        case .always where !term.isNegated: break
        case .clientHello where !isHTTP:
          return common.refuse(
            line.line, "TLS and other protocols at one port are told apart by a map of $ssl_preread_protocol")
        default:
          return common.refuse(
            line.line, "requests are sent by host and path, and connections by the name in the ClientHello")
        }
      }
      routes.append(route)
    }
    common.take(line.line)
  }

  private mutating func tcp(_ line: HAProxyLine, _ alternatives: [[HAProxyTerm]]?) {
    switch (line.word(1), line.word(2)) {
    case ("inspect-delay", _): return common.take(line.line, because: "preread_timeout says how long it waits")
    case ("content", "accept") where alternatives == [[HAProxyTerm(isNegated: false, criterion: .clientHello)]]:
      return common.take(line.line)
    default: break
    }
    guard ["reject", "silent-drop"].contains(line.word(2)), let terms = alternatives?.first, alternatives?.count == 1,
      terms.count == 1, case .source(let networks) = terms[0].criterion
    else { return common.refuse(line.line, "this rule isn't known here, and it may be a check") }
    let isDenied = !terms[0].isNegated
    // Behind an `allow`, a later rule would not be read.
    guard !statements.contains(where: { $0.0 == "allow" }) else {
      return common.refuse(
        line.line, "a rule about addresses behind one that admits some: write allow and deny in their order")
    }
    statements += networks.map { (isDenied ? "deny" : "allow", [$0]) } + (isDenied ? [] : [("deny", ["all"])])
    if binds.contains(where: \.takesProxyProtocol), line.word(1) != "connection" {
      common.refuse(line.line, "rules about addresses behind accept-proxy need set_real_ip_from")
    }
    common.take(line.line)
  }

  // MARK: Servers

  mutating func servers() -> [ConvertedBlock] { isHTTP ? requestServers() : connectionServers() }

  /// A server with the lines of a `bind`; those of the same kind of TLS share their servers.
  private func opened(_ bind: HAProxyBind, names: [String], isDefault: Bool) -> ConvertedBlock {
    var block = common
    var closed: [String] = []
    for address in bind.addresses {
      let words =
        [address] + (bind.isTLS ? ["ssl"] : []) + (isDefault ? ["default_server"] : [])
        + (bind.takesProxyProtocol ? ["proxy_protocol"] : [])
      block.write("listen", words)
      closed.append(ConvertedWord.statement("listen", words))
    }
    if !names.isEmpty {
      block.write("server_name", names)
      closed.append(ConvertedWord.statement("server_name", names))
    }
    if bind.isTLS { closed.append("ssl_reject_handshake on;") }
    block.closed = closed + (isHTTP ? ["return 403;"] : ["deny all;", "return refused;"])
    if !isHTTP, bind.isTLS { block.closed = closed + ["return refused;"] }
    for (name, words) in bind.statements {
      if words.allSatisfy(ConvertedWord.isConstant) {
        block.write(name, words)
      } else {
        block.refuse(bind.line.line, "a word with \"$\"")
      }
    }
    if isHTTP, bind.isTLS, bind.usesHTTP2 { block.write("http2", "on") }
    for (name, words) in statements { block.write(name, words) }
    return block
  }

  private mutating func requestServers() -> [ConvertedBlock] {
    // Each host that a rule names is a server of its own.
    var hosts: [String] = []
    var seen: Set<String> = []
    for host in routes.flatMap({ $0.hosts?.names ?? [] }) + rules.refusals.flatMap({ $0.hosts?.names ?? [] })
    where seen.insert(host).inserted { hosts.append(host) }
    let rulesCount = routes.count + rules.refusals.count + rules.fields.count
    let lines = (hosts.count + 1) * (rulesCount + 1) * max(binds.count, 1)
    // The result stays as long as the old file, more or less.
    guard lines <= 200_000 + 50 * rulesCount else {
      common.refuse(section.head, "too many hosts and rules for one frontend: divide it")
      return binds.map { opened($0, names: [], isDefault: true) }
    }
    var blocks: [ConvertedBlock] = []
    for bind in binds {
      let names = bind.names.filter { !hosts.contains($0) }
      if bind.isShared, bind.rejects || bind.isDefault || !names.isEmpty {
        var block = opened(bind, names: names, isDefault: bind.isDefault)
        if !hosts.isEmpty, !bind.isLikeOthers {
          block.refuse(section.head, "rules about hosts beside a crt-list with options: write a server for each name")
        }
        if bind.rejects { block.write("return", "403") } else { fill(&block, nil, bind) }
        blocks.append(block)
      }
      let own = bind.isShared ? hosts.filter { bind.shows($0, among: binds) } : hosts
      for host in (bind.isShared ? [] : [String?.none]) + own.map(Optional.some) {
        var block = opened(bind, names: host.map { [$0] } ?? [], isDefault: host == nil)
        fill(&block, host, bind)
        blocks.append(block)
      }
    }
    return blocks
  }

  private func fill(_ block: inout ConvertedBlock, _ host: String?, _ bind: HAProxyBind) {
    if let redirect = rules.redirects, !bind.isTLS {
      block.write("return", redirect.status, "https://$host$request_uri")
      return
    } else if let redirect = rules.redirects, redirect.isForAll {
      return block.refuse(redirect.line, "requests over TLS would be sent to TLS without end: add `if !{ ssl_fc }`")
    }
    let refusals = rules.refusals.filter { $0.hosts?.hold(for: host) ?? true }
    let addresses = statements.filter { ["allow", "deny"].contains($0.0) }
    var server: [(String, [String])] = []
    var ofPlaces: [(HAProxyPlace, HAProxyRules.Refusal)] = []
    for refusal in refusals {
      let isOfCertificates = refusal.statements.contains { $0.0.hasPrefix("ssl_client_") }
      if isOfCertificates, bind.verification == "off" {
        // HAProxy refuses everybody, or nobody, where it asks for no certificate.
        block.refuse(refusal.line, "it asks for a certificate, and this bind line verifies none: verify required")
      }
      if let places = refusal.places {
        ofPlaces += places.map { ($0, refusal) }
      } else if refusal.statements.isEmpty {
        server = [("return", ["403"])] + server
      } else {
        let isAllow = refusal.statements[0].0 == "ssl_client_allow" || refusal.statements[0].0 == "allow"
        if isAllow, server.contains(where: { $0.0 == refusal.statements[0].0 }) {
          block.refuse(
            refusal.line, "two such rules would admit what either of them does: write the conditions in one line")
        }
        if !addresses.isEmpty || server.contains(where: { $0.0 == "allow" || $0.0 == "deny" }), !isOfCertificates {
          block.refuse(refusal.line, "two rules about addresses in one place: write allow and deny in their order")
        }
        server += refusal.statements
      }
    }
    let isEnded = server.contains { $0.0 == "return" }
    for (name, words) in server { block.write(name, words) }
    if isEnded { return }
    block.write("client_max_body_size", "0")
    for (name, words) in rules.responses where name == "add_header" { block.write(name, words) }
    locations(&block, host, server + addresses, ofPlaces)
  }

  private func locations(
    _ block: inout ConvertedBlock, _ host: String?, _ server: [(String, [String])],
    _ refusals: [(HAProxyPlace, HAProxyRules.Refusal)]
  ) {
    var places: [HAProxyPlace] = []
    var seen: Set<HAProxyPlace> = []
    let routes = self.routes.filter { $0.hosts?.hold(for: host) ?? true }
    for place in refusals.map(\.0) + routes.flatMap({ $0.places ?? [] }) where seen.insert(place).inserted {
      places.append(place)
    }
    guard places.count <= 200 else {
      return block.refuse(section.head, "more than 200 paths in one frontend: write locations")
    }
    let root = HAProxyPlace(path: "/", isExact: false)
    for place in places.filter({ $0 != root }) + [root] {
      // A place inside another has what the rules of both say.
      var lines: [String] = []
      var isRefused = false
      var own: [(String, [String])] = []
      for (other, refusal) in refusals where other.covers(place) {
        if refusal.statements.isEmpty { isRefused = true }
        if let name = refusal.statements.first?.0 {
          if (own + server).contains(where: {
            $0.0 == name || ["allow", "deny"].contains($0.0) && ["allow", "deny"].contains(name)
          }) {
            block.refuse(
              refusal.line, "rules of one kind at several levels would replace each other: write them in the location")
          }
          own += refusal.statements
        }
      }
      // The first rule of HAProxy's that fits. `covers` is transitive, so no later request of the place has another.
      let chosen = routes.first { $0.places?.contains { $0.covers(place) } ?? true }
      let name = chosen?.backend ?? standard?.name
      if isRefused {
        lines = ["return 403;"]
      } else if let name, let backend = backends[name] {
        for (name, words) in own { lines.append(ConvertedWord.statement(name, words)) }
        lines += passing(backend, &block, hasOwn: own + server)
      } else {
        lines = ["return 503;"]
      }
      block.nest(place.location, lines)
    }
  }

  /// What a location says of a backend.
  private func passing(
    _ backend: HAProxyBackend, _ block: inout ConvertedBlock, hasOwn own: [(String, [String])]
  ) -> [String] {
    guard !backend.isClosed else { return ["return 403;"] }
    guard backend.isHTTP else {
      block.refuse(section.head, "\(backend.name) has mode tcp: requests need mode http")
      return ["return 403;"]
    }
    var lines: [String] = []
    func add(_ name: String, _ words: [String]) { lines.append(ConvertedWord.statement(name, words)) }
    for refusal in backend.rules.refusals {
      let names = refusal.statements.map(\.0)
      guard refusal.places == nil, refusal.hosts == nil,
        !own.contains(where: { names.contains($0.0) || $0.0 == "allow" || $0.0 == "deny" })
      else {
        block.refuse(
          refusal.line,
          "a rule of a backend about hosts or paths, or beside one of the frontend: write it in the frontend")
        continue
      }
      if refusal.statements.isEmpty { return ["return 403;"] }
      if names.contains(where: { $0.hasPrefix("ssl_client_") }), binds.contains(where: { $0.verification == "off" }) {
        block.refuse(refusal.line, "it asks for a certificate, and a bind line verifies none: verify required")
      }
      for (name, words) in refusal.statements { add(name, words) }
    }
    if backend.rules.refusals.count > 1 {
      block.refuse(
        backend.rules.refusals[1].line,
        "several rules of a backend would replace each other: write them in the frontend")
    }
    if backend.rules.redirects != nil {
      block.refuse(backend.rules.redirects?.line ?? section.head, "a redirect belongs to the frontend")
    }
    add("proxy_pass", ["\(backend.isTLS ? "https" : "http")://\(backend.groupName)"])
    for (name, words) in backend.trust { add(name, words) }
    if let version = backend.proxyProtocol { add("proxy_protocol", [version]) }
    if !backend.check.isEmpty { add("health_check", backend.check) }
    add("proxy_http_version", ["1.1"])
    add("proxy_set_header", ["Host", "$http_host"])
    add("proxy_set_header", ["Upgrade", "$http_upgrade"])
    add("proxy_set_header", ["Connection", "$connection_upgrade"])
    let forwarded = usesForwardedFor || backend.usesForwardedFor
    let all =
      (forwarded ? [("X-Forwarded-For", "$proxy_add_x_forwarded_for")] : []) + rules.fields + backend.rules.fields
    // A later rule of the same field counts alone.
    var seen: Set<String> = []
    let fields = all.reversed().filter { seen.insert($0.0.lowercased()).inserted }.reversed()
    for (name, value) in fields { add("proxy_set_header", [name, value]) }
    for (name, words) in backend.times { add(name, words) }
    for (name, words) in rules.responses where name != "add_header" { add(name, words) }
    let added =
      backend.rules.responses.contains { $0.0 == "add_header" } ? rules.responses.filter { $0.0 == "add_header" } : []
    for (name, words) in added + backend.rules.responses { add(name, words) }
    return lines
  }

  private mutating func connectionServers() -> [ConvertedBlock] {
    var blocks: [ConvertedBlock] = []
    let named = routes.filter { $0.names != nil }
    var isRouted = false
    for bind in binds {
      var block = opened(bind, names: bind.names, isDefault: bind.isDefault)
      if bind.rejects {
        block.write("return", "refused")
        blocks.append(block)
        continue
      }
      for refusal in rules.refusals { block.refuse(refusal.line, "rules about requests need mode http") }
      if let redirect = rules.redirects { block.refuse(redirect.line, "rules about requests need mode http") }
      let first = routes.first { $0.names == nil }?.backend ?? standard?.name
      guard let first, let backend = backends[first] else {
        block.refuse(section.head, "it has no backend that is there")
        blocks.append(block)
        continue
      }
      let all = [backend] + named.compactMap { backends[$0.backend] }
      for other in all where other.isClosed { block.refuse(section.head, "its backend \(other.name) can't be had") }
      if !named.isEmpty {
        if bind.isTLS {
          block.refuse(bind.line.line, "the name in the ClientHello is read where TLS isn't ended: leave out ssl")
        }
        if all.contains(where: { $0.isTLS || $0.proxyProtocol != backend.proxyProtocol }) {
          block.refuse(
            section.head, "backends that are chosen by name get the client's own TLS: leave out ssl of their servers")
        }
        block.write("ssl_preread", "on")
        block.write("proxy_pass", "$haproxy_backend_\(number)")
        if !isRouted {
          isRouted = true
          before = ["map $ssl_preread_server_name $haproxy_backend_\(number) {"]
          var seen: Set<String> = []
          for route in routes.prefix(while: { $0.names != nil }) {
            for name in route.names ?? [] where seen.insert(name).inserted {
              before.append("    \(name) \(backends[route.backend]?.groupName ?? "");")
            }
          }
          before += ["    default \(backend.groupName);", "}"]
        }
      } else {
        block.write("proxy_pass", backend.groupName)
        if !backend.check.isEmpty { block.write("health_check", backend.check) }
        if backend.isTLS { block.write("proxy_ssl", "on") }
        for (name, words) in backend.trust { block.write(name, words) }
      }
      if let version = backend.proxyProtocol { block.write("proxy_protocol", version) }
      for (name, words) in backend.times { block.write(name, words) }
      if !backend.rules.refusals.isEmpty || !backend.rules.fields.isEmpty {
        block.refuse(section.head, "its backend has rules about requests, which need mode http")
      }
      blocks.append(block)
    }
    return blocks
  }
}

import Features
import Forward
import Language
import Negotiation
import Observability
import Traffic

/// The configuration that the options of `sallyport proxy` stand for, and the option behind each of its lines.
package struct ProxyText: Sendable {
  private struct Line {
    var text: String
    var value: ProxyValue?
  }

  /// The name in places of diagnostics, which `OptionWording` replaces.
  package static let name = "the options of `sallyport proxy`"
  private var lines: [Line] = []

  package var text: String { lines.map(\.text).joined(separator: "\n") + "\n" }

  /// The value that a line of the text was made of.
  package func value(atLine line: Int) -> ProxyValue? {
    lines.indices.contains(line - 1) ? lines[line - 1].value : nil
  }

  /// The first value of an option.
  package func value(of option: ProxyOption) -> ProxyValue? {
    lines.lazy.compactMap(\.value).first { $0.option == option }
  }

  /// Throws all that is wrong with the options as far as they can be judged without files.
  package init(_ options: ProxyOptions, hasIPv6: Bool) throws(ProxyOptionFaults) {
    let plan = try ProxyPlan(options, hasIPv6: hasIPv6)
    add("# The configuration that the options of `sallyport proxy` stand for.")
    if let user = plan.user { add("user", [user.text], user) }
    add("worker_processes auto;")
    add("error_log stderr \(plan.logLevel);")
    add("events { worker_connections 4096; }")
    if let endpoint = plan.spiffeEndpoint { add("spiffe_endpoint", [endpoint.text], endpoint) }
    if plan.isTCP { passConnections(plan) } else { passRequests(plan) }
  }

  private mutating func passRequests(_ plan: ProxyPlan) {
    add("http {")
    add("    access_log stderr;")
    add("    server_tokens off;")
    add("    map $http_upgrade $connection_upgrade { default upgrade; \"\" \"\"; }")
    add("    upstream upstream {")
    for (target, value) in plan.targets { add("        server", [target.server], value) }
    add("        keepalive 32;")
    add("    }")
    if isNamed(plan) { refuseOtherNames(plan) }
    add("    server {")
    for (address, value) in plan.listeners { add("        listen", [address.description] + ending(plan), value) }
    if isNamed(plan) { add("        server_name", names(plan), nil) }
    add("        http2 on;")
    clients(plan)
    add("        client_max_body_size 0;")
    add("        proxy_request_buffering off;")
    add("        location / {")
    upstream(plan)
    add("        }")
    add("    }")
    if !plan.healthListeners.isEmpty { health(plan) }
    add("}")
  }

  private mutating func passConnections(_ plan: ProxyPlan) {
    add("stream {")
    add("    log_format connections '$remote_addr [$time_local] $status $session_time $bytes_received $bytes_sent'")
    add("        ' $upstream_addr $ssl_client_verify \"$ssl_client_s_dn\"';")
    add("    access_log stderr connections;")
    add("    upstream upstream {")
    for (target, value) in plan.targets { add("        server", [target.server], value) }
    add("    }")
    add("    server {")
    for (address, value) in plan.listeners {
      add("        listen", [address.description] + ending(plan) + ["so_keepalive=on"], value)
    }
    clients(plan)
    if let (kind, value) = plan.negotiation { add("        starttls", [kind.rawValue], value) }
    add("        proxy_pass upstream;")
    // As long as stunnel allows: pools of connections to databases are silent at night.
    add("        proxy_timeout 12h;")
    add("        proxy_socket_keepalive on;")
    way(plan, indent: "        ")
    if plan.isTLS {
      add("        proxy_ssl on;")
      if let (kind, value) = plan.upstreamNegotiation { add("        proxy_starttls", [kind.rawValue], value) }
      upstreamTrust(plan, indent: "        ")
    }
    add("    }")
    add("}")
    guard !plan.healthListeners.isEmpty else { return }
    add("http {")
    health(plan)
    add("}")
  }

  /// Whether requests come in clear over TCP from this machine alone, so that it is known under which names they come.
  ///
  /// A page of a browser on this machine could else reach the upstream as sallyport, if its host's name leads to
  /// 127.0.0.1 (DNS rebinding): its requests have that name in Host.
  private func isNamed(_ plan: ProxyPlan) -> Bool {
    plan.certificate == nil && !plan.listensAnywhere
      && plan.listeners.contains { !$0.0.isUnix }
  }

  /// The names of the loopback, and those of the upstream, which a hosts file may lead here.
  private func names(_ plan: ProxyPlan) -> [String] {
    var names = ["localhost", "127.0.0.1", "[::1]"]
    for (target, _) in plan.targets {
      for name in [target.host, plan.upstreamName.text].map({ target.authority(named: $0, withPort: false) })
      where !names.contains(name) { names.append(name) }
    }
    return names
  }

  private mutating func refuseOtherNames(_ plan: ProxyPlan) {
    add("    server {")
    for (address, value) in plan.listeners { add("        listen", [address.description, "default_server"], value) }
    add("        http2 on;")
    add("        return 421 \"this proxy is called localhost, 127.0.0.1 or as its upstream, and not as in Host\\n\";")
    add("    }")
  }

  private func ending(_ plan: ProxyPlan) -> [String] { plan.certificate == nil ? [] : ["ssl"] }

  private mutating func clients(_ plan: ProxyPlan) {
    guard let certificate = plan.certificate else { return }
    add("        ssl_certificate", [certificate.text], certificate)
    if let key = plan.key { add("        ssl_certificate_key", [key.text], key) }
    if let file = plan.passwordFile { add("        ssl_password_file", [file.text], file) }
    if let authority = plan.clientCA { add("        ssl_client_certificate", [authority.text], authority) }
    for pin in plan.clientPins { add("        ssl_client_pin", [pin.text], pin) }
    for list in plan.revocations { add("        ssl_crl", [list.text], list) }
    add("        ssl_verify_client", [plan.verification.rawValue], plan.verify)
    for (words, value) in plan.allow { add("        ssl_client_allow", words, value) }
    for (words, value) in plan.deny { add("        ssl_client_deny", words, value) }
  }

  private mutating func upstream(_ plan: ProxyPlan) {
    add("            proxy_pass \(plan.isTLS ? "https" : "http")://upstream;")
    add("            proxy_http_version 1.1;")
    add("            proxy_set_header Upgrade $http_upgrade;")
    add("            proxy_set_header Connection $connection_upgrade;")
    if plan.certificate != nil {
      add("            proxy_set_header Host $http_host;")
      add("            proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;")
      add("            proxy_set_header X-Forwarded-Proto $scheme;")
    } else if let (target, value) = plan.targets.first {
      // The client has asked for localhost. The upstream answers for its own name, and knows nothing of this hop.
      let authority = target.authority(named: plan.upstreamName.text)
      add("            proxy_set_header", ["Host", authority], value)
      add("            proxy_redirect", ["https://\(authority)/", "/"], value)
    }
    add("            proxy_set_header X-Client-Verify $ssl_client_verify;")
    add("            proxy_set_header X-Client-DN $ssl_client_s_dn;")
    way(plan, indent: "            ")
    if plan.isTLS { upstreamTrust(plan, indent: "            ") }
  }

  private mutating func way(_ plan: ProxyPlan, indent: String) {
    guard let via = plan.via else { return }
    add("\(indent)proxy_via", [via.text] + (plan.viaUserFile.map { ["user_file=\($0.text)"] } ?? []), via)
  }

  private mutating func upstreamTrust(_ plan: ProxyPlan, indent: String) {
    if let authority = plan.upstreamCA {
      add("\(indent)proxy_ssl_trusted_certificate", [authority.text], authority)
    } else if let id = plan.upstreamIDs.first {
      add("\(indent)proxy_ssl_trusted_certificate", ["spiffe:"], id)
    }
    if let id = plan.upstreamIDs.first { add("\(indent)proxy_ssl_spiffe_id", plan.upstreamIDs.map(\.text), id) }
    // A pin alone names the key that is trusted, whoever certified it.
    let isByKeyAlone = plan.upstreamCA == nil && !plan.pins.isEmpty
    add("\(indent)proxy_ssl_verify \(isByKeyAlone ? "off" : "on");")
    for pin in plan.pins { add("\(indent)proxy_ssl_pin", [pin.text], pin) }
    add("\(indent)proxy_ssl_name", [plan.upstreamName.text], plan.upstreamName)
    add("\(indent)proxy_ssl_server_name on;")
    if let certificate = plan.upstreamCert { add("\(indent)proxy_ssl_certificate", [certificate.text], certificate) }
    if let key = plan.upstreamKey { add("\(indent)proxy_ssl_certificate_key", [key.text], key) }
    if plan.upstreamCert != nil, let file = plan.passwordFile {
      add("\(indent)proxy_ssl_password_file", [file.text], file)
    }
  }

  private mutating func health(_ plan: ProxyPlan) {
    add("    server {")
    for (address, value) in plan.healthListeners { add("        listen", [address.description], value) }
    add("        access_log off;")
    add("        return 200 \"ok\\n\";")
    add("    }")
  }

  private mutating func add(_ text: String) { lines.append(Line(text: text, value: nil)) }

  private mutating func add(_ directive: String, _ words: [String], _ value: ProxyValue?) {
    let written = words.map { ConfigurationWord.written($0) }.joined(separator: " ")
    lines.append(Line(text: "\(directive) \(written);", value: value))
  }
}

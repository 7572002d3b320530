import Transport

/// What the manual says of a variable.
package struct VariableEntry: Sendable {
  /// The name without its `$`.
  package let name: String
  package let kinds: Set<TrafficKind>
  /// What the value is.
  package let value: String
  /// Whether nginx has no variable of that name.
  package let isOursAlone: Bool

  /// The levels whose lines can name the variable.
  package var levels: String {
    [TrafficKind.http, .stream].filter(kinds.contains).map { "\($0)" }.joined(separator: ", ")
  }
  /// The first version that has the variable.
  package var since: String { isOursAlone ? "0.1.0" : "0.1.0, as in nginx" }
}

/// The names of variables: nginx's and sallyport's own.
package struct VariableNames: Sendable {
  package enum Answer {
    case known(Variable)
    case planned
    case unknown
  }

  /// Those of features, by name.
  private let ofHTTP: [String: FeatureVariable]
  private let ofStream: [String: FeatureVariable]

  init(_ features: [any DirectiveFeature.Type]) {
    func variables(of kind: TrafficKind) -> [String: FeatureVariable] {
      features.reduce(into: [:]) { all, feature in
        for variable in feature.variables where variable.kinds.contains(kind) { all[variable.name] = variable }
      }
    }
    (ofHTTP, ofStream) = (variables(of: .http), variables(of: .stream))
  }

  /// Those of features, by name.
  package func ofFeatures(_ kind: TrafficKind) -> [String: FeatureVariable] { kind == .http ? ofHTTP : ofStream }

  /// Finds the variable for a name without its `$`. As in nginx, the name's case does not matter.
  package func look(up name: String, of kind: TrafficKind = .http) -> Answer {
    let name = name.lowercased()
    if kind == .stream { return lookInStream(name) }
    if let simple = SimpleVariable(rawValue: name) { return .known(.simple(simple)) }
    if let variable = ofHTTP[name] { return .known(.feature(variable)) }
    if Self.planned.contains(name) { return .planned }
    // As in nginx, the prefix alone is a variable, which is empty: `$arg_`.
    for (prefix, make, _) in Self.prefixes where name.hasPrefix(prefix) {
      return .known(make(Array(name.dropFirst(prefix.count).utf8)))
    }
    if name.hasPrefix("proxy_protocol_tlv_") { return Self.tlv(name) }
    return .unknown
  }

  private func lookInStream(_ name: String) -> Answer {
    if let variable = ofStream[name] { return .known(.feature(variable)) }
    if let simple = SimpleVariable(rawValue: name), simple.isOfStream { return .known(.simple(simple)) }
    if name.hasPrefix("proxy_protocol_tlv_") { return Self.tlv(name) }
    return .unknown
  }

  private static func tlv(_ name: String) -> Answer {
    ProxyTLV(name: name.dropFirst("proxy_protocol_tlv_".count)).map { .known(.proxyTLV($0)) } ?? .unknown
  }

  /// Whether nginx has no variable of the name, and sallyport has.
  package func isOursAlone(_ name: String) -> Bool {
    if case .known(let variable) = look(up: name) { variable.isOursAlone } else { false }
  }

  /// Longer prefixes come first: `upstream_http_x` must not be read as `http_x`.
  private static let prefixes: [(String, @Sendable ([UInt8]) -> Variable, help: String)] = [
    ("arg_", { .argument($0) }, "The argument NAME of the query, as sent; letters of either case."),
    ("http_", { .requestField($0) }, "The field NAME of the request, in lower case with `_` for `-`."),
    ("cookie_", { .cookie($0) }, "The cookie NAME of the request."),
    ("sent_http_", { .sentField($0) }, "The field NAME of the response to the client."),
    ("sent_trailer_", { .sentTrailer($0) }, "The trailer field NAME of the response to the client."),
    ("upstream_http_", { .upstreamField($0) }, "The field NAME of the upstream's response."),
    ("upstream_cookie_", { .upstreamCookie($0) }, "The cookie NAME that the upstream sets."),
    ("upstream_trailer_", { .upstreamTrailer($0) }, "The trailer field NAME of the upstream's response."),
  ]

  /// nginx's variables that have no value in sallyport yet.
  private static let planned: Set<String> = [
    "ssl_server_cert_type", "server_rewrite", "upstream_queue_time", "upstream_last_addr",
    "upstream_last_server_name", "secure_link",
    "memcached_key", "ancient_browser", "modern_browser", "msie",
    "date_local", "date_gmt", "uid_got", "uid_set", "uid_reset",
    "ssl_ech_status", "ssl_ech_outer_server_name",
  ]

  /// What the manual says of each variable that a configuration can name, by name. Those of a prefix end in `NAME`.
  package var entries: [VariableEntry] {
    var all = SimpleVariable.allCases.map { simple in
      VariableEntry(
        name: simple.rawValue, kinds: simple.isOfStream ? [.http, .stream] : [.http], value: simple.help,
        isOursAlone: simple.isOursAlone)
    }
    for name in Set(ofHTTP.keys).union(ofStream.keys) {
      guard let variable = ofHTTP[name] ?? ofStream[name] else { continue }
      let kinds = variable.kinds.union(ofStream[name]?.kinds ?? [])
      all.removeAll { $0.name == name }
      all.append(
        VariableEntry(name: name, kinds: kinds, value: variable.help, isOursAlone: variable.isOursAlone))
    }
    all += Self.prefixes.map { VariableEntry(name: "\($0.0)NAME", kinds: [.http], value: $0.help, isOursAlone: false) }
    all.append(
      VariableEntry(
        name: "proxy_protocol_tlv_NAME", kinds: [.http, .stream],
        value: "A value of the PROXY header: `alpn`, `authority`, `unique_id`, `ssl_cn`, `0x…` and others.",
        isOursAlone: false))
    return all.sorted { $0.name < $1.name }
  }

  /// The names of nginx's variables that sallyport refuses, in order.
  package var refused: [String] { Self.planned.sorted() }

  /// All names, for suggestions.
  package func all(of kind: TrafficKind) -> [String] {
    let own = SimpleVariable.allCases.filter { kind == .http || $0.isOfStream }
    return own.map(\.rawValue) + ofFeatures(kind).keys.sorted()
  }
}

import Transport

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
    for (prefix, make) in Self.prefixes where name.hasPrefix(prefix) {
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
  private static let prefixes: [(String, @Sendable ([UInt8]) -> Variable)] = [
    ("arg_", { .argument($0) }), ("http_", { .requestField($0) }), ("cookie_", { .cookie($0) }),
    ("sent_http_", { .sentField($0) }), ("sent_trailer_", { .sentTrailer($0) }),
    ("upstream_http_", { .upstreamField($0) }), ("upstream_cookie_", { .upstreamCookie($0) }),
    ("upstream_trailer_", { .upstreamTrailer($0) }),
  ]

  /// nginx's variables that have no value in sallyport yet.
  private static let planned: Set<String> = [
    "ssl_server_cert_type", "server_rewrite", "upstream_queue_time", "upstream_last_addr",
    "upstream_last_server_name", "secure_link",
    "memcached_key", "ancient_browser", "modern_browser", "msie",
    "date_local", "date_gmt", "uid_got", "uid_set", "uid_reset",
    "ssl_ech_status", "ssl_ech_outer_server_name",
  ]

  /// All names, for suggestions.
  package func all(of kind: TrafficKind) -> [String] {
    let own = SimpleVariable.allCases.filter { kind == .http || $0.isOfStream }
    return own.map(\.rawValue) + ofFeatures(kind).keys.sorted()
  }
}

/// What a condition of HAProxy's asks, as far as a server, a location or a rule can ask it.
enum HAProxyCriterion: Hashable {
  case host([String])
  case pathPrefix([String])
  case path([String])
  case source([String])
  /// The client has shown a certificate, which verified.
  case certificate
  /// A part of the certificate's subject, by the key of `ssl_client_allow`.
  case subject(key: String, values: [String])
  /// The connection of the client is TLS.
  case encrypted
  case serverName([String])
  /// Always so where a connection gets as far as a rule.
  case always
  case unknown(String)
}

/// One part of a condition; all parts must hold.
struct HAProxyTerm: Hashable {
  var isNegated: Bool
  let criterion: HAProxyCriterion
}

/// The named conditions of a proxy.
struct HAProxyConditions {
  private let named: [String: HAProxyCriterion]

  /// `lines`: those of a proxy. Lines `acl` of one name are alternatives.
  init(_ lines: [HAProxyLine]) {
    let defined = lines.filter { $0.name == "acl" }
    named = Dictionary(grouping: defined) { $0.word(1) }.mapValues { lines in
      Self.either(lines.map { Self.criterion(Array($0.words.dropFirst(2))) })
    }
  }

  func isKnown(_ name: String) -> Bool {
    if case .unknown? = named[name] { return false }
    return named[name] != nil
  }

  /// The terms behind `if` or `unless`; nil: it has alternatives, which nothing here has.
  func terms(_ words: ArraySlice<String>) -> [HAProxyTerm]? {
    guard let first = words.first else { return [] }
    guard first == "if" || first == "unless" else { return nil }
    var terms: [HAProxyTerm] = []
    var rest = words.dropFirst()
    while var word = rest.popFirst() {
      if ["or", "||"].contains(word.lowercased()) { return nil }
      var isNegated = false
      while word.hasPrefix("!") {
        isNegated.toggle()
        word.removeFirst()
        if word.isEmpty { word = rest.popFirst() ?? "" }
      }
      if word == "{" {
        let inner = rest.prefix { $0 != "}" }
        rest = rest[inner.endIndex...].dropFirst()
        terms.append(HAProxyTerm(isNegated: isNegated, criterion: Self.criterion(Array(inner))))
      } else {
        let predefined: HAProxyCriterion? = ["TRUE", "HTTP", "HTTP_1.1"].contains(word) ? .always : nil
        terms.append(HAProxyTerm(isNegated: isNegated, criterion: named[word] ?? predefined ?? .unknown(word)))
      }
    }
    guard !terms.isEmpty else { return nil }
    if first == "unless" {
      // The negation of several terms is an alternative.
      guard terms.count == 1 else { return nil }
      terms[0].isNegated.toggle()
    }
    return terms
  }

  /// One criterion that holds if any of these does.
  private static func either(_ all: [HAProxyCriterion]) -> HAProxyCriterion {
    guard let first = all.first, all.count > 1 else { return all.first ?? .unknown("") }
    let mixed = HAProxyCriterion.unknown("alternatives of several kinds")
    var values: [String] = []
    for other in all {
      switch (first, other) {
      case (.host, .host(let more)), (.pathPrefix, .pathPrefix(let more)), (.path, .path(let more)),
        (.source, .source(let more)), (.serverName, .serverName(let more)):
        values += more
      case (.subject(let key, _), .subject(key: let same, values: let more)) where key == same: values += more
      default: return mixed
      }
    }
    switch first {
    case .host: return .host(values)
    case .pathPrefix: return .pathPrefix(values)
    case .path: return .path(values)
    case .source: return .source(values)
    case .serverName: return .serverName(values)
    case .subject(let key, _): return .subject(key: key, values: values)
    case .certificate, .encrypted, .always, .unknown: return mixed
    }
  }

  private static func criterion(_ words: [String]) -> HAProxyCriterion {
    guard let name = words.first else { return .unknown("") }
    var values: [String] = []
    var method = ""
    var ignoresCase = false
    var rest = words.dropFirst()
    while let word = rest.popFirst() {
      switch word {
      case "-i" where values.isEmpty: ignoresCase = true
      case "-m" where values.isEmpty: method = rest.popFirst() ?? ""
      case "--" where values.isEmpty: break
      case _ where word.hasPrefix("-") && values.isEmpty: return .unknown(words.joined(separator: " "))
      default: values.append(word)
      }
    }
    let unknown = HAProxyCriterion.unknown(words.joined(separator: " "))
    switch name {
    case "ssl_c_used", "ssl_fc_has_crt": return values.isEmpty && method.isEmpty ? .certificate : unknown
    case "ssl_fc": return values.isEmpty && method.isEmpty ? .encrypted : unknown
    case "ssl_c_verify": return values == ["0"] ? .always : unknown
    case "req_ssl_hello_type", "req.ssl_hello_type": return values == ["1"] ? .always : unknown
    case "always_true": return .always
    default: break
    }
    guard !values.isEmpty else { return unknown }
    switch (name, method) {
    case ("hdr(host)", ""), ("hdr(host)", "str"), ("req.hdr(host)", ""), ("req.hdr(host)", "str"), ("hdr(Host)", ""),
      ("req.hdr(Host)", ""), ("hdr(Host)", "str"), ("hdr_dom(host)", "never"):
      return values.allSatisfy { Endpoint.isHost($0) && !$0.contains(":") }
        ? .host(values.map { $0.lowercased() }) : unknown
    case ("path_beg", ""), ("path", "beg"): return isPaths(values) && !ignoresCase ? .pathPrefix(values) : unknown
    case ("path", ""), ("path", "str"): return isPaths(values) && !ignoresCase ? .path(values) : unknown
    case ("src", ""), ("src", "ip"): return values.allSatisfy(isNetwork) ? .source(values) : unknown
    case ("ssl_c_s_dn(cn)", ""), ("ssl_c_s_dn(CN)", ""), ("ssl_c_s_dn(CN)", "str"), ("ssl_c_s_dn(cn)", "str"):
      return ignoresCase ? unknown : .subject(key: "cn", values: values)
    case ("ssl_c_s_dn(O)", ""), ("ssl_c_s_dn(O)", "str"), ("ssl_c_s_dn(o)", ""):
      return ignoresCase ? unknown : .subject(key: "o", values: values)
    case ("ssl_c_s_dn(OU)", ""), ("ssl_c_s_dn(OU)", "str"), ("ssl_c_s_dn(ou)", ""):
      return ignoresCase ? unknown : .subject(key: "ou", values: values)
    case ("req.ssl_sni", ""), ("req_ssl_sni", ""), ("req.ssl_sni", "str"), ("req_ssl_sni", "str"):
      return values.allSatisfy { Endpoint.isHost($0) && !$0.contains(":") }
        ? .serverName(values.map { $0.lowercased() }) : unknown
    default: return unknown
    }
  }

  private static func isPaths(_ values: [String]) -> Bool {
    // What a location writes otherwise than the request has it, such as `//` and `%`, is not compared.
    values.allSatisfy {
      $0.hasPrefix("/") && !$0.contains("//") && !$0.contains("%") && !$0.contains("/.") && ConvertedWord.isConstant($0)
        && !$0.contains("?") && !$0.contains("#") && $0.utf8.allSatisfy { $0 < 0x7F }
    }
  }

  private static func isNetwork(_ text: String) -> Bool {
    let parts = text.split(separator: "/", omittingEmptySubsequences: false)
    guard let address = parts.first, Endpoint.isAddress(String(address)), parts.count <= 2 else { return false }
    guard parts.count == 2 else { return true }
    return Int(parts[1]).map { (0...(address.contains(":") ? 128 : 32)).contains($0) } ?? false
  }
}

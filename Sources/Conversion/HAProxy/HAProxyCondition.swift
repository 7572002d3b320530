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
  /// The connection begins with a ClientHello.
  case clientHello
  /// Always so where a connection gets as far as a rule.
  case always
  case unknown(String)

  /// One criterion that holds if either does; nil: they are of different kinds.
  func merged(with other: Self) -> Self? {
    switch (self, other) {
    case (.host(let values), .host(let more)): .host(values + more)
    case (.pathPrefix(let values), .pathPrefix(let more)): .pathPrefix(values + more)
    case (.path(let values), .path(let more)): .path(values + more)
    case (.source(let values), .source(let more)): .source(values + more)
    case (.serverName(let values), .serverName(let more)): .serverName(values + more)
    case (.subject(let key, let values), .subject(key: let same, values: let more)) where key == same:
      .subject(key: key, values: values + more)
    default: nil
    }
  }
}

/// One part of a condition; all parts must hold.
struct HAProxyTerm: Hashable {
  var isNegated: Bool
  let criterion: HAProxyCriterion
}

/// Conditions as alternatives, of which one must hold with all of its terms.
struct HAProxyAlternatives: Hashable {
  private(set) var all: [[HAProxyTerm]]

  static let always = HAProxyAlternatives(all: [[]])
  static let never = HAProxyAlternatives(all: [])

  /// More of them than this are no rule that somebody wrote by hand.
  static let maximum = 32

  var isTooLong: Bool { all.count > Self.maximum }

  init(all: [[HAProxyTerm]]) { self.all = all }

  init(either criteria: [HAProxyCriterion]) {
    all = criteria.map { [HAProxyTerm(isNegated: false, criterion: $0)] }
  }

  func or(_ other: Self) -> Self { Self(all: all + other.all) }

  func and(_ other: Self) -> Self {
    guard !isTooLong, !other.isTooLong else { return isTooLong ? self : other }
    return Self(all: all.flatMap { terms in other.all.map { terms + $0 } })
  }

  var negated: Self {
    all.reduce(.always) { whole, terms in
      whole.and(Self(all: terms.map { [HAProxyTerm(isNegated: !$0.isNegated, criterion: $0.criterion)] }))
    }
  }
}

/// The named conditions of a proxy.
struct HAProxyConditions {
  private let named: [String: [HAProxyCriterion]]

  /// `lines`: those of a proxy. Lines `acl` of one name are alternatives.
  init(_ lines: [HAProxyLine]) {
    let defined = lines.filter { $0.name == "acl" }
    named = Dictionary(grouping: defined) { $0.word(1) }.mapValues { lines in
      lines.reduce(into: []) { all, line in
        let next = Self.criterion(Array(line.words.dropFirst(2)))
        if let last = all.last, let both = last.merged(with: next) {
          all[all.count - 1] = both
        } else {
          all.append(next)
        }
      }
    }
  }

  func isKnown(_ name: String) -> Bool {
    guard let criteria = named[name] else { return false }
    return !criteria.contains { if case .unknown = $0 { true } else { false } }
  }

  /// What stands behind `if` or `unless`; nil: it isn't a condition, or has too many alternatives.
  func terms(_ words: ArraySlice<String>) -> [[HAProxyTerm]]? {
    guard let first = words.first else { return [[]] }
    guard first == "if" || first == "unless" else { return nil }
    var whole = HAProxyAlternatives.never
    var clause = HAProxyAlternatives.always
    var isEmpty = true
    var rest = words.dropFirst()
    while var word = rest.popFirst() {
      if ["or", "||"].contains(word.lowercased()) {
        guard !isEmpty else { return nil }
        (whole, clause, isEmpty) = (whole.or(clause), .always, true)
        continue
      }
      var isNegated = false
      while word.hasPrefix("!") {
        isNegated.toggle()
        word.removeFirst()
        if word.isEmpty { word = rest.popFirst() ?? "" }
      }
      var criteria: [HAProxyCriterion]
      if word == "{" {
        let inner = rest.prefix { $0 != "}" }
        rest = rest[inner.endIndex...].dropFirst()
        criteria = [Self.criterion(Array(inner))]
      } else {
        let isPredefined = ["TRUE", "HTTP", "HTTP_1.1"].contains(word)
        criteria = named[word] ?? [isPredefined ? .always : .unknown(word)]
      }
      let part = HAProxyAlternatives(either: criteria)
      clause = clause.and(isNegated ? part.negated : part)
      isEmpty = false
    }
    guard !isEmpty else { return nil }
    whole = whole.or(clause)
    if first == "unless" { whole = whole.negated }
    return whole.isTooLong ? nil : whole.all
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
    case "req_ssl_hello_type", "req.ssl_hello_type": return values == ["1"] ? .clientHello : unknown
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

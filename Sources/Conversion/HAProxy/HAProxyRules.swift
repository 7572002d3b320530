/// `http-request` and `http-response` of a proxy: fields, and who is refused.
struct HAProxyRules {
  /// Who is refused, and for which hosts and paths.
  struct Refusal {
    var hosts: HAProxyHosts?
    var places: [HAProxyPlace]?
    /// Lines that say so; empty: everybody is refused there.
    var statements: [(String, [String])]
    let line: OldLine
  }

  private(set) var refusals: [Refusal] = []
  /// Fields of requests; a value nil: the field is removed.
  private(set) var fields: [(String, String)] = []
  /// Lines about fields of responses.
  private(set) var responses: [(String, [String])] = []
  /// Where a request without TLS is sent to TLS: the status.
  private(set) var redirects: (status: String, line: OldLine, isForAll: Bool)?
  private(set) var usesSource = false
  static let tooLong = "the condition has more than \(HAProxyAlternatives.maximum) alternatives: write several rules"

  mutating func read(_ line: HAProxyLine, _ conditions: HAProxyConditions, _ block: inout ConvertedBlock) {
    if line.name == "http-response" { return response(line, &block) }
    let action = String(line.word(1).prefix { $0 != "(" })
    let end = line.words.firstIndex { $0 == "if" || $0 == "unless" } ?? line.words.endIndex
    switch action {
    case "set-header", "add-header", "del-header", "replace-header":
      field(line, action, isConditional: end != line.words.endIndex, &block)
    case "deny", "reject", "silent-drop", "tarpit":
      refuse(line, conditions.terms(line.words[end...]), &block)
    case "redirect": redirect(line, conditions.terms(line.words[end...]), from: 2, &block)
    case "set-log-level", "set-nice", "set-tos", "set-mark", "capture", "set-priority-class", "set-var", "unset-var":
      block.take(line.line, because: "without effect here")
    default: block.refuse(line.line, "this rule isn't known here, and it may be a check")
    }
  }

  /// `redirect scheme https [code N] [if !{ ssl_fc }]`, of a request without TLS.
  mutating func redirect(
    _ line: HAProxyLine, _ alternatives: [[HAProxyTerm]]?, from start: Int, _ block: inout ConvertedBlock
  ) {
    let end = line.words.firstIndex { $0 == "if" || $0 == "unless" } ?? line.words.endIndex
    let words = start < end ? Array(line.words[start..<end]) : []
    var status = "302"
    if words.count == 4, words[2] == "code", ["301", "302", "303", "307", "308"].contains(words[3]) {
      status = words[3]
    }
    let isForAll = alternatives == [[]]
    let isPlain = isForAll || alternatives == [[HAProxyTerm(isNegated: true, criterion: .encrypted)]]
    guard words.count == 2 || words.count == 4, words.first == "scheme", words[1] == "https", isPlain else {
      return block.refuse(
        line.line, "only `redirect scheme https if !{ ssl_fc }` is taken: return and rewrite have others")
    }
    redirects = (status, line.line, isForAll)
    block.take(line.line)
  }

  // MARK: Who is refused

  private mutating func refuse(_ line: HAProxyLine, _ alternatives: [[HAProxyTerm]]?, _ block: inout ConvertedBlock) {
    guard let alternatives else { return block.refuse(line.line, Self.tooLong) }
    var found: [Refusal] = []
    for terms in alternatives {
      do throws(Unknown) {
        if let refusal = try refusal(line, terms) { found.append(refusal) }
      } catch {
        return block.refuse(line.line, error.reason)
      }
    }
    refusals += found
    if found.isEmpty {
      block.change(line.line, Self.unverified)
    } else {
      block.take(line.line)
    }
  }

  private struct Unknown: Error { let reason: String }
  private static let unverified =
    "a certificate that doesn't verify is refused in any case; as in HAProxy, a client without one passes"

  /// Whom these terms refuse; nil: nobody, because what they ask is so for everybody who gets as far.
  private mutating func refusal(_ line: HAProxyLine, _ terms: [HAProxyTerm]) throws(Unknown) -> Refusal? {
    var refusal = Refusal(hosts: nil, places: nil, statements: [], line: line.line)
    for term in terms {
      switch (term.criterion, term.isNegated) {
      case (.host(let hosts), let isNegated) where refusal.hosts == nil:
        refusal.hosts = HAProxyHosts(names: hosts, isNegated: isNegated)
      // Hosts that are none of these, and none of those.
      case (.host(let hosts), true) where refusal.hosts?.isNegated == true: refusal.hosts?.names += hosts
      case (.pathPrefix(let paths), false) where refusal.places == nil:
        refusal.places = paths.map { HAProxyPlace(path: $0, isExact: false) }
      case (.path(let paths), false) where refusal.places == nil:
        refusal.places = paths.map { HAProxyPlace(path: $0, isExact: true) }
      case (.always, false): break
      case (.always, true): return nil
      case (.certificate, true) where refusal.statements.isEmpty:
        refusal.statements = [("ssl_client_allow", ["serial=*"])]
      // Who is none of these, and none of those.
      case (.subject(let key, let values), true)
      where refusal.statements.allSatisfy { $0.0 == "ssl_client_allow" && $0.1 != ["serial=*"] }:
        let count = refusal.statements.count + values.count
        refusal.statements += values.compactMap { ConvertedWord.condition(key, $0) }.map { ("ssl_client_allow", [$0]) }
        if refusal.statements.count != count { throw Unknown(reason: "only plain values are taken") }
      case (.subject(let key, let values), false) where refusal.statements.isEmpty:
        refusal.statements = values.compactMap { ConvertedWord.condition(key, $0) }.map { ("ssl_client_deny", [$0]) }
        if refusal.statements.count != values.count { throw Unknown(reason: "only plain values are taken") }
      case (.source(let networks), true) where refusal.statements.isEmpty:
        refusal.statements = networks.map { ("allow", [$0]) } + [("deny", ["all"])]
        usesSource = true
      case (.source(let networks), false) where refusal.statements.isEmpty:
        refusal.statements = networks.map { ("deny", [$0]) }
        usesSource = true
      default:
        throw Unknown(
          reason: "this condition can't be had in a rule: hosts, paths, addresses and the certificate's subject can")
      }
    }
    return refusal
  }

  // MARK: Fields

  private mutating func field(_ line: HAProxyLine, _ action: String, isConditional: Bool, _ block: inout ConvertedBlock)
  {
    let name = line.word(2)
    guard Self.isField(name) else {
      return block.refuse(line.line, "no field has this name: letters, digits, - and _", closing: false)
    }
    if action == "del-header", !isConditional, line.words.count == 3 {
      fields.append((name, ""))
      return block.take(line.line)
    }
    let value = line.words.count == 4 ? HAProxyFormat.value(line.word(3)) : nil
    if action == "set-header", !isConditional, let value {
      fields.append((name, value.text))
      if let change = value.change { block.change(line.line, change) } else { block.take(line.line) }
      return
    }
    // Without the rule, the client could send the field itself.
    fields.append((name, ""))
    block.refuse(
      line.line, "this value can't be had: the field is removed, so that no client can send it", closing: false)
  }

  private static func isField(_ name: String) -> Bool {
    !name.isEmpty && name.utf8.allSatisfy { $0 &- 48 < 10 || ($0 | 0x20) &- 97 < 26 || $0 == 0x2D || $0 == 0x5F }
  }

  private mutating func response(_ line: HAProxyLine, _ block: inout ConvertedBlock) {
    let name = line.word(2)
    let isPlain = Self.isField(name)
    switch line.word(1) {
    case "set-header" where isPlain && line.words.count == 4:
      guard let value = HAProxyFormat.value(line.word(3)) else { fallthrough }
      responses.append(("proxy_hide_header", [name]))
      responses.append(("add_header", [name, value.text, "always"]))
      block.take(line.line)
    case "add-header" where isPlain && line.words.count == 4 && HAProxyFormat.value(line.word(3)) != nil:
      responses.append(("add_header", [name, HAProxyFormat.value(line.word(3))?.text ?? "", "always"]))
      block.take(line.line)
    case "del-header" where isPlain && line.words.count == 3:
      responses.append(("proxy_hide_header", [name]))
      block.take(line.line)
    default:
      block.refuse(
        line.line, "this rule about responses isn't carried over: add_header and proxy_hide_header are there",
        closing: false)
    }
  }
}

/// Hosts that a rule names, or all others.
struct HAProxyHosts: Hashable {
  var names: [String]
  var isNegated: Bool

  /// `host`: nil for the server of hosts that no rule names.
  func hold(for host: String?) -> Bool { (host.map { names.contains($0) } ?? false) != isNegated }
}

/// A path, or the begin of one.
struct HAProxyPlace: Hashable {
  let path: String
  let isExact: Bool

  /// Whether all requests for the other place are for this one.
  func covers(_ other: HAProxyPlace) -> Bool {
    isExact ? other.isExact && other.path == path : other.path.hasPrefix(path)
  }

  var location: String {
    "location \(isExact ? "=" : "^~") \(ConvertedWord.statement("", [path]).dropFirst().dropLast())"
  }
}

/// Values of fields as HAProxy writes them.
enum HAProxyFormat {
  /// nil: it can't be had. The text may have variables of ours.
  static func value(_ text: String) -> (text: String, change: String?)? {
    guard text.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7F }) else { return nil }
    if !text.contains("%") { return text.contains("$") ? nil : (text, nil) }
    if text == "%ci" { return ("$remote_addr", nil) }
    guard text.hasPrefix("%["), text.hasSuffix("]"), text.filter({ $0 == "%" }).count == 1 else { return nil }
    switch text.dropFirst(2).dropLast() {
    case "src": return ("$remote_addr", nil)
    case "ssl_c_s_dn(cn)", "ssl_c_s_dn(CN)", "{+Q}ssl_c_s_dn(cn)": return ("$ssl_client_s_dn_cn", nil)
    case "ssl_c_s_dn": return ("$ssl_client_s_dn", "the name is written as RFC 2253 has it: CN=…,O=…")
    case "ssl_c_i_dn": return ("$ssl_client_i_dn", "the name is written as RFC 2253 has it: CN=…,O=…")
    case "ssl_c_serial,hex": return ("$ssl_client_serial", nil)
    case "ssl_fc_sni": return ("$ssl_server_name", nil)
    case "ssl_fc_protocol": return ("$ssl_protocol", nil)
    case "ssl_fc_cipher": return ("$ssl_cipher", nil)
    case "ssl_c_verify":
      return ("$ssl_client_verify", "SUCCESS, NONE or FAILED:… in place of OpenSSL's number")
    case "req.hdr(Host)", "hdr(host)", "req.hdr(host)", "hdr(Host)": return ("$http_host", nil)
    case "ssl_c_sha1,hex", "ssl_c_der,base64": return nil
    case "dst_port": return ("$server_port", nil)
    case "method": return ("$request_method", nil)
    default: return nil
    }
  }
}

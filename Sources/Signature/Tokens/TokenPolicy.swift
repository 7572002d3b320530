import Bytes
import Crypto
package import JSON

/// What a location asks of tokens.
package struct TokenPolicy: Sendable, Hashable {
  /// Who may have issued it; empty: whoever has a key of the set.
  package var issuers: [String] = []
  /// Whom it may be for. Empty: a token that names somebody is refused (RFC 7519 §4.1.3).
  package var audiences: [String] = []
  /// Seconds that clocks may differ by.
  package var leeway: Int64 = 30
  /// A token that is bound to no certificate is accepted.
  package var allowsUnbound = false

  package init() {}

  /// Verifies what never changes about a token: its signature, its issuer and its audience.
  package func verify(_ token: WebToken, by keys: WebKeySet) throws(TokenFault) -> VerifiedToken {
    guard try keys.key(of: token).verify(token.signature, token.signed, by: token.algorithm) else { throw .forged }
    let claims = token.claims
    if !issuers.isEmpty {
      guard case .string(let issuer)? = claims["iss"] else { throw .member("iss", expected: "a text") }
      guard issuers.contains(issuer) else { throw .issuer(issuer) }
    }
    if claims["aud"] != nil || !audiences.isEmpty {
      let named: [JSONValue] = claims["aud"].map { $0.list ?? [$0] } ?? []
      guard named.contains(where: { $0.text.map(audiences.contains) ?? false }) else { throw .audience }
    }
    guard let end = try Self.date("exp", claims) else { throw .noEnd }
    return VerifiedToken(
      claims: claims, end: end, begin: try Self.date("nbf", claims), issued: try Self.date("iat", claims),
      certificate: try certificate(claims["cnf"]))
  }

  private static func date(_ name: String, _ claims: [String: JSONValue]) throws(TokenFault) -> Int64? {
    guard let value = claims[name] else { return nil }
    guard let date = value.date else { throw .member(name, expected: "a time in seconds") }
    return date
  }

  /// The SHA-256 of the certificate that the token is bound to (RFC 8705 §3.1). A token that is bound by something else, such
  /// as a key of DPoP, isn't accepted in any case: whoever issued it did not mean it for everybody who has it.
  private func certificate(_ confirmation: JSONValue?) throws(TokenFault) -> [UInt8]? {
    guard let confirmation else {
      if allowsUnbound { return nil }
      throw .unbound
    }
    guard let members = confirmation.members, members.count == 1, case .string(let text)? = members["x5t#S256"] else {
      throw .boundOtherwise
    }
    guard let hash = try? Base64.decodeURL(text), hash.count == 32 else {
      throw .member("x5t#S256", expected: "the 32 octets of a SHA-256")
    }
    return hash
  }
}

/// A token whose signature is authentic. Whether it counts for a request depends on the time and on the client.
package struct VerifiedToken: Sendable {
  package let claims: [String: JSONValue]
  /// In seconds since 1970.
  package let end: Int64
  let begin: Int64?
  let issued: Int64?
  /// The SHA-256 of the client's certificate; nil: the token counts for whoever has it.
  let certificate: [UInt8]?

  /// `client`: the SHA-256 of the certificate whose key the client has; nil: it has shown none. `now`: seconds since 1970.
  package func check(by policy: TokenPolicy, of client: [UInt8]?, now: Int64) throws(TokenFault) {
    let now = Time.clamped(now)
    if now - end >= policy.leeway { throw .expired(seconds: now - end) }
    for begin in [begin, issued] {
      if let begin, begin - now > policy.leeway { throw .future(seconds: begin - now) }
    }
    guard let certificate else { return }
    guard let client else { throw .noCertificate }
    guard ConstantTime.equal(certificate, client) else { throw .anotherCertificate }
  }

  /// The value of a claim as text, by its name and the members inside; nil: it is no single value. Elements of a list are
  /// joined by commas. A text with a control character has no value, since it could end a field.
  package func text(_ path: [String]) -> String? {
    guard let name = path.first else { return nil }
    var value = claims[name]
    for member in path.dropFirst() { value = value?[member] }
    return value.flatMap(Self.text)
  }

  private static func text(_ value: JSONValue) -> String? {
    switch value {
    case .string(let text): return text.utf8.contains { $0 < 0x20 || $0 == 0x7F } ? nil : text
    case .number(let number): return number
    case .bool(let flag): return flag ? "true" : "false"
    case .null, .object: return nil
    case .array(let elements):
      var texts: [String] = []
      for element in elements {
        if case .array = element { return nil }
        // Who reads the list must not take one element for two.
        guard let text = text(element), !text.utf8.contains(0x2C) else { return nil }
        texts.append(text)
      }
      return texts.joined(separator: ",")
    }
  }

  /// Whether a claim is one of these texts, or a list that has one. `scope` is a list with blanks (RFC 8693 §4.2).
  package func has(_ claim: String, among texts: Set<String>) -> Bool {
    switch claims[claim] {
    case .string(let text)?:
      texts.contains(text) || claim == "scope" && text.split(separator: " ").contains { texts.contains(String($0)) }
    case .array(let elements)?: elements.contains { $0.text.map(texts.contains) ?? false }
    case .number(let number)?: texts.contains(number)
    case .bool(let flag)?: texts.contains(flag ? "true" : "false")
    case .null?, .object?, nil: false
    }
  }
}

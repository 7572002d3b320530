import Bytes
package import Crypto

/// Who issues tokens in a test: a key that signs, and the set that has its public half.
package struct TokenIssuer {
  package let key: JSONWebKey
  package let id: String

  package init(_ kind: PrivateKey.Kind = .ed25519, id: String = "k1") throws {
    key = try JSONWebKey(PrivateKey.generate(kind))
    self.id = id
  }

  /// `members`: replaces those of the same name; a value of "" leaves the member out.
  package func published(_ members: [String: String] = [:]) -> String {
    let extra = members.filter { !$0.value.isEmpty }.map { ",\"\($0.key)\":\($0.value)" }.sorted().joined()
    return key.publicText.dropLast() + (members["kid"] == nil ? ",\"kid\":\"\(id)\"" : "") + extra + "}"
  }

  package var set: String { "{\"keys\":[\(published())]}" }

  package func token(_ claims: String, header: String? = nil) -> String {
    let header = header ?? "{\"alg\":\"\(key.algorithm.rawValue)\",\"kid\":\"\(id)\",\"typ\":\"at+jwt\"}"
    let text = Self.encode(header) + "." + Self.encode(claims)
    return text + "." + Base64.encodeURL(key.sign(Array(text.utf8)) ?? [])
  }

  package static func encode(_ text: String) -> String { Base64.encodeURL(Array(text.utf8)) }
}

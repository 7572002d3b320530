import Bytes
import Crypto
import JSON

/// The public keys of who issues tokens (RFC 7517), as a file or a server has them.
package struct WebKeySet: Sendable {
  struct Key: Sendable {
    /// nil: the set gives it none.
    let id: String?
    /// By which it verifies: those of its kind, or the one that the set names.
    let algorithms: Set<WebVerifier.Algorithm>
    let verifier: WebVerifier
  }

  package static let mostKeys = 100
  package static let mostBytes = 256 * 1024
  let keys: [Key]

  /// Parses a set. Keys of other kinds and uses are left out, as RFC 7517 §5 says; a key that is damaged, private or
  /// symmetric is a fault of the whole set, since its owner has put into it what doesn't belong there.
  package init(_ text: [UInt8]) throws(WebKeyFault) {
    var limits = JSONLimits()
    (limits.bytes, limits.depth, limits.values) = (Self.mostBytes, 8, 4000)
    let value: JSONValue
    do throws(JSONFault) { value = try JSONValue(text, limits: limits) } catch { throw .json(error.description) }
    guard let list = value["keys"]?.list else { throw .noList }
    guard list.count <= Self.mostKeys else { throw .tooMany(list.count) }
    var keys: [Key] = []
    for (index, entry) in list.enumerated() {
      guard let key = try Self.key(entry, index) else { continue }
      if let id = key.id, keys.contains(where: { $0.id == id && !$0.algorithms.isDisjoint(with: key.algorithms) }) {
        throw .doubled(id)
      }
      keys.append(key)
    }
    guard !keys.isEmpty else { throw .noKey(of: list.count) }
    self.keys = keys
  }

  /// The key that a token names. One that names none means the only key of its algorithm.
  func key(of token: WebToken) throws(TokenFault) -> WebVerifier {
    if let id = token.keyID {
      let named = keys.filter { $0.id == id }
      guard !named.isEmpty else { throw .unknownKey(id) }
      guard let key = named.first(where: { $0.algorithms.contains(token.algorithm) }) else {
        throw .keyOfAnotherAlgorithm(token.algorithm.rawValue)
      }
      return key.verifier
    }
    let fitting = keys.filter { $0.algorithms.contains(token.algorithm) }
    guard let only = fitting.first else { throw .keyOfAnotherAlgorithm(token.algorithm.rawValue) }
    guard fitting.count == 1 else { throw .severalKeys(fitting.count) }
    return only.verifier
  }

  /// nil: a key that verifies no token here.
  private static func key(_ entry: JSONValue, _ index: Int) throws(WebKeyFault) -> Key? {
    guard let members = entry.members, case .string(let kind)? = members["kty"] else {
      throw .key(index, "no object with a kty")
    }
    // Whoever can read the file could sign as the issuer.
    if kind == "oct" || members["d"] != nil || members["k"] != nil { throw .key(index, "a secret or private key") }
    if let use = members["use"], use != .string("sig") { return nil }
    if let operations = members["key_ops"]?.list, !operations.contains(.string("verify")) { return nil }
    func number(_ name: String) throws(WebKeyFault) -> [UInt8] {
      guard let text = entry[name]?.text else { throw .key(index, "no \(name)") }
      do { return try Base64.decodeURL(text) } catch { throw .key(index, "\(name) is not base64url without padding") }
    }
    let numbers: WebVerifier.Numbers
    switch (kind, entry["crv"]?.text) {
    case ("OKP", "Ed25519"): numbers = .ed25519(try number("x"))
    case ("EC", "P-256"): numbers = .p256(x: try number("x"), y: try number("y"))
    case ("RSA", _): numbers = .rsa(modulus: try number("n"), exponent: try number("e"))
    default: return nil
    }
    let verifier: WebVerifier
    do throws(CryptoError) { verifier = try WebVerifier(numbers) } catch { throw .key(index, "\(error)") }
    var algorithms = verifier.algorithms
    if let named = entry["alg"]?.text {
      algorithms = algorithms.filter { $0.rawValue == named }
      if algorithms.isEmpty { return nil }
    }
    return Key(id: entry["kid"]?.text, algorithms: algorithms, verifier: verifier)
  }
}

/// Why a text is no key set.
package enum WebKeyFault: Error, Sendable, Hashable, CustomStringConvertible {
  case json(String)
  case noList
  case tooMany(Int)
  /// The index from 0.
  case key(Int, String)
  case doubled(String)
  case noKey(of: Int)

  package var description: String {
    switch self {
    case .json(let fault): "no JSON: \(fault)"
    case .noList: "it has no list \"keys\""
    case .tooMany(let count): "it has \(count) keys, and \(WebKeySet.mostKeys) are the most"
    case .key(let index, let fault): "key \(index + 1) of it: \(fault)"
    case .doubled(let id): "it has two keys with the kid \"\(id)\""
    case .noKey(let count):
      "none of its \(count) keys verifies tokens: Ed25519, ECDSA P-256 and RSA of 2048 bits or more do"
    }
  }
}

import Bytes
package import Crypto
package import JSON

/// A signed JSON Web Token in its compact form (RFC 7515, 7519), parsed but not verified.
///
/// What a header says of keys (`jwk`, `jku`, `x5u`, `x5c`) is never used: a key comes from the configuration's set. A header
/// that demands what sallyport doesn't do is refused (`crit`, `b64`, `zip`, a token inside the token).
package struct WebToken: Sendable {
  package static let mostBytes = 16 * 1024
  private static let mostKeyIDBytes = 256
  private static let limits = {
    var limits = JSONLimits()
    (limits.bytes, limits.depth, limits.values) = (mostBytes, 8, 512)
    return limits
  }()
  /// What tokens of clients say they are (RFC 9068 §2.1, RFC 7519 §5.1). Others, such as `logout+jwt`, are for somebody else.
  private static let types: Set = ["jwt", "at+jwt", "application/jwt", "application/at+jwt"]
  /// They change what is signed, or how it is read.
  private static let refusedHeaders = ["crit", "b64", "zip", "enc", "cty"]

  package let algorithm: WebVerifier.Algorithm
  /// nil: the token names no key. It is only compared with those of a key set.
  package let keyID: String?
  package let claims: [String: JSONValue]
  /// The bytes that are signed.
  let signed: [UInt8]
  let signature: [UInt8]

  package init(_ text: [UInt8]) throws(TokenFault) {
    guard text.count <= Self.mostBytes else { throw .tooLong(text.count) }
    let parts = text.split(separator: 0x2E, omittingEmptySubsequences: false)
    guard parts.count == 3 else { throw .parts(parts.count) }
    let header = try Self.object(parts[0], "header")
    claims = try Self.object(parts[1], "payload")
    signature = try Self.bytes(parts[2], "signature")
    signed = Array(text[..<parts[1].endIndex])
    for name in Self.refusedHeaders where header[name] != nil { throw .unsupported(name) }
    guard case .string(let name)? = header["alg"] else { throw .member("alg", expected: "a text") }
    guard let algorithm = WebVerifier.Algorithm(rawValue: name) else { throw .algorithm(name) }
    self.algorithm = algorithm
    switch header["typ"] {
    case nil: break
    case .string(let type)? where Self.types.contains(type.lowercased()): break
    case .some: throw .unsupported("typ")
    }
    switch header["kid"] {
    case nil: keyID = nil
    case .string(let id)? where id.utf8.count <= Self.mostKeyIDBytes: keyID = id
    case .some: throw .member("kid", expected: "a text of at most \(Self.mostKeyIDBytes) bytes")
    }
  }

  private static func bytes(_ part: ArraySlice<UInt8>, _ name: String) throws(TokenFault) -> [UInt8] {
    do { return try Base64.decodeURL(String(decoding: part, as: UTF8.self)) } catch { throw .encoding(part: name) }
  }

  private static func object(_ part: ArraySlice<UInt8>, _ name: String) throws(TokenFault) -> [String: JSONValue] {
    let text = try bytes(part, name)
    let value: JSONValue
    do throws(JSONFault) { value = try JSONValue(text, limits: limits) } catch {
      throw .json(part: name, error.description)
    }
    guard let members = value.members else { throw .json(part: name, "it is another value") }
    return members
  }
}

extension JSONValue {
  /// A NumericDate (RFC 7519 §2) in whole seconds; nil for another value.
  var date: Int64? {
    guard case .number(let text) = self else { return nil }
    if let whole = Int64(text) { return (0...99_999_999_999).contains(whole) ? whole : nil }
    guard let number = Double(text), number >= 0, number < 1e11 else { return nil }
    return Int64(number)
  }
}

package import Bytes
package import Crypto

/// The request that a Digest answer authenticates (RFC 7616 §3.4).
package struct AuthorizedRequest {
  package var method: [UInt8]
  /// Exactly as in the request line.
  package var target: [UInt8]
  /// Returns the body's hash; nil when the body is not available.
  package var bodyHash: (AuthenticationDigest) -> [UInt8]?

  package init(method: [UInt8], target: [UInt8], bodyHash: @escaping (AuthenticationDigest) -> [UInt8]?) {
    self.method = method
    self.target = target
    self.bodyHash = bodyHash
  }
}

/// An answer to a Digest challenge: the challenge and this request's count.
package struct DigestAnswer: Sendable, Equatable {
  package var challenge: DigestChallenge
  /// From 1; never the same twice for a nonce.
  package var count: UInt32
  package var clientNonce: [UInt8]
  /// For the -sess algorithms: the nonce that the session began with.
  package var sessionNonce: [UInt8]

  /// Appends the value of Authorization. Returns false, and appends nothing, when the hash function is missing, or when
  /// the challenge demands the hash of a body that is not available.
  package func append(_ user: UpstreamUser, _ request: AuthorizedRequest, to output: inout ByteBuffer) -> Bool {
    let hash = challenge.algorithm.hash
    guard let response = response(user, request), let name = userName(user, hash) else { return false }
    output.append("Digest \(name), ".utf8Bytes)
    appendQuoted("realm", challenge.realm, to: &output)
    appendQuoted("nonce", challenge.nonce, to: &output)
    appendQuoted("uri", request.target, to: &output)
    if challenge.saysAlgorithm { output.append("algorithm=\(challenge.algorithm.rawValue), ".utf8Bytes) }
    if let protection {
      output.append("qop=\(protection.rawValue), nc=\(countText), ".utf8Bytes)
      appendQuoted("cnonce", clientNonce, to: &output)
    } else if challenge.algorithm.isSession {
      appendQuoted("cnonce", clientNonce, to: &output)
    }
    if let opaque = challenge.opaque { appendQuoted("opaque", opaque, to: &output) }
    if challenge.hashesUser { output.append("userhash=true, ".utf8Bytes) }
    output.append("response=\"\(response)\"".utf8Bytes)
    return true
  }

  /// Prefers `auth`, so that the body need not be hashed.
  private var protection: DigestChallenge.Protection? {
    challenge.protections.contains(.request) ? .request : challenge.protections.first
  }

  private var countText: String {
    let digits = String(count, radix: 16)
    return String(repeating: "0", count: 8 - digits.count) + digits
  }

  /// §3.4.1 to §3.4.3.
  func response(_ user: UpstreamUser, _ request: AuthorizedRequest) -> String? {
    let hash = challenge.algorithm.hash
    var second = request.method + colon + request.target
    if protection == .body {
      guard let body = request.bodyHash(hash) else { return nil }
      second += colon + hex(body)
    }
    guard let secret = secret(user, hash), let tail = hash.of(second) else { return nil }
    var middle = challenge.nonce + colon
    if let protection {
      middle += countText.utf8Bytes + colon + clientNonce + colon + protection.rawValue.utf8Bytes + colon
    }
    return hash.of(hex(secret) + colon + middle + hex(tail)).map { Hex.encode($0) }
  }

  /// H(A1).
  private func secret(_ user: UpstreamUser, _ hash: AuthenticationDigest) -> [UInt8]? {
    var first = user.name + colon + challenge.realm + colon
    first.reserveCapacity(first.count + user.password.count)
    user.password.withUnsafeBytes { first += $0 }
    defer { first.wipe() }
    guard let plain = hash.of(first) else { return nil }
    guard challenge.algorithm.isSession else { return plain }
    return hash.of(hex(plain) + colon + sessionNonce + colon + clientNonce)
  }

  /// Returns `username`. If the name is not ASCII and the server reads UTF-8, `username*` (RFC 8187). If the challenge
  /// asks for it, the name's hash (§3.4.4).
  private func userName(_ user: UpstreamUser, _ hash: AuthenticationDigest) -> String? {
    if challenge.hashesUser {
      return hash.of(user.name + colon + challenge.realm).map { "username=\"\(Hex.encode($0))\"" }
    }
    guard challenge.isUTF8, user.name.contains(where: { $0 > 0x7F }) else {
      return "username=\"" + String(decoding: escaped(user.name), as: UTF8.self) + "\""
    }
    let text = user.name.map { byte -> String in
      ASCII.isLetterOrDigit(byte) || "!#$&+-.^_`|~".utf8.contains(byte)
        ? String(UnicodeScalar(byte)) : "%" + Hex.encode([byte], .upper)
    }
    return "username*=UTF-8''" + text.joined()
  }

  private func appendQuoted(_ name: String, _ value: [UInt8], to output: inout ByteBuffer) {
    output.append("\(name)=\"".utf8Bytes + escaped(value) + "\", ".utf8Bytes)
  }

  private func escaped(_ value: [UInt8]) -> [UInt8] {
    value.flatMap { $0 == 0x22 || $0 == 0x5C ? [0x5C, $0] : [$0] }
  }

  private var colon: [UInt8] { [0x3A] }
  private func hex(_ bytes: [UInt8]) -> [UInt8] { Hex.encode(bytes).utf8Bytes }
}

extension String {
  var utf8Bytes: [UInt8] { Array(utf8) }
}

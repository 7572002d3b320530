import Bytes
import Crypto
import FuzzSupport
import JSON
import Signature

/// The first byte chooses what the rest is: a key set, a token, or the header and the payload of a token, one below the
/// other, which is then signed.
///
/// Holds: nothing crashes; no input is a valid token by itself, because nobody has the key; one that is signed counts only if
/// its header names the key's algorithm and its payload has an end, and never with another signature.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
  guard count > 0, let key, let keys else { return 0 }
  let rest = [UInt8](UnsafeBufferPointer(start: start + 1, count: count - 1))
  switch start[0] % 3 {
  case 0: _ = try? WebKeySet(rest)
  case 1: require(verified(rest, keys) == nil)
  default:
    let lines = rest.split(separator: 0x0A, maxSplits: 1, omittingEmptySubsequences: false).map { Array($0) }
    guard lines.count == 2 else { return 0 }
    let text = Base64.encodeURL(lines[0]) + "." + Base64.encodeURL(lines[1])
    guard let signature = key.sign(Array(text.utf8)) else { return 0 }
    let token = Array("\(text).\(Base64.encodeURL(signature))".utf8)
    guard let claims = verified(token, keys) else { return 0 }
    let header = try? JSONValue(lines[0])
    require(header?["alg"]?.text == "EdDSA" && header?["crit"] == nil && header?["b64"] == nil)
    require(claims.claims["exp"] != nil)
    var other = signature
    other[0] ^= 1
    require(verified(Array("\(text).\(Base64.encodeURL(other))".utf8), keys) == nil)
  }
  return 0
}

private let key: JSONWebKey? = (try? PrivateKey.generate(.ed25519)).flatMap { try? JSONWebKey($0) }
private let keys: WebKeySet? = key.flatMap { key in
  try? WebKeySet(Array("{\"keys\":[\(key.publicText.dropLast()),\"kid\":\"k1\"}]}".utf8))
}

private func verified(_ token: [UInt8], _ keys: WebKeySet) -> VerifiedToken? {
  var policy = TokenPolicy()
  policy.allowsUnbound = true
  guard let token = try? WebToken(token), let verified = try? policy.verify(token, by: keys) else { return nil }
  try? verified.check(by: policy, of: nil, now: 1_000)
  for name in verified.claims.keys { _ = verified.text([name]) }
  return verified
}

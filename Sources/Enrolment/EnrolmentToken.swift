import Bytes
import Crypto
import Glibc

/// 256 random bits that a device presents in place of the user's password to renew its certificate. Only their hash is
/// kept.
package struct EnrolmentToken: Sendable {
  /// base64url (RFC 4648 §5), unpadded.
  let text: String

  /// Returns nil when the system gives no random bytes.
  init?() {
    guard let bytes = SystemRandom.bytes(32) else { return nil }
    text = String(
      Base64.encode(bytes).filter { $0 != "=" }.map { $0 == "+" ? "-" : $0 == "/" ? "_" : $0 })
  }

  /// What the register knows it by. It does not reveal the token.
  var digest: String { Self.digest(Array(text.utf8)) }

  static func digest(_ text: [UInt8]) -> String { Hex.encode(Digest.of(text)) }
}

extension AuthorityStore {
  /// Returns the certificate that was issued with a token, unless it is revoked or expired.
  func holder(of token: SecretBytes, at now: Int64) throws(AuthorityError) -> Certificate? {
    let digest = token.withUnsafeBytes { EnrolmentToken.digest(Array($0)) }
    guard let serial = try register.serial(ofToken: digest), let entry = try register.entry(serial),
      entry.state == .valid, entry.notAfter > now
    else { return nil }
    return try certificate(serial)
  }
}

package import Bytes
import CCrypt
import Crypto
import Glibc

/// A password hash of an `auth_basic_user_file`, and the check of a password against it.
///
/// The schemes are nginx's: `$apr1$` (Apache's MD5), `{SHA}`, `{SSHA}`, `{PLAIN}`, and every scheme of crypt(3) (bcrypt
/// `$2y$`, `$6$`, `$5$`, yescrypt). The hashes are slow on purpose, so never use them on an event loop.
package struct PasswordHash: Sendable, Equatable {
  package let text: [UInt8]

  package init(_ text: [UInt8]) { self.text = text }

  package func matches(_ password: SecretBytes) -> Bool {
    let plain = password.withUnsafeBytes { Array($0) }
    guard !text.isEmpty, !plain.contains(0), !text.contains(0) else { return false }
    if let rest = rest(after: "{PLAIN}") { return ConstantTime.equal(rest, plain) }
    if let rest = rest(after: "{SHA}") {
      guard let digest = try? Base64.decode(String(decoding: rest, as: UTF8.self)) else { return false }
      return ConstantTime.equal(digest, Digest.of(plain, .sha1))
    }
    if let rest = rest(after: "{SSHA}") {
      let size = 20
      guard let salted = try? Base64.decode(String(decoding: rest, as: UTF8.self)), salted.count > size else {
        return false
      }
      return ConstantTime.equal(Array(salted.prefix(size)), Digest.of(plain + salted.dropFirst(size), .sha1))
    }
    if rest(after: APR1.prefix) != nil { return ConstantTime.equal(text, APR1.hash(plain, like: text)) }
    guard let hashed = Self.crypt(plain, like: text) else { return false }
    return ConstantTime.equal(text, hashed)
  }

  private func rest(after prefix: String) -> [UInt8]? {
    text.starts(with: prefix.utf8) ? Array(text.dropFirst(prefix.utf8.count)) : nil
  }

  /// Returns nil when crypt(3) does not know the scheme.
  private static func crypt(_ plain: [UInt8], like setting: [UInt8]) -> [UInt8]? {
    let room = UnsafeMutablePointer<crypt_data>.allocate(capacity: 1)
    memset(room, 0, MemoryLayout<crypt_data>.size)
    defer {
      explicit_bzero(room, MemoryLayout<crypt_data>.size)
      room.deallocate()
    }
    let phrase = (plain + [0]).map { CChar(bitPattern: $0) }
    let like = (setting + [0]).map { CChar(bitPattern: $0) }
    guard let hashed = crypt_r(phrase, like, room) else { return nil }
    let text = Array(String(cString: hashed).utf8)
    // crypt(3) reports some failures by a text that begins with `*` instead of null.
    return text.first == UInt8(ascii: "*") ? nil : text
  }
}

/// Apache's MD5 hash, `$apr1$SALT$HASH`: 1000 rounds (apr_md5.c).
enum APR1 {
  static let prefix = "$apr1$"

  /// Returns the whole text, with the salt of `setting`.
  static func hash(_ password: [UInt8], like setting: [UInt8]) -> [UInt8] {
    let magic = Array(prefix.utf8)
    let salt = Array(setting.dropFirst(magic.count).prefix { $0 != UInt8(ascii: "$") }.prefix(8))
    let inner = Digest.of(password + salt + password, .md5)
    var first = password + magic + salt
    for start in stride(from: 0, to: password.count, by: 16) {
      first += inner.prefix(password.count - start)
    }
    var bits = password.count
    while bits > 0 {
      first.append(bits & 1 == 1 ? 0 : password[0])
      bits >>= 1
    }
    var digest = Digest.of(first, .md5)
    for round in 0..<1000 {
      var next = round & 1 == 1 ? password : digest
      if round % 3 != 0 { next += salt }
      if round % 7 != 0 { next += password }
      next += round & 1 == 1 ? digest : password
      digest = Digest.of(next, .md5)
    }
    return magic + salt + [UInt8(ascii: "$")] + encoded(digest)
  }

  /// Encodes in crypt(3)'s own base64: six bits a character, the lowest first, of octets in this odd order.
  private static func encoded(_ digest: [UInt8]) -> [UInt8] {
    guard digest.count == 16 else { return [] }
    let alphabet = Array("./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz".utf8)
    var text: [UInt8] = []
    func append(_ value: Int, _ characters: Int) {
      for place in 0..<characters { text.append(alphabet[value >> (6 * place) & 63]) }
    }
    for (high, middle, low) in [(0, 6, 12), (1, 7, 13), (2, 8, 14), (3, 9, 15), (4, 10, 5)] {
      append(Int(digest[high]) << 16 | Int(digest[middle]) << 8 | Int(digest[low]), 4)
    }
    append(Int(digest[11]), 2)
    return text
  }
}

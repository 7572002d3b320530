package import Bytes

/// `ssl_password_file` and `proxy_ssl_password_file`: pass phrases, one a line, tried in order.
package enum PasswordFile {
  /// The largest length of a pass phrase in bytes: OpenSSL's PEM reader has no room for more.
  package static let lengthLimit = 1024

  /// Loads at least one pass phrase. As in nginx, a CR before the line feed is not part of it, and empty lines are
  /// skipped.
  package static func load(_ reference: MaterialReference) throws(MaterialError) -> [SecretBytes] {
    let contents = try reference.read(expecting: .passwords)
    return try contents.withUnsafeBytes { (bytes) throws(MaterialError) in
      var passwords: [SecretBytes] = []
      var number = 0
      for line in bytes.split(separator: 0x0A, omittingEmptySubsequences: false) {
        number += 1
        let phrase = UnsafeRawBufferPointer(rebasing: line.last == 0x0D ? line.dropLast() : line)
        if phrase.isEmpty { continue }
        guard !phrase.contains(0) else {
          throw MaterialError(reference, "line \(number) holds a NUL byte; expected pass phrases, one a line")
        }
        guard phrase.count <= lengthLimit else {
          throw MaterialError(reference, "line \(number) is longer than \(lengthLimit) bytes")
        }
        passwords.append(SecretBytes(copying: phrase))
      }
      guard !passwords.isEmpty else { throw MaterialError(reference, "holds no pass phrase; expected one a line") }
      return passwords
    }
  }
}

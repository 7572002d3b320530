package import Bytes
package import Crypto

/// Users and the hashes of their passwords (nginx's auth_basic_user_file): `USER:HASH[:COMMENT]` a line, `#` begins a comment.
package struct AccountFile: Sendable {
  private let lines: [(user: [UInt8], hash: PasswordHash)]

  package init(_ bytes: UnsafeRawBufferPointer) {
    lines = bytes.split(separator: 0x0A).compactMap { line in
      guard line.first != UInt8(ascii: "#") else { return nil }
      let fields = line.split(separator: UInt8(ascii: ":"), omittingEmptySubsequences: false)
      guard fields.count > 1, !fields[0].isEmpty else { return nil }
      var hash = Array(fields[1])
      if hash.last == 0x0D { hash.removeLast() }
      return (Array(fields[0]), PasswordHash(hash))
    }
  }

  /// Blocks, so never on an event loop.
  package init(loading file: MaterialReference) throws(MaterialError) {
    self = try file.read(expecting: .accounts).withUnsafeBytes { AccountFile($0) }
  }

  /// Whether the file has this user with this password. Who is not there takes as long as who is.
  package func admits(_ user: [UInt8], _ password: SecretBytes) -> Bool {
    guard let line = lines.first(where: { $0.user == user }) else {
      _ = lines.first?.hash.matches(password)
      return false
    }
    return line.hash.matches(password)
  }
}

/// What a request's Authorization shows (RFC 7617, RFC 6750).
package enum ShownCredentials: Sendable {
  case basic(user: [UInt8], password: SecretBytes)
  case bearer(SecretBytes)

  /// nil: of another scheme, or malformed.
  package init?(_ field: UnsafeRawBufferPointer) {
    let bytes = Array(field)
    guard let space = bytes.firstIndex(of: 0x20) else { return nil }
    let rest = Array(bytes[space...].drop { $0 == 0x20 })
    switch String(decoding: bytes[..<space], as: UTF8.self).lowercased() {
    case "basic":
      guard let plain = try? Base64.decode(String(decoding: rest, as: UTF8.self)),
        let colon = plain.firstIndex(of: UInt8(ascii: ":"))
      else { return nil }
      self = .basic(user: Array(plain[..<colon]), password: SecretBytes(Array(plain[(colon + 1)...])))
    case "bearer": self = .bearer(SecretBytes(rest))
    default: return nil
    }
  }
}

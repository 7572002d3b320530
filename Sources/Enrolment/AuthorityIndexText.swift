import Bytes

/// A malformed line of index.txt. Lines count from 1.
package struct AuthorityIndexError: Error, Sendable, Hashable, CustomStringConvertible {
  package let line: Int
  package let reason: String
  package var description: String { "line \(line): \(reason)" }
}

extension AuthorityIndex {
  /// The largest length of a line in bytes; a name has at most a few hundred.
  package static let lineLimit = 8192

  /// Parses the file. Skips empty lines and comments (`#`).
  package init(parsing bytes: UnsafeRawBufferPointer) throws(AuthorityIndexError) {
    self.init()
    var number = 0
    for raw in bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false) {
      number += 1
      if raw.isEmpty || raw.first == UInt8(ascii: "#") { continue }
      guard raw.count <= Self.lineLimit else {
        throw AuthorityIndexError(line: number, reason: "longer than \(Self.lineLimit) bytes")
      }
      guard raw.allSatisfy({ $0 >= 0x20 && $0 != 0x7F || $0 == UInt8(ascii: "\t") }),
        let line = String(validating: raw, as: UTF8.self)
      else { throw AuthorityIndexError(line: number, reason: "a control character, or not UTF-8") }
      let entry = try Self.entry(line, number)
      guard add(entry) else {
        throw AuthorityIndexError(line: number, reason: "serial \(entry.serial) is in an earlier line already")
      }
    }
  }

  private static func entry(_ line: String, _ number: Int) throws(AuthorityIndexError) -> Entry {
    func fault(_ reason: String) -> AuthorityIndexError { AuthorityIndexError(line: number, reason: reason) }
    let fields = line.split(separator: "\t", omittingEmptySubsequences: false)
    guard fields.count == 6 else { throw fault("\(fields.count) fields; expected 6, separated by tabs") }
    guard let notAfter = AuthorityTime.seconds(inIndex: fields[1]) else {
      throw fault("\"\(fields[1])\" is no time; expected YYMMDDHHMMSSZ")
    }
    let serial = String(fields[3])
    guard (2...128).contains(serial.utf8.count), serial.utf8.count % 2 == 0,
      serial.utf8.allSatisfy({ ASCII.hexValue($0) != nil && ASCII.upper($0) == $0 })
    else { throw fault("\"\(serial)\" is no serial; expected upper-case hexadecimal octets") }
    let state: State
    switch (fields[0], fields[2].isEmpty) {
    case ("V", true): state = .valid
    case ("E", true): state = .expired
    case ("R", false):
      guard let revocation = Revocation(fields[2]) else {
        throw fault("\"\(fields[2])\" is no revocation; expected YYMMDDHHMMSSZ, and a reason behind a comma")
      }
      state = .revoked(revocation)
    case ("V", false), ("E", false): throw fault("a certificate that is not revoked, with the date of its revocation")
    case ("R", true): throw fault("a revoked certificate without the date of its revocation")
    default: throw fault("\"\(fields[0])\" is no state; expected V, R or E")
    }
    return Entry(
      state: state, notAfter: notAfter, serial: serial, file: String(fields[4]), subject: String(fields[5]))
  }

  /// The file's content, as `openssl ca` writes it.
  package var text: String { entries.map(\.line).joined() }
}

extension AuthorityIndex.Entry {
  /// The entry's line in the file, with its line feed.
  var line: String {
    let (letter, revocation) =
      switch state {
      case .valid: ("V", "")
      case .expired: ("E", "")
      case .revoked(let revocation): ("R", revocation.text)
      }
    return "\(letter)\t\(AuthorityTime.inIndex(notAfter))\t\(revocation)\t\(serial)\t\(file)\t\(subject)\n"
  }
}

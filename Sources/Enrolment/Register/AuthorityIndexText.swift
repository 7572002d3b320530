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
    do throws(Entry.FieldFault) {
      return try Entry(
        letter: fields[0], notAfter: notAfter, revocation: fields[2], serial: fields[3], file: fields[4],
        subject: fields[5])
    } catch {
      throw fault(error.reason)
    }
  }

  /// The file's content, as `openssl ca` writes it.
  package var text: String { entries.map(\.line).joined() }
}

extension AuthorityIndex.Entry {
  /// Why a field of an entry can't be read.
  struct FieldFault: Error { let reason: String }

  /// Makes an entry of its fields, as they are in a line of the file or a row of a database.
  init(
    letter: Substring, notAfter: Int64, revocation: Substring, serial: Substring, file: Substring, subject: Substring
  ) throws(FieldFault) {
    func fault(_ reason: String) -> FieldFault { FieldFault(reason: reason) }
    guard (2...128).contains(serial.utf8.count), serial.utf8.count % 2 == 0,
      serial.utf8.allSatisfy({ ASCII.hexValue($0) != nil && ASCII.upper($0) == $0 })
    else { throw fault("\"\(serial)\" is no serial; expected upper-case hexadecimal octets") }
    let state: AuthorityIndex.State
    switch (letter, revocation.isEmpty) {
    case ("V", true): state = .valid
    case ("E", true): state = .expired
    case ("R", false):
      guard let read = AuthorityIndex.Revocation(revocation) else {
        throw fault("\"\(revocation)\" is no revocation; expected YYMMDDHHMMSSZ, and a reason behind a comma")
      }
      state = .revoked(read)
    case ("V", false), ("E", false): throw fault("a certificate that is not revoked, with the date of its revocation")
    case ("R", true): throw fault("a revoked certificate without the date of its revocation")
    default: throw fault("\"\(letter)\" is no state; expected V, R or E")
    }
    self.init(
      state: state, notAfter: notAfter, serial: String(serial), file: String(file), subject: String(subject))
  }

  /// The letter of the state, and the text of a revocation; empty without one.
  var marks: (letter: String, revocation: String) {
    switch state {
    case .valid: ("V", "")
    case .expired: ("E", "")
    case .revoked(let revocation): ("R", revocation.text)
    }
  }

  /// The entry's line in the file, with its line feed.
  var line: String {
    let (letter, revocation) = marks
    return "\(letter)\t\(AuthorityTime.inIndex(notAfter))\t\(revocation)\t\(serial)\t\(file)\t\(subject)\n"
  }
}

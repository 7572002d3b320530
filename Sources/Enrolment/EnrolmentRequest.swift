package import Bytes
import JSON

/// A device's request: `{"device": NAME, "passphrase": TEXT}` (RFC 8259).
///
/// Other members are ignored. A request is faulty if one of these two is present twice or is not a string.
package struct EnrolmentRequest: Sendable {
  /// 1 to 64 of `A-Z a-z 0-9 . _ -`.
  package let device: String
  /// The pass phrase of the PKCS#12 file, at least 8 characters.
  package let passphrase: SecretBytes

  package static let deviceLimit = 64
  package static let shortestPassphrase = 8
  /// Bytes.
  package static let longestPassphrase = 1024
  /// The largest size of a body in bytes.
  package static let sizeLimit = 16 * 1024

  /// Why a body is not a valid request: for the log; the client gets 400.
  package struct ParseError: Error, Sendable, Hashable, CustomStringConvertible {
    package let description: String
  }

  package init(parsing body: UnsafeRawBufferPointer) throws(ParseError) {
    guard body.count <= Self.sizeLimit else { throw ParseError(description: "longer than \(Self.sizeLimit) bytes") }
    var scanner = MemberScanner(names: ["device", "passphrase"].map { Array($0.utf8) }, capacity: body.count)
    defer { scanner.wipe() }
    scanner.take(body)
    guard scanner.isWhole, scanner.firstStray == body.count else { throw ParseError(description: "no JSON object") }
    func string(_ index: Int, _ name: String) throws(ParseError) -> UnsafeRawBufferPointer {
      guard case .string(let range) = scanner.values[index] else {
        throw ParseError(description: "\"\(name)\" is not there, is there twice or is no string")
      }
      return scanner.kept[range]
    }
    let device = try string(0, "device"), passphrase = try string(1, "passphrase")
    guard Self.isDevice(device) else {
      throw ParseError(description: "\"device\" is not 1 to \(Self.deviceLimit) letters, digits, '.', '_' and '-'")
    }
    guard passphrase.count <= Self.longestPassphrase, !passphrase.contains(0),
      String(decoding: passphrase, as: UTF8.self).count >= Self.shortestPassphrase
    else {
      throw ParseError(description: "\"passphrase\" is shorter than \(Self.shortestPassphrase) characters, or no text")
    }
    self.device = String(decoding: device, as: UTF8.self)
    self.passphrase = SecretBytes(copying: passphrase)
  }

  static func isDevice(_ name: some Collection<UInt8>) -> Bool {
    (1...deviceLimit).contains(name.count)
      && name.allSatisfy { byte in
        ASCII.isDigit(byte) || ASCII.lower(byte) &- 97 < 26 || [UInt8]("._-".utf8).contains(byte)
      }
  }
}

package import Bytes

/// What a device asks for: `{"device": NAME, "passphrase": TEXT}` (RFC 8259).
///
/// Other members are passed over; one of these two that is there twice, or is no string, is a fault.
package struct EnrolmentRequest: Sendable {
  /// 1 to 64 of `A-Z a-z 0-9 . _ -`.
  package let device: String
  /// Of the PKCS#12. At least 8 characters.
  package let passphrase: SecretBytes

  package static let deviceLimit = 64
  package static let shortestPassphrase = 8
  /// Bytes.
  package static let longestPassphrase = 1024
  /// The most bytes of a body.
  package static let sizeLimit = 16 * 1024

  /// Why a body is no request: for the log, the client gets 400.
  package struct Fault: Error, Sendable, Hashable, CustomStringConvertible {
    package let description: String
  }

  package init(parsing body: UnsafeRawBufferPointer) throws(Fault) {
    guard body.count <= Self.sizeLimit else { throw Fault(description: "longer than \(Self.sizeLimit) bytes") }
    var device: [UInt8]?
    var passphrase: [UInt8]?
    var reader = JSONReader(body)
    guard reader.take("{") else { throw Fault(description: "no JSON object") }
    var isFirst = true
    while !reader.take("}") {
      guard isFirst || reader.take(","), let name = reader.string(), reader.take(":") else {
        throw Fault(description: "malformed JSON")
      }
      isFirst = false
      switch name {
      case Array("device".utf8): try Self.set(&device, "device", &reader)
      case Array("passphrase".utf8): try Self.set(&passphrase, "passphrase", &reader)
      default: guard reader.skipValue() else { throw Fault(description: "malformed JSON") }
      }
    }
    guard reader.isAtEnd else { throw Fault(description: "something after the JSON object") }
    guard let device, Self.isDevice(device) else {
      throw Fault(description: "no \"device\" of 1 to \(Self.deviceLimit) letters, digits, '.', '_' and '-'")
    }
    guard let passphrase, passphrase.count <= Self.longestPassphrase, !passphrase.contains(0),
      String(decoding: passphrase, as: UTF8.self).count >= Self.shortestPassphrase
    else {
      throw Fault(description: "no \"passphrase\" of \(Self.shortestPassphrase) characters or more")
    }
    self.device = String(decoding: device, as: UTF8.self)
    self.passphrase = SecretBytes(passphrase)
  }

  private static func set(_ value: inout [UInt8]?, _ name: String, _ reader: inout JSONReader) throws(Fault) {
    guard value == nil, let text = reader.string() else {
      throw Fault(description: "\"\(name)\" is no string, or there twice")
    }
    value = text
  }

  private static func isDevice(_ name: [UInt8]) -> Bool {
    (1...deviceLimit).contains(name.count)
      && name.allSatisfy { byte in
        ASCII.isDigit(byte) || ASCII.lower(byte) &- 97 < 26 || [UInt8]("._-".utf8).contains(byte)
      }
  }
}

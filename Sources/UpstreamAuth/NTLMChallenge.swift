/// A server's CHALLENGE_MESSAGE of NTLM, type 2 (MS-NLMP §2.2.1.2). Parsing checks every offset and length.
package struct NTLMChallenge: Sendable, Equatable {
  /// One AV_PAIR of the target information (§2.2.2.1).
  struct Attribute: Sendable, Equatable {
    var id: UInt16
    var value: [UInt8]
  }

  let flags: UInt32
  /// 8 bytes.
  let serverChallenge: [UInt8]
  /// Without the final MsvAvEOL.
  let attributes: [Attribute]
  /// The message as received, for the MIC.
  let message: [UInt8]

  static let sizeLimit = 8 * 1024
  private static let attributeLimit = 32

  package init?(_ message: [UInt8]) {
    guard message.count <= Self.sizeLimit, message.starts(with: NTLM.signature), message.uint32(8) == 2,
      let flags = message.uint32(20), flags & NTLM.unicode != 0, flags & NTLM.ntlm != 0,
      let serverChallenge = message.slice(24, 8)
    else { return nil }
    var attributes: [Attribute] = []
    if flags & NTLM.targetInfo != 0 {
      guard let count = message.uint16(40), let offset = message.uint32(44),
        let information = message.slice(Int(offset), Int(count)), let read = Self.attributes(information)
      else { return nil }
      attributes = read
    }
    self.flags = flags
    self.serverChallenge = serverChallenge
    self.attributes = attributes
    self.message = message
  }

  /// Returns nil unless the attributes end with MsvAvEOL and each id occurs once.
  private static func attributes(_ bytes: [UInt8]) -> [Attribute]? {
    var all: [Attribute] = []
    var at = 0
    while let id = bytes.uint16(at), let count = bytes.uint16(at + 2), all.count < attributeLimit {
      if id == NTLM.endOfAttributes { return count == 0 ? all : nil }
      guard let value = bytes.slice(at + 4, Int(count)), !all.contains(where: { $0.id == id }) else { return nil }
      all.append(Attribute(id: id, value: value))
      at += 4 + Int(count)
    }
    return nil
  }

  /// The server's time as a FILETIME, 8 bytes. The answer to it contains a MIC, which shows that no message was
  /// changed.
  var timestamp: [UInt8]? { attributes.first { $0.id == NTLM.timestamp && $0.value.count == 8 }?.value }
}

/// Numbers of MS-NLMP.
enum NTLM {
  static let signature = Array("NTLMSSP\0".utf8)
  static let unicode: UInt32 = 0x0000_0001
  static let requestTarget: UInt32 = 0x0000_0004
  static let ntlm: UInt32 = 0x0000_0200
  static let alwaysSign: UInt32 = 0x0000_8000
  static let extendedSecurity: UInt32 = 0x0008_0000
  static let targetInfo: UInt32 = 0x0080_0000
  /// The flags of a client without key exchange, signing or sealing: HTTP does not use the session key.
  static let offered = unicode | requestTarget | ntlm | alwaysSign | extendedSecurity | targetInfo

  static let endOfAttributes: UInt16 = 0
  static let attributeFlags: UInt16 = 6
  static let timestamp: UInt16 = 7
  static let targetName: UInt16 = 9
  static let channelBindings: UInt16 = 10
}

extension [UInt8] {
  /// Reads little-endian; nil past the end.
  func uint16(_ at: Int) -> UInt16? { slice(at, 2).map { UInt16($0[0]) | UInt16($0[1]) << 8 } }
  func uint32(_ at: Int) -> UInt32? {
    slice(at, 4).map { UInt32($0[0]) | UInt32($0[1]) << 8 | UInt32($0[2]) << 16 | UInt32($0[3]) << 24 }
  }

  func slice(_ at: Int, _ length: Int) -> [UInt8]? {
    guard at >= 0, length >= 0, at <= count, length <= count - at else { return nil }
    return Array(self[at..<(at + length)])
  }

  mutating func append(uint16 value: UInt16) { self += [UInt8(truncatingIfNeeded: value), UInt8(value >> 8)] }
  mutating func append(uint32 value: UInt32) {
    append(uint16: UInt16(truncatingIfNeeded: value))
    append(uint16: UInt16(value >> 16))
  }
}

import Bytes
import Crypto
import JSON

/// The wire format: `{"mac": B64, "iv": B64, "payload": B64}`.
enum EnvelopeFormat {
  /// A decoded envelope with checked sizes. Nothing in it is authenticated yet.
  struct Sealed {
    var iv: [UInt8]
    var payload: [UInt8]
    /// Empty when the suite has no MAC.
    var mac: [UInt8]
  }

  private static let names = EnvelopeMember.allCases.map { Array($0.rawValue.utf8) }

  static func read(_ body: UnsafeRawBufferPointer, _ suite: EnvelopeSuite) throws(EnvelopeError) -> Sealed {
    var scanner = MemberScanner(names: names, capacity: body.count)
    scanner.take(body)
    guard scanner.isWhole, scanner.firstStray == body.count else { throw .malformed }
    let kept = scanner.kept
    func octets(_ member: EnvelopeMember) throws(EnvelopeError) -> [UInt8]? {
      switch scanner.values[member.index] {
      case .absent: return nil
      case .string(let range):
        do { return try Base64.decode(kept[range]) } catch { throw .base64(member) }
      case .literal, .unusable(.nested): throw .noString(member)
      case .unusable(.doubled): throw .doubled(member)
      }
    }
    let (mac, iv, payload) = (try octets(.mac), try octets(.iv), try octets(.payload))
    guard let iv else { throw .missing(.iv) }
    guard let payload else { throw .missing(.payload) }
    guard iv.count == suite.cipher.ivCount else { throw .size(.iv) }
    if suite.cipher.isAuthenticated {
      guard payload.count >= Cipher.tagCount else { throw .size(.payload) }
    } else {
      guard !payload.isEmpty, payload.count % Cipher.blockCount == 0 else { throw .size(.payload) }
    }
    guard let wanted = suite.mac else {
      guard mac == nil else { throw .unexpectedMAC }
      return Sealed(iv: iv, payload: payload, mac: [])
    }
    guard let mac else { throw .missing(.mac) }
    guard mac.count == wanted.algorithm.count else { throw .size(.mac) }
    return Sealed(iv: iv, payload: payload, mac: mac)
  }

  /// Makes a stand-in of the size that an envelope of this body would have. The opener processes it in place of a
  /// malformed body, so that both cost the same work.
  static func standIn(for body: UnsafeRawBufferPointer, _ suite: EnvelopeSuite) -> Sealed {
    let blocks = max(1, body.count / 4 * 3 / Cipher.blockCount)
    return Sealed(
      iv: [UInt8](repeating: 0, count: suite.cipher.ivCount),
      payload: [UInt8](repeating: 0, count: blocks * Cipher.blockCount),
      mac: [UInt8](repeating: 0, count: suite.mac?.algorithm.count ?? 0))
  }

  static func write(mac: [UInt8]?, iv: [UInt8], payload: UnsafeRawBufferPointer) -> ByteBuffer {
    var text = ByteBuffer(capacity: Base64.encodedCount(payload.count) + 128)
    text.append("{")
    if let mac {
      text.append("\"mac\":\"")
      mac.withUnsafeBytes { Base64.encode($0, into: &text) }
      text.append("\",")
    }
    text.append("\"iv\":\"")
    iv.withUnsafeBytes { Base64.encode($0, into: &text) }
    text.append("\",\"payload\":\"")
    Base64.encode(payload, into: &text)
    text.append("\"}")
    return text
  }
}

public enum EnvelopeMember: String, Sendable, Hashable, CaseIterable {
  case mac, iv, payload

  var index: Int { self == .mac ? 0 : self == .iv ? 1 : 2 }
}

/// Why an envelope was not opened, for the log only. The client gets the same response for all reasons.
public enum EnvelopeError: Error, Sendable, Hashable, CustomStringConvertible {
  /// Not a JSON object, or something follows it.
  case malformed
  case missing(EnvelopeMember)
  case doubled(EnvelopeMember)
  case noString(EnvelopeMember)
  case base64(EnvelopeMember)
  /// The length is not valid for the suite.
  case size(EnvelopeMember)
  /// The suite uses no MAC.
  case unexpectedMAC
  case padding
  /// The MAC, or GCM's tag, does not match the text.
  case forged
  /// `fields`: the text is not a JSON object; or a named member is not a scalar, occurs twice, or has a similar name
  /// beside it that another parser could take for it.
  case text
  case replayed
  /// The replay window is full, so nobody can tell whether this is a replay.
  case windowFull

  public var description: String {
    switch self {
    case .malformed: "it is no JSON object"
    case .missing(let member): "it has no \"\(member.rawValue)\""
    case .doubled(let member): "it has \"\(member.rawValue)\" twice"
    case .noString(let member): "its \"\(member.rawValue)\" is no string"
    case .base64(let member): "its \"\(member.rawValue)\" is no canonical base64"
    case .size(let member): "its \"\(member.rawValue)\" has a wrong size"
    case .unexpectedMAC: "it has a \"mac\" where none is used"
    case .padding: "its padding is wrong"
    case .forged: "it is not authentic"
    case .text: "its text is no JSON object with scalars in the named fields, each there once and in one spelling"
    case .replayed: "its IV was seen before"
    case .windowFull: "the replay window is full"
    }
  }
}

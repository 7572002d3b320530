import Bytes
import Crypto
import JSON

/// The part of a plain JSON object that `message_envelope_mac … fields` authenticates.
struct FieldsText: ~Copyable {
  /// The joined values.
  private(set) var joined = ByteBuffer()
  /// The text is not a JSON object; or a named member is not a scalar, occurs twice, or has a similar name beside it
  /// that another parser could take for it.
  private(set) var isWrong: Bool
  /// The number of bytes up to and including the object's last brace.
  let endOfObject: Int
  /// The index of the first byte after the object that is not blank; the text's count if there is none.
  let firstStray: Int

  /// Reads the whole text, whatever is wrong with it.
  init(_ text: UnsafeRawBufferPointer, names: [[UInt8]]) {
    var scanner = MemberScanner(names: names, capacity: text.count)
    scanner.take(text)
    isWrong = !scanner.isWhole || scanner.hasTwin
    endOfObject = scanner.endOfObject
    firstStray = scanner.firstStray
    joined.reserve(text.count)
    for value in scanner.values {
      switch value {
      case .absent: break
      case .string(let range), .literal(let range): joined.append(scanner.kept[range])
      case .unusable: isWrong = true
      }
    }
  }

  /// Returns the code over the joined values.
  ///
  /// Then hashes as many further blocks of `filler` as the longest possible values of `text` would have needed. So the
  /// time does not reveal the length of the values, except for the cost of a call.
  func code(of text: UnsafeRawBufferPointer, filler: UnsafeRawBufferPointer, _ key: MACKey) -> [UInt8] {
    var mac = key.begin()
    mac.add(joined.readable)
    let code = mac.finish()
    let rest = Self.blocks(text.count) - Self.blocks(joined.count)
    var filling = key.begin()
    filling.add(UnsafeRawBufferPointer(rebasing: filler[..<min(filler.count, max(0, rest) * MACAlgorithm.blockCount)]))
    _ = filling.finish()
    return code
  }

  /// The number of the digest's blocks for this many bytes: a bit and a 64-bit length follow them (FIPS 180-4 §5.1.1).
  private static func blocks(_ count: Int) -> Int {
    (count + 9 + MACAlgorithm.blockCount - 1) / MACAlgorithm.blockCount
  }
}

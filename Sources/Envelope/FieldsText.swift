import Bytes
import Crypto
import JSON

/// `message_envelope_mac … fields`: what of a plain JSON object is authenticated.
struct FieldsText: ~Copyable {
  /// The values, joined.
  private(set) var joined = ByteBuffer()
  /// No JSON object, or a named member is no scalar or there twice, or one beside it could be taken for it.
  private(set) var isWrong: Bool
  /// Bytes up to and with the object's last brace.
  let endOfObject: Int
  /// The first byte after it that is no blank; the text's count where there is none.
  let firstStray: Int

  /// Reads all of the text, whatever is wrong with it.
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

  /// The code over the joined values; then as many of the digest's blocks more, of `filler`, as the longest values that
  /// `text` could hold would have taken: how long they are does not show, but for what a call costs.
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

  /// Blocks that the digest makes of so many bytes: a bit and the length in 64 follow them (FIPS 180-4 §5.1.1).
  private static func blocks(_ count: Int) -> Int {
    (count + 9 + MACAlgorithm.blockCount - 1) / MACAlgorithm.blockCount
  }
}

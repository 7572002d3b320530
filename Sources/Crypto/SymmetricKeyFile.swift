package import Bytes

/// A file with a key as hexadecimal digits or base64 (RFC 4648 §4). Surrounding blanks are ignored.
package enum SymmetricKeyFile {
  /// `lengths`: the lengths in octets that the key may have. A text that decodes as hexadecimal is never tried as
  /// base64. Blocks.
  package static func load(
    _ reference: MaterialReference, expecting kind: MaterialKind, lengths: ClosedRange<Int>
  ) throws(MaterialError) -> SecretBytes {
    let contents = try reference.read(expecting: kind)
    let decoded = contents.withUnsafeBytes { decode(trimmed($0)) }
    guard let decoded else {
      throw MaterialError(
        reference, "neither hexadecimal digits nor padded base64; expected \(kind.expectation)", hint: hint(lengths))
    }
    guard lengths.contains(decoded.key.count) else {
      let wanted = lengths.count == 1 ? "\(lengths.lowerBound)" : "\(lengths.lowerBound) or more"
      throw MaterialError(
        reference, "\(decoded.key.count) bytes (as \(decoded.form)), but \(kind.noun) has \(wanted)",
        hint: hint(lengths))
    }
    return decoded.key
  }

  private static func hint(_ lengths: ClosedRange<Int>) -> String {
    "make one: openssl rand -hex \(lengths.count == 1 ? lengths.lowerBound : 32)"
  }

  private static func trimmed(_ bytes: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
    let isBlank: (UInt8) -> Bool = { $0 == 0x20 || (0x09...0x0D).contains($0) }
    guard let first = bytes.firstIndex(where: { !isBlank($0) }), let last = bytes.lastIndex(where: { !isBlank($0) })
    else { return UnsafeRawBufferPointer(start: nil, count: 0) }
    return UnsafeRawBufferPointer(rebasing: bytes[first...last])
  }

  private static func decode(_ text: UnsafeRawBufferPointer) -> (key: SecretBytes, form: String)? {
    if let key = hexadecimal(text) { return (key, "hexadecimal") }
    guard !text.isEmpty, var bytes = try? Base64.decode(text) else { return nil }
    defer { bytes.wipe() }
    return (SecretBytes(bytes), "base64")
  }

  private struct NoDigits: Error {}

  private static func hexadecimal(_ text: UnsafeRawBufferPointer) -> SecretBytes? {
    guard !text.isEmpty, text.count % 2 == 0 else { return nil }
    return try? SecretBytes(capacity: text.count / 2) { (room) throws(NoDigits) in
      for index in 0..<room.count {
        guard let high = ASCII.hexValue(text[2 * index]), let low = ASCII.hexValue(text[2 * index + 1]) else {
          throw NoDigits()
        }
        room[index] = high << 4 | low
      }
      return room.count
    }
  }
}

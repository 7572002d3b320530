/// A certificate whose fields a fuzzer chooses one by one: the DER around them is sound, so that OpenSSL parses it and the
/// fields are reached. Nothing signs it.
struct ComposedCertificate {
  private var rest: ArraySlice<UInt8>
  private(set) var der: [UInt8] = []

  private enum Tag {
    static let integer: UInt8 = 0x02, bits: UInt8 = 0x03, octets: UInt8 = 0x04, null: UInt8 = 0x05
    static let identifier: UInt8 = 0x06, sequence: UInt8 = 0x30, set: UInt8 = 0x31
  }

  /// Of an attribute of a name: CN, O, OU, C, serialNumber, emailAddress.
  private static let attributes: [[UInt8]] = [
    [0x55, 4, 3], [0x55, 4, 10], [0x55, 4, 11], [0x55, 4, 6], [0x55, 4, 5],
    [0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 1, 9, 1],
  ]
  /// UTF8String, PrintableString, T61String, IA5String, UniversalString, BMPString, OCTET STRING, BOOLEAN.
  private static let texts: [UInt8] = [0x0C, 0x13, 0x14, 0x16, 0x1C, 0x1E, 0x04, 0x01]
  /// dNSName, URI, rfc822Name, iPAddress, otherName, directoryName, registeredID, x400Address.
  private static let names: [UInt8] = [0x82, 0x86, 0x81, 0x87, 0xA0, 0xA4, 0x88, 0xA3]
  private static let algorithm: [UInt8] = [
    0x30, 0x0A, 0x06, 0x08, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 4, 3, 2,
  ]
  /// id-ecPublicKey on P-256, and a point that is none.
  private static let key: [UInt8] =
    [
      0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 2, 1, 0x06, 0x08, 0x2A, 0x86, 0x48, 0xCE, 0x3D,
      3, 1, 7, 0x03, 0x42, 0x00, 0x04,
    ] + [UInt8](repeating: 7, count: 64)

  init(_ input: ArraySlice<UInt8>) {
    rest = input
    let form = byte()
    let version = wrapped(0xA0, wrapped(Tag.integer, chunk()))
    let serial = wrapped(Tag.integer, chunk())
    let issuer = name()
    let validity = wrapped(Tag.sequence, time() + time())
    let subject = name()
    var extensions: [UInt8] = []
    // Twice, for some: what stands there two times says nothing.
    if form & 1 != 0 { extensions += alternativeNames() }
    if form & 2 != 0 { extensions += alternativeNames() }
    if form & 4 != 0 { extensions += extensionValue([0x55, 0x1D, 0x11], chunk()) }
    if form & 8 != 0 { extensions += extensionValue([0x2B, 6, 1, 5, 5, 7, 1, 1], chunk()) }
    if form & 16 != 0 { extensions += extensionValue(chunk(), chunk()) }
    let tail = extensions.isEmpty ? [] : wrapped(0xA3, wrapped(Tag.sequence, extensions))
    let body = (form & 32 != 0 ? [] : version) + serial + Self.algorithm + issuer + validity + subject
    let signature = wrapped(Tag.bits, [0] + chunk())
    der = wrapped(Tag.sequence, wrapped(Tag.sequence, body + Self.key + tail) + Self.algorithm + signature)
  }

  private mutating func byte() -> UInt8 { rest.popFirst() ?? 0 }

  private mutating func chunk() -> [UInt8] {
    let count = min(Int(byte()), rest.count)
    defer { rest = rest.dropFirst(count) }
    return Array(rest.prefix(count))
  }

  private mutating func time() -> [UInt8] { wrapped(byte() & 1 == 0 ? 0x17 : 0x18, chunk()) }

  /// Up to seven attributes; some share a relative name with the one before.
  private mutating func name() -> [UInt8] {
    var relative: [[UInt8]] = []
    for _ in 0..<(byte() & 7) {
      let choice = byte()
      let kind = Int(choice & 7) < Self.attributes.count ? Self.attributes[Int(choice & 7)] : chunk()
      let text = wrapped(Self.texts[Int(choice >> 3 & 7)], chunk())
      let attribute = wrapped(Tag.sequence, wrapped(Tag.identifier, kind) + text)
      if choice & 64 != 0, !relative.isEmpty {
        relative[relative.count - 1] += attribute
      } else {
        relative.append(attribute)
      }
    }
    return wrapped(Tag.sequence, relative.flatMap { wrapped(Tag.set, $0) })
  }

  private mutating func alternativeNames() -> [UInt8] {
    var all: [UInt8] = []
    for _ in 0..<(byte() & 7) { all += wrapped(Self.names[Int(byte() & 7)], chunk()) }
    return extensionValue([0x55, 0x1D, 0x11], wrapped(Tag.sequence, all))
  }

  private func extensionValue(_ identifier: [UInt8], _ value: [UInt8]) -> [UInt8] {
    wrapped(Tag.sequence, wrapped(Tag.identifier, identifier) + wrapped(Tag.octets, value))
  }

  private func wrapped(_ tag: UInt8, _ contents: [UInt8]) -> [UInt8] {
    let count = contents.count
    let length: [UInt8] =
      switch count {
      case 0..<0x80: [UInt8(count)]
      case 0x80..<0x100: [0x81, UInt8(count)]
      default: [0x82, UInt8(truncatingIfNeeded: count >> 8), UInt8(truncatingIfNeeded: count)]
      }
    return [tag] + length + contents
  }
}

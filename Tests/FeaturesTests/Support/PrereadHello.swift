/// The first bytes of a TLS client (RFC 8446 §4.1.2).
struct PrereadHello {
  var name: String?
  var protocols: [[UInt8]] = []

  private static func sixteen(_ bytes: [UInt8]) -> [UInt8] {
    [UInt8(bytes.count >> 8), UInt8(bytes.count & 255)] + bytes
  }

  var bytes: [UInt8] {
    var extensions: [UInt8] = [0, 43] + Self.sixteen([2, 3, 4])
    if let name { extensions += [0, 0] + Self.sixteen(Self.sixteen([0] + Self.sixteen(Array(name.utf8)))) }
    if !protocols.isEmpty {
      extensions += [0, 16] + Self.sixteen(Self.sixteen(protocols.flatMap { [UInt8($0.count)] + $0 }))
    }
    let body = [3, 3] + [UInt8](repeating: 9, count: 32) + [0, 0, 2, 0x13, 1, 1, 0] + Self.sixteen(extensions)
    return [0x16, 3, 1] + Self.sixteen([1, 0] + Self.sixteen(body))
  }
}

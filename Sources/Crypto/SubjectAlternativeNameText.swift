import Bytes
import Glibc

extension SubjectAlternativeName {
  static func escaped(_ bytes: [UInt8]) -> String {
    var text: [UInt8] = []
    for byte in bytes {
      if byte < 0x20 || byte == 0x7F {
        text += Array("\\x\(Hex.encode([byte], .upper))".utf8)
      } else {
        text.append(byte)
      }
    }
    return String(decoding: text, as: UTF8.self)
  }

  static func address(_ octets: [UInt8]) -> String {
    var text = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
    let family = octets.count == 4 ? AF_INET : AF_INET6
    guard octets.count == 4 || octets.count == 16,
      inet_ntop(family, octets, &text, socklen_t(text.count)) != nil
    else { return Hex.encode(octets) }
    return String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }
}

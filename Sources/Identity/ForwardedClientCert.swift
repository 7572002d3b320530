import Bytes
import Crypto
import TLS

/// Makes an element of X-Forwarded-Client-Cert, as Envoy documents it ("HTTP header manipulation"): `By`, `Hash`,
/// `Cert`, `Chain`, `Subject`, `URI`, `DNS`.
///
/// No value contains `"` or `\"`. So no value can end its quotes, however a reader interprets a backslash.
enum ForwardedClientCert {
  static func element(_ chain: VerifiedChain, server: [Certificate]) -> String {
    let names = chain.leaf.subjectAltNames
    var pairs = alternatives("By", server.flatMap(\.subjectAltNames.uris))
    pairs.append("Hash=\(Hex.encode(chain.leaf.sha256))")
    pairs.append("Cert=\"\(percentEncoded(chain.leaf.pem))\"")
    pairs.append("Chain=\"\(percentEncoded(chain.withoutAnchor.map(\.pem).joined()))\"")
    pairs.append("Subject=\"\(hexadecimalEscapes(chain.leaf.subject.rfc2253))\"")
    if !names.isMalformed { pairs += alternatives("URI", names.uris) + alternatives("DNS", names.dns) }
    return pairs.joined(separator: ";")
  }

  /// Returns a pair for each name. Returns an empty list if a reader could misread one of the names.
  private static func alternatives(_ key: String, _ names: [SubjectAlternativeName]) -> [String] {
    let isSound = names.allSatisfy { $0.isWellFormed && !$0.bytes.contains { $0 == 0x22 || $0 == 0x5C || $0 > 0x7F } }
    guard isSound else { return [] }
    var seen: Set<SubjectAlternativeName> = []
    return names.filter { seen.insert($0).inserted }.map { name in
      let text = String(decoding: name.bytes, as: UTF8.self)
      return name.bytes.contains { [0x2C, 0x3B, 0x3D, 0x20].contains($0) } ? "\(key)=\"\(text)\"" : "\(key)=\(text)"
    }
  }

  /// Writes quotes and backslashes as `\HH`, which RFC 4514 §2.4 allows for any byte. The result is the same name
  /// without a quote or a doubled backslash.
  static func hexadecimalEscapes(_ name: String) -> String {
    var text: [UInt8] = []
    var isEscaped = false
    for byte in name.utf8 {
      switch (isEscaped, byte) {
      case (true, 0x22): text += Array("22".utf8)
      case (true, 0x5C): text += Array("5C".utf8)
      case (false, 0x22): text += Array("\\22".utf8)
      default: text.append(byte)
      }
      isEscaped = !isEscaped && byte == 0x5C
    }
    return String(decoding: text, as: UTF8.self)
  }

  static func percentEncoded(_ text: String) -> String {
    String(decoding: PercentEncoding.encode(text), as: UTF8.self)
  }
}

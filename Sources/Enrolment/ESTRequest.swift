import Bytes
package import Crypto

/// The body of /simpleenroll and /simplereenroll: a PKCS#10 request as Base64 of DER (RFC 7030 §4.2.1, RFC 8951 §3.1).
///
/// Whitespace between the characters is ignored. PEM is not taken: its lines have other characters.
package struct ESTRequest: Sendable {
  package let request: SigningRequest

  /// The largest size of a body in bytes. A request with a key of RSA 8192 has 2 KiB, with ML-DSA-87 about 10 KiB.
  package static let sizeLimit = 16 * 1024

  /// Why a body is not a valid request: for the log; the client gets 400.
  package struct ParseError: Error, Sendable, Hashable, CustomStringConvertible {
    package let description: String
  }

  package init(parsing body: UnsafeRawBufferPointer) throws(ParseError) {
    guard body.count <= Self.sizeLimit else { throw ParseError(description: "longer than \(Self.sizeLimit) bytes") }
    let text = body.filter { $0 != 0x0A && $0 != 0x0D && $0 != 0x20 && $0 != 0x09 }
    let der: [UInt8]
    do {
      der = try text.withUnsafeBytes { (text) throws(Base64.DecodingError) in try Base64.decode(text) }
    } catch {
      throw ParseError(description: "no Base64 of a PKCS#10 request")
    }
    let parsed = der.withUnsafeBytes { der in
      Result { () throws(CryptoError) in try SigningRequest(der: der) }
    }
    guard let request = try? parsed.get() else {
      throw ParseError(description: "its Base64 holds no PKCS#10 request")
    }
    self.request = request
  }
}

import Bytes
import Crypto
import FuzzSupport
import Identity

/// The first byte chooses the format; the rest is the value of the field, and after a zero byte that of its chain.
///
/// Holds of every value: what is read are certificates within the bounds, a reason is printable and of our own words, and
/// what was read can be written and is read again as the same certificates, in each format that has room for them.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
  guard count > 0 else { return 0 }
  let bytes = Array(UnsafeBufferPointer(start: start, count: count))
  let format = CertificateField.Format.allCases[Int(bytes[0]) % CertificateField.Format.allCases.count]
  let parts = bytes.dropFirst().split(separator: 0, maxSplits: 1, omittingEmptySubsequences: false).map { Array($0) }
  guard let certificates = read(format, parts[0], parts.count > 1 ? parts[1] : nil) else { return 0 }
  require((1...CertificateField.mostCertificates).contains(certificates.count))
  require(certificates.allSatisfy { !$0.der.isEmpty })
  let sequences = certificates.map { ":\(Base64.encode($0.der)):" }
  let chain = sequences.count > 1 ? Array(sequences.dropFirst().joined(separator: ", ").utf8) : nil
  if sequences.joined(separator: ", ").utf8.count <= CertificateField.mostBytes {
    require(read(.rfc9440, Array(sequences[0].utf8), chain) == certificates)
  }
  let pem = certificates.map(\.pem).joined().utf8.flatMap { byte in
    (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte) || byte == 0x2D
      ? [byte] : Array("%\(Hex.encode([byte]))".utf8)
  }
  if pem.count + 20 <= CertificateField.mostBytes {
    require(read(.pem, pem, nil) == certificates)
    require(read(.xfcc, Array("A=\"\\\"\",Chain=\"".utf8) + pem + Array("\"".utf8), nil) == certificates)
  }
  return 0
}

private func read(_ format: CertificateField.Format, _ value: [UInt8], _ chain: [UInt8]?) -> [Certificate]? {
  let field = CertificateField(name: "Client-Cert", format: format)
  let outcome = value.withUnsafeBytes { value in
    Result { () throws(CertificateFieldError) in
      guard let chain else { return try field.certificates(value, chain: nil) }
      return try chain.withUnsafeBytes { raw in
        Result { () throws(CertificateFieldError) in try field.certificates(value, chain: raw) }
      }.get()
    }
  }
  switch outcome {
  case .success(let certificates): return certificates
  case .failure(let error):
    require(!error.reason.isEmpty && error.reason.utf8.allSatisfy { $0 >= 0x20 && $0 < 0x7F })
    return nil
  }
}

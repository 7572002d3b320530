import Bytes
import COpenSSL

/// One encapsulated object of a PEM text (RFC 7468), not yet parsed.
struct PEMBlock {
  /// The label after BEGIN: `CERTIFICATE`, `PRIVATE KEY`.
  let label: String
  /// The RFC 1421 header of a traditionally encrypted key; empty otherwise.
  let header: String
  let contents: SecretBytes

  /// Returns every block of a text in order; a text without blocks gives an empty list. A damaged block is an error and
  /// is never skipped: a truncated CA file must not become a shorter list of CAs.
  static func all(in text: UnsafeRawBufferPointer) throws(CryptoError) -> [PEMBlock] {
    var blocks: [PEMBlock] = []
    try refuseUnseen(text)
    guard text.count > 0, let bio = BIO_new_mem_buf(text.baseAddress, CInt(clamping: text.count)) else {
      OpenSSLError.discard()
      return blocks
    }
    defer { BIO_free(bio) }
    while true {
      var label: UnsafeMutablePointer<CChar>?
      var header: UnsafeMutablePointer<CChar>?
      var data: UnsafeMutablePointer<UInt8>?
      var count = 0
      guard PEM_read_bio(bio, &label, &header, &data, &count) == 1 else {
        let error = OpenSSLError.drain()
        if error.codes.contains(where: { copenssl_pem_no_start_line($0) != 0 }) { return blocks }
        throw .malformed("damaged PEM after \(blocks.count) whole blocks (\(error))")
      }
      defer {
        copenssl_free(label)
        copenssl_free(header)
        copenssl_clear_free(data, max(0, count))
      }
      blocks.append(
        PEMBlock(
          label: label.map { String(cString: $0) } ?? "", header: header.map { String(cString: $0) } ?? "",
          contents: SecretBytes(copying: UnsafeRawBufferPointer(start: data, count: max(0, count)))))
    }
  }

  /// OpenSSL sees a block only where `-----BEGIN LABEL-----` is a whole line, and skips everything else without a word: an
  /// indented certificate, or the first one of a file that was appended with its byte order mark. A commented line stays one.
  private static func refuseUnseen(_ text: UnsafeRawBufferPointer) throws(CryptoError) {
    let mark: [UInt8] = [0xEF, 0xBB, 0xBF], dashes = Array("-----".utf8), begin = dashes + Array("BEGIN ".utf8)
    for (index, line) in text.split(separator: 0x0A, omittingEmptySubsequences: false).enumerated() {
      // OpenSSL leaves out the mark at the beginning of a text.
      let line = index == 0 && line.starts(with: mark) ? line.dropFirst(mark.count) : line
      let rest = line.drop { $0 <= 0x20 || mark.contains($0) }
      guard rest.starts(with: begin) else { continue }
      let isWhole = rest.count == line.count && rest.reversed().drop { $0 <= 0x20 }.starts(with: dashes)
      if !isWhole {
        throw .malformed(
          "line \(index + 1) has a BEGIN that OpenSSL would skip: it must stand alone, at the start of its line")
      }
    }
  }

  /// Returns the block's certificate; nil when the block holds something else.
  func certificate() throws(CryptoError) -> Certificate? {
    switch label {
    case "CERTIFICATE", "X509 CERTIFICATE":
      try contents.withUnsafeBytes { (der) throws(CryptoError) in try Certificate(der: der) }
    case "TRUSTED CERTIFICATE":
      try contents.withUnsafeBytes { (der) throws(CryptoError) in try Certificate(trustedDER: der) }
    default: nil
    }
  }

  /// Returns the certificates among the blocks, in order.
  static func certificates(in blocks: [PEMBlock]) throws(CryptoError) -> [Certificate] {
    var certificates: [Certificate] = []
    for block in blocks {
      if let certificate = try block.certificate() { certificates.append(certificate) }
    }
    return certificates
  }

  var holdsPrivateKey: Bool { label.hasSuffix("PRIVATE KEY") }
  var holdsCertificate: Bool { label.hasSuffix("CERTIFICATE") }
  var holdsPublicKey: Bool { label == "PUBLIC KEY" }
}

import Bytes
package import Crypto

/// The variables for properties of a certificate: nginx's `$ssl_client_…` and sallyport's own.
///
/// A client can present any certificate, so each variable has a value for every certificate that OpenSSL parses. The
/// value is empty if the property can't be read, or if a reader could mistake it for another value.
package enum CertificateVariable: String, CaseIterable, Sendable {
  case ssl_client_raw_cert, ssl_client_cert, ssl_client_escaped_cert
  case ssl_client_s_dn, ssl_client_i_dn, ssl_client_s_dn_legacy, ssl_client_i_dn_legacy
  case ssl_client_serial, ssl_client_fingerprint, ssl_client_v_start, ssl_client_v_end, ssl_client_v_remain
  case ssl_client_s_dn_cn, ssl_client_san_dns, ssl_client_san_uri, ssl_client_san_email, ssl_client_san_ip
  case ssl_client_spki

  /// Whether the value is a hash, and so nothing that the certificate says.
  var isHash: Bool { self == .ssl_client_fingerprint || self == .ssl_client_spki }

  /// `now`: seconds since 1970, for $ssl_client_v_remain.
  package func value(of certificate: Certificate, at now: Int64) -> [UInt8] {
    switch self {
    case .ssl_client_raw_cert: Array(certificate.pem.utf8)
    case .ssl_client_cert: Self.tabbed(certificate.pem)
    case .ssl_client_escaped_cert: PercentEncoding.encode(certificate.pem)
    case .ssl_client_s_dn: Array(certificate.subject.rfc2253.utf8)
    case .ssl_client_i_dn: Array(certificate.issuer.rfc2253.utf8)
    case .ssl_client_s_dn_legacy: Array(certificate.subject.legacy.utf8)
    case .ssl_client_i_dn_legacy: Array(certificate.issuer.legacy.utf8)
    case .ssl_client_serial: Array(certificate.serial.utf8)
    case .ssl_client_fingerprint: Array(certificate.sha1Fingerprint.utf8)
    case .ssl_client_v_start: Array(certificate.notBeforeText.utf8)
    case .ssl_client_v_end: Array(certificate.notAfterText.utf8)
    case .ssl_client_v_remain: certificate.notAfter.days(from: now).map { Array("\(max(0, $0))".utf8) } ?? []
    case .ssl_client_s_dn_cn: certificate.subject.commonName.sole.map { Self.clean([$0]) } ?? []
    case .ssl_client_san_dns: Self.clean(certificate.subjectAltNames.dns)
    case .ssl_client_san_uri: Self.clean(certificate.subjectAltNames.uris)
    case .ssl_client_san_email: Self.clean(certificate.subjectAltNames.emails)
    case .ssl_client_san_ip: Array(certificate.subjectAltNames.ips.map(\.description).joined(separator: ",").utf8)
    case .ssl_client_spki: Array(Base64.encode(certificate.spkiSHA256).utf8)
    }
  }

  private static func clean(_ names: [SubjectAlternativeName]) -> [UInt8] { clean(names.map(\.bytes)) }

  /// Joins values with commas. If a value contains a comma or a control character, a reader could take it for several
  /// values, so the result is empty.
  private static func clean(_ values: [[UInt8]]) -> [UInt8] {
    for value in values where value.contains(where: { $0 < 0x20 || $0 == 0x7F || $0 == 0x2C }) { return [] }
    return Array(values.joined(separator: [0x2C]))
  }

  /// $ssl_client_cert: as in nginx, every line except the first begins with a tab. The last line has no line end.
  private static func tabbed(_ pem: String) -> [UInt8] {
    var bytes: [UInt8] = []
    for byte in pem.utf8 {
      bytes.append(byte)
      if byte == 0x0A { bytes.append(0x09) }
    }
    while let last = bytes.last, last == 0x09 || last == 0x0A { bytes.removeLast() }
    return bytes
  }

}

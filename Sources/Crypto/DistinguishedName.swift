import COpenSSL

/// The subject or issuer of a certificate. It retains the certificate and computes its texts on demand.
public struct DistinguishedName: Sendable, CustomStringConvertible {
  enum Role: Sendable { case subject, issuer }

  private let certificate: Certificate
  private let role: Role

  init(of certificate: Certificate, _ role: Role) {
    self.certificate = certificate
    self.role = role
  }

  /// X509_NAME*, borrowed from the certificate.
  package var handle: OpaquePointer? {
    switch role {
    case .subject: X509_get_subject_name(certificate.handle)
    case .issuer: X509_get_issuer_name(certificate.handle)
    }
  }

  /// nginx's $ssl_client_s_dn: RFC 2253, the last component first. Control characters are escaped.
  package var rfc2253: String { Self.rfc2253(handle) }

  /// Formats an X509_NAME outside a certificate as RFC 2253; empty for nil.
  package static func rfc2253(_ name: OpaquePointer?) -> String {
    guard let name else { return "" }
    return MemoryBIO.text { X509_NAME_print_ex($0, name, 0, copenssl_xn_flag_rfc2253()) }
  }

  /// nginx's $ssl_client_s_dn_legacy: `/C=SE/CN=name`.
  package var legacy: String {
    guard let line = X509_NAME_oneline(handle, nil, 0) else {
      OpenSSLError.discard()
      return ""
    }
    defer { copenssl_free(line) }
    return String(cString: line)
  }

  /// The name in the common name. Access rules, variables, enrolment and the check of upstream names all use this one
  /// reading.
  package var commonName: CommonNameReading { CommonNameReading(values(NID_commonName)) }
  /// UTF-8, in the order of the certificate. Values may hold any byte, even NUL, so compare all bytes.
  package var organizations: [[UInt8]] { values(NID_organizationName) }
  package var organizationalUnits: [[UInt8]] { values(NID_organizationalUnitName) }

  /// The number of attributes of any kind.
  package var count: Int { Int(max(0, X509_NAME_entry_count(handle))) }

  public var description: String { rfc2253 }

  private func values(_ attribute: CInt) -> [[UInt8]] { Self.values(attribute, of: handle) }

  /// Returns the values of an attribute of an X509_NAME, also outside a certificate.
  static func values(_ attribute: CInt, of handle: OpaquePointer?) -> [[UInt8]] {
    var values: [[UInt8]] = []
    var index = X509_NAME_get_index_by_NID(handle, attribute, -1)
    while index >= 0 {
      var text: UnsafeMutablePointer<UInt8>?
      let count = ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(handle, index)))
      if count >= 0 {
        values.append(Array(UnsafeBufferPointer(start: text, count: Int(count))))
        copenssl_free(text)
      } else {
        // Keeps a value that is not text as one that equals nothing, so that a rule sees that a value exists.
        OpenSSLError.discard()
        values.append([0])
      }
      index = X509_NAME_get_index_by_NID(handle, attribute, index)
    }
    return values
  }
}

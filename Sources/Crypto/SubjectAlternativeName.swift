import COpenSSL

/// One name of a certificate's subjectAltName extension, as raw bytes, which are never truncated at a NUL.
public struct SubjectAlternativeName: Sendable, Hashable, CustomStringConvertible {
  public enum Kind: Sendable, Hashable { case dns, uri, email, ip }

  public let kind: Kind
  /// The ASCII of a DNS name, URI or email address, unchanged; the 4 or 16 octets of an IP address.
  public let bytes: [UInt8]

  package init(kind: Kind, bytes: [UInt8]) {
    self.kind = kind
    self.bytes = bytes
  }

  /// False for a text with a control character (even NUL), and for an IP address of neither 4 nor 16 octets. Such a
  /// value must match no rule.
  public var isWellFormed: Bool {
    switch kind {
    case .ip: bytes.count == 4 || bytes.count == 16
    case .dns, .uri, .email: !bytes.contains { $0 < 0x20 || $0 == 0x7F }
    }
  }

  /// The text, or the IP address in its usual notation. Control characters appear as `\xHH`.
  public var description: String {
    switch kind {
    case .ip: Self.address(bytes)
    case .dns, .uri, .email: Self.escaped(bytes)
    }
  }
}

/// Every name of a certificate's subjectAltName of a kind that sallyport reads.
public struct SubjectAlternativeNames: Sendable, Hashable {
  /// In the order of the certificate.
  package let all: [SubjectAlternativeName]
  /// The certificate has the extension twice, or in a form that can't be read. A rule can't know its names, so none may
  /// let the client in.
  package let isMalformed: Bool

  package var dns: [SubjectAlternativeName] { all.filter { $0.kind == .dns } }
  package var uris: [SubjectAlternativeName] { all.filter { $0.kind == .uri } }
  package var emails: [SubjectAlternativeName] { all.filter { $0.kind == .email } }
  package var ips: [SubjectAlternativeName] { all.filter { $0.kind == .ip } }
}

extension Certificate {
  package var subjectAltNames: SubjectAlternativeNames {
    let absent: CInt = -1
    var critical = absent
    guard let extensionValue = X509_get_ext_d2i(handle, NID_subject_alt_name, &critical, nil) else {
      OpenSSLError.discard()
      return SubjectAlternativeNames(all: [], isMalformed: critical != absent)
    }
    let names = OpaquePointer(extensionValue)
    defer { GENERAL_NAMES_free(names) }
    return SubjectAlternativeNames(all: SubjectAlternativeName.all(of: names).names, isMalformed: false)
  }
}

extension SubjectAlternativeName {
  /// Returns the names of a GENERAL_NAMES of the kinds that sallyport reads, and how many are of other kinds.
  static func all(of names: OpaquePointer?) -> (names: [SubjectAlternativeName], others: Int) {
    var all: [SubjectAlternativeName] = []
    var others = 0
    for index in 0..<copenssl_sk_GENERAL_NAME_num(names) {
      guard let name = copenssl_sk_GENERAL_NAME_value(names, index),
        let kind = SubjectAlternativeName.Kind(generalName: copenssl_general_name_type(name)),
        let string = UnsafeRawPointer(copenssl_general_name_string(name))
      else {
        others += 1
        continue
      }
      let bytes = Array(UnsafeBufferPointer(start: copenssl_string_bytes(string), count: copenssl_string_count(string)))
      all.append(SubjectAlternativeName(kind: kind, bytes: bytes))
    }
    return (all, others)
  }
}

extension SubjectAlternativeName.Kind {
  fileprivate init?(generalName type: CInt) {
    switch type {
    case GEN_DNS: self = .dns
    case GEN_URI: self = .uri
    case GEN_EMAIL: self = .email
    case GEN_IPADD: self = .ip
    default: return nil
    }
  }
}

import Crypto
import Glibc

/// One certificate of an authority as `sallyport ca list` shows it.
package struct CertificateRecord: Sendable {
  package enum Status: String, Sendable { case valid, revoked, expired }

  package let serial: String
  /// RFC 2253; OpenSSL's one-line form where the certificate itself is not in certs/.
  package let subject: String
  package let commonNames: [[UInt8]]
  /// `DNS:localhost`, `URI:urn:device:phone`.
  package let alternativeNames: [String]
  /// Seconds since 1970; nil where the certificate itself is not in certs/.
  package let notBefore: Int64?
  package let notAfter: Int64
  package let status: Status
  package let revokedAt: Int64?
}

extension AuthorityStore {
  /// Every certificate, in the order of the index. `chosen`: those to look at, by their one-line subject.
  package func records(
    at now: Int64 = Int64(time(nil)), of index: AuthorityIndex? = nil,
    where chosen: (AuthorityIndex.Entry) -> Bool = { _ in true }
  ) throws(AuthorityError) -> [CertificateRecord] {
    let index = if let index { index } else { try self.index() }
    return index.entries.filter(chosen).map { record($0, at: now) }
  }

  /// The valid certificates of a common name.
  package func valid(
    _ name: String, in index: AuthorityIndex, at now: Int64 = Int64(time(nil))
  ) throws(AuthorityError) -> [CertificateRecord] {
    // Not all certificates are read for one name: the index has it in OpenSSL's spelling.
    let shown = name.utf8.map { byte in
      if (0x20...0x7E).contains(byte) { return String(Character(Unicode.Scalar(byte))) }
      let digits = String(byte, radix: 16, uppercase: true)
      return "\\x" + (digits.utf8.count == 1 ? "0" : "") + digits
    }.joined()
    let wanted = Array(name.utf8)
    return try records(at: now, of: index) { $0.subject.contains("/CN=\(shown)") }.filter {
      $0.status == .valid
        && ($0.commonNames.contains(wanted) || $0.commonNames.isEmpty && $0.subject.hasSuffix("/CN=\(shown)"))
    }
  }

  private func record(_ entry: AuthorityIndex.Entry, at now: Int64) -> CertificateRecord {
    let certificate = certificate(entry.serial)
    let (status, revokedAt): (CertificateRecord.Status, Int64?) =
      switch entry.state {
      case .revoked(let revocation): (.revoked, revocation.date)
      case .expired: (.expired, nil)
      case .valid: (entry.notAfter < now ? .expired : .valid, nil)
      }
    return CertificateRecord(
      serial: entry.serial, subject: certificate?.subject.rfc2253 ?? entry.subject,
      commonNames: certificate?.subject.commonNames ?? [],
      alternativeNames: certificate?.subjectAltNames.all.map { "\($0.kind.label):\($0)" } ?? [],
      notBefore: certificate?.notBefore, notAfter: entry.notAfter, status: status, revokedAt: revokedAt)
  }
}

extension SubjectAlternativeName.Kind {
  fileprivate var label: String {
    switch self {
    case .dns: "DNS"
    case .uri: "URI"
    case .email: "email"
    case .ip: "IP"
    }
  }
}

extension AuthorityStore {
  /// The serials that `ca revoke` means: a serial of the index, in either case and with colons too, or a common name.
  package func chosen(_ which: String, in index: AuthorityIndex) throws(AuthorityError) -> [String] {
    let serial = which.uppercased().filter { $0 != ":" }
    if index[serial: serial] != nil { return [serial] }
    let records = try valid(which, in: index)
    guard !records.isEmpty else {
      throw AuthorityError(
        "no certificate has the serial \(which), and none that is valid the name",
        hint: "`sallyport ca list \(folder.path)` shows what was issued")
    }
    return records.map(\.serial)
  }
}

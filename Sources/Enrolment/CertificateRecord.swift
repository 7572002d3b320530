import Bytes
package import Crypto
import Glibc

/// One certificate of an authority, as `sallyport ca list` shows it.
package struct CertificateRecord: Sendable {
  package enum Status: String, Sendable { case valid, revoked, expired }

  package let serial: String
  /// RFC 2253; OpenSSL's one-line form when the register does not have the certificate.
  package let subject: String
  package let commonName: CommonNameReading
  /// `DNS:localhost`, `URI:urn:device:phone`.
  package let alternativeNames: [String]
  /// Seconds since 1970; nil when the register does not have the certificate.
  package let notBefore: Int64?
  package let notAfter: Int64
  package let status: Status
  package let revokedAt: Int64?

  /// Returns the valid ones that end within these days, and have no successor with the same names.
  package static func ending(
    _ records: [CertificateRecord], within days: Int64, at now: Int64 = Int64(time(nil))
  ) -> [CertificateRecord] {
    let limit = now + days * 86_400
    let lasting = Set(
      records.filter { $0.status == .valid && $0.notAfter > limit }.map { [$0.subject] + $0.alternativeNames })
    return records.filter {
      $0.status == .valid && $0.notAfter <= limit && !lasting.contains([$0.subject] + $0.alternativeNames)
    }
  }
}

extension AuthorityStore {
  /// Returns every certificate in the order of the index. `chosen`: selects the entries to read.
  package func records(
    at now: Int64 = Int64(time(nil)), of index: AuthorityIndex? = nil,
    where chosen: (AuthorityIndex.Entry) -> Bool = { _ in true }
  ) throws(AuthorityError) -> [CertificateRecord] {
    let index = if let index { index } else { try self.index() }
    let entries = index.entries.filter(chosen)
    let certificates = try register.certificates(entries.map(\.serial))
    return entries.map { record($0, certificates[$0.serial], at: now) }
  }

  /// Returns the valid certificates that carry a common name, even besides others. Revocation and the count of a
  /// device's certificates must not miss any.
  package func valid(
    _ name: String, in index: AuthorityIndex, at now: Int64 = Int64(time(nil))
  ) throws(AuthorityError) -> [CertificateRecord] {
    let wanted = Array(name.utf8)
    return try records(at: now, of: index) { $0.state == .valid && $0.mayName(name) }.filter {
      $0.status == .valid && $0.commonName.all.contains(wanted)
    }
  }

  private func record(
    _ entry: AuthorityIndex.Entry, _ certificate: Certificate?, at now: Int64
  ) -> CertificateRecord {
    let (status, revokedAt): (CertificateRecord.Status, Int64?) =
      switch entry.state {
      case .revoked(let revocation): (.revoked, revocation.date)
      case .expired: (.expired, nil)
      case .valid: (entry.notAfter < now ? .expired : .valid, nil)
      }
    return CertificateRecord(
      serial: entry.serial, subject: certificate?.subject.rfc2253 ?? entry.subject,
      commonName: certificate?.subject.commonName ?? entry.commonName,
      alternativeNames: certificate?.subjectAltNames.all.map { "\($0.kind.label):\($0)" } ?? [],
      notBefore: certificate?.notBefore.seconds, notAfter: entry.notAfter, status: status, revokedAt: revokedAt)
  }
}

extension AuthorityIndex.Entry {
  /// Whether the certificate may carry a common name; false when it certainly has another, so that it need not be read.
  ///
  /// OpenSSL's one-line form escapes `/`, `+` and everything but printable ASCII, but not `\` itself. So a subject with
  /// a `\` is ambiguous, and the certificate decides.
  fileprivate func mayName(_ name: String) -> Bool {
    subject.utf8.contains(UInt8(ascii: "\\")) || subject.contains("CN=\(name)")
  }

  /// Every common name; nil when the one-line form is ambiguous and the certificate must be read.
  var certainCommonNames: [[UInt8]]? { subject.utf8.contains(UInt8(ascii: "\\")) ? nil : commonName.all }

  /// The common name of the one-line form, without its escapes. For certificates that are kept elsewhere.
  var commonName: CommonNameReading {
    var parts: [[UInt8]] = []
    var part: [UInt8] = []
    var rest = Array(subject.utf8)[...]
    while let byte = rest.popFirst() {
      switch (byte, rest.first) {
      case (UInt8(ascii: "/"), _), (UInt8(ascii: "+"), _):
        parts.append(part)
        part = []
      case (UInt8(ascii: "\\"), UInt8(ascii: "/")?), (UInt8(ascii: "\\"), UInt8(ascii: "+")?):
        part += rest.prefix(1)
        rest.removeFirst()
      case (UInt8(ascii: "\\"), UInt8(ascii: "x")?):
        let digits = rest.dropFirst().prefix(2).compactMap { ASCII.hexValue($0) }
        if digits.count == 2 {
          part.append(digits[0] << 4 | digits[1])
          rest = rest.dropFirst(3)
        } else {
          part.append(byte)
        }
      default: part.append(byte)
      }
    }
    let type = Array("CN=".utf8)
    return CommonNameReading((parts + [part]).filter { $0.starts(with: type) }.map { Array($0.dropFirst(type.count)) })
  }
}

extension SubjectAlternativeName.Kind {
  /// The prefix of the kind in lists of names.
  package var label: String {
    switch self {
    case .dns: "DNS"
    case .uri: "URI"
    case .email: "email"
    case .ip: "IP"
    }
  }
}

extension AuthorityStore {
  /// Returns the serials that an argument of `ca revoke` means: a serial of the index, in either case and with or
  /// without colons, or a common name.
  package func chosen(_ which: String, in index: AuthorityIndex) throws(AuthorityError) -> [String] {
    let serial = which.uppercased().filter { $0 != ":" }
    if index[serial: serial] != nil { return [serial] }
    let records = try valid(which, in: index)
    guard !records.isEmpty else {
      throw AuthorityError(
        "no certificate has the serial \(which), and no valid certificate has this name",
        hint: "`sallyport ca list \(folder.path)` shows what was issued")
    }
    return records.map(\.serial)
  }
}

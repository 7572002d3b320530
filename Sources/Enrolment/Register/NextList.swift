import Crypto

/// The CRL that follows another.
struct NextList {
  let number: Int
  let pem: String

  /// CRL numbers are below this limit, so that later CRLs have room to count on.
  static let numberLimit = 1 << 62

  /// `olds`: the current CRLs. Their revocations of certificates that the register does not know (`isKnown`) stay.
  /// `number`: the register's next one; it is raised above theirs, because no two CRLs may have the same.
  init(
    of revoked: [RevocationList.Entry], isKnown: (String) -> Bool, after olds: [RevocationList], number: Int,
    _ signer: CertifiedKey, _ days: Int64, _ folder: AuthorityFolder
  ) throws(AuthorityError) {
    var forgotten: [RevocationList.Entry] = []
    for entry in olds.flatMap(\.entries) where !isKnown(entry.serial) {
      if !forgotten.contains(where: { $0.serial == entry.serial }) { forgotten.append(entry) }
    }
    let former = olds.map(\.order).max() ?? 0
    guard former < Self.numberLimit else {
      throw AuthorityError(
        "\"\(folder.file("crl.pem"))\" has the number \(former), which leaves no room for the numbers of later lists",
        hint: "remove the file, and `sallyport ca crl \(folder.path)` makes it anew")
    }
    self.number = max(number, former + 1)
    var builder = RevocationListBuilder(entries: revoked + forgotten, number: self.number, days: days)
    // Not older than the previous CRL, which `openssl ca` may have made a moment ago: verification uses the newest.
    for old in olds where old.thisUpdate <= builder.thisUpdate + 3600 {
      builder.thisUpdate = max(builder.thisUpdate, old.thisUpdate)
    }
    do throws(OpenSSLError) { pem = try builder.pem(signedBy: signer) } catch {
      throw AuthorityError("the revocation list could not be signed", error)
    }
  }
}

extension RevocationList {
  /// The CRL's number; one that is too large for this is larger than all others.
  var order: Int { number.map { $0.value ?? .max } ?? 0 }
}

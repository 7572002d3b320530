package import Bytes
import COpenSSL

/// A revocation list that was fetched, as a file keeps it: where it came from, who signed it, and the list.
///
/// The file is PEM with some lines before it, so that `openssl crl -in FILE -text` reads it. A file that is damaged is no
/// file: it is fetched anew.
package struct FetchedList: Sendable {
  package let url: RevocationURL
  /// The entity tag of the response, quotes included; nil without one.
  package let tag: String?
  /// The CA that signed the list.
  package let issuer: Certificate
  package let list: RevocationList

  /// The largest size of a list in bytes, as DER: its file stays below `MaterialReference.sizeLimit`.
  package static let sizeLimit = 10 << 20
  /// The largest length of an entity tag that is kept, in bytes.
  package static let tagLimit = 256
  private static let heading = "sallyport-crl 1"

  package init(url: RevocationURL, tag: String?, issuer: Certificate, list: RevocationList) {
    self.url = url
    self.tag = tag.flatMap { Self.isTag($0) ? $0 : nil }
    self.issuer = issuer
    self.list = list
  }

  /// An entity tag that a line of the file and a request may repeat.
  private static func isTag(_ text: String) -> Bool {
    text.utf8.count <= tagLimit && text.hasSuffix("\"") && (text.hasPrefix("\"") || text.hasPrefix("W/\""))
      && text.utf8.allSatisfy { (0x21...0x7E).contains($0) }
  }

  /// The bytes of the file.
  package var text: String {
    let pem = MemoryBIO.text { PEM_write_bio_X509_CRL($0, list.handle) }
    return "\(Self.heading)\nurl \(url)\n" + (tag.map { "tag \($0)\n" } ?? "") + issuer.pem + pem
  }

  /// Returns nil when the file is damaged, or its list can't be used.
  package init?(_ bytes: SecretBytes) {
    let found: FetchedList? = bytes.withUnsafeBytes { raw in
      var lines = raw.prefix(4096).split(separator: 0x0A).prefix(3).map { String(decoding: $0, as: UTF8.self) }[...]
      guard lines.popFirst() == Self.heading, let second = lines.popFirst(), second.hasPrefix("url "),
        let url = RevocationURL(String(second.dropFirst(4))), let blocks = try? PEMBlock.all(in: raw),
        blocks.map(\.label) == ["CERTIFICATE", "X509 CRL"], let issuer = try? blocks[0].certificate(),
        let list = blocks[1].contents.withUnsafeBytes({ try? RevocationList(der: $0) }), list.isSigned(by: issuer)
      else { return nil }
      let tag = lines.first.flatMap { $0.hasPrefix("tag ") ? String($0.dropFirst(4)) : nil }
      return FetchedList(url: url, tag: tag, issuer: issuer, list: list)
    }
    OpenSSLError.discard()
    guard let found else { return nil }
    self = found
  }

  /// The name of the list's file in its folder. `isLearned`: a certificate named the URL, not the configuration.
  package static func name(_ url: RevocationURL, isLearned: Bool) -> String {
    (isLearned ? learnedPrefix : "") + Hex.encode(Array(Digest.of(Array(url.description.utf8)).prefix(16))) + suffix
  }

  /// Whether a file of the folder holds a list whose URL a certificate named.
  package static func isLearned(_ name: String) -> Bool { name.hasPrefix(learnedPrefix) && name.hasSuffix(suffix) }

  private static let learnedPrefix = "learned-"
  private static let suffix = ".crl"
}

extension FetchedList {
  /// What a server sent in place of a list, or with one that can't be taken: for the log.
  package struct Fault: Error, Sendable, Hashable, CustomStringConvertible {
    package let description: String
    package init(_ description: String) { self.description = description }
  }

  /// Judges the bytes that a server sent, DER or PEM, and returns the list if it may take the place of those held.
  ///
  /// `signers`: the only CAs that may have signed it. `held`: the lists in use until now. Never takes a list that is
  /// expired, from the future, of another CA, or older than a held one: who can replay an old list must not undo a revocation.
  package static func judge(
    _ body: [UInt8], of url: RevocationURL, tag: String?, signers: [Certificate], held: [RevocationList], now: Int64
  ) throws(Fault) -> FetchedList {
    let list = try list(in: body)
    // Whoever sends a list of nobody chooses how long the name is.
    let name = String(list.issuer.prefix(256))
    guard let issuer = list.signer(among: signers) else {
      throw Fault("the list of \(name) is not signed by a CA that it could be for")
    }
    guard !list.isExpired(at: now) else { throw Fault("the list of \(name) ended on \(list.nextUpdateText)") }
    guard list.thisUpdate <= now + RevocationList.tolerance else {
      throw Fault("the list of \(name) is from the future: this machine's clock, or the CA's, is wrong")
    }
    let others = held.filter { !$0.isExpired(at: now) && !$0.isOfIssuer(of: list) }
    guard others.isEmpty || held.contains(where: { $0.isOfIssuer(of: list) }) else {
      throw Fault("the list of \(name) is that of another CA than the one in use")
    }
    let former = held.filter { $0.sha256 != list.sha256 }
    let (_, kept) = RevocationList.taking([list], after: former, among: signers, now: now)
    guard !kept.contains(where: { $0.isOfIssuer(of: list) }),
      !former.contains(where: { list.isBehind($0, among: signers, now: now) })
    else {
      throw Fault("the list of \(name) is older than the one in use")
    }
    return FetchedList(url: url, tag: tag, issuer: issuer, list: list)
  }

  private static func list(in body: [UInt8]) throws(Fault) -> RevocationList {
    defer { OpenSSLError.discard() }
    do throws(CryptoError) {
      return try body.withBytes { (raw) throws(CryptoError) in
        let sequence: UInt8 = 0x30
        if raw.first == sequence { return try RevocationList(der: raw) }
        let blocks = try PEMBlock.all(in: raw)
        guard let block = blocks.first, blocks.count == 1, block.label == "X509 CRL" else {
          throw .absent(
            blocks.isEmpty ? "no revocation list: neither DER nor PEM" : "not one revocation list, but other PEM")
        }
        return try block.contents.withUnsafeBytes { (der) throws(CryptoError) in try RevocationList(der: der) }
      }
    } catch {
      throw Fault("it sent \(error)")
    }
  }
}

extension RevocationList {
  /// The certificate among these of the CA that signed the list, by name and key; nil if none of them is.
  package func signer(among authorities: [Certificate]) -> Certificate? {
    authorities.first {
      X509_NAME_cmp(X509_get_subject_name($0.handle), X509_CRL_get_issuer(handle)) == 0 && isSigned(by: $0)
    }
  }
}

extension Certificate {
  /// The most addresses of a certificate that are looked at.
  private static var pointLimit: Int { 8 }

  /// The `http` addresses at which the certificate's issuer publishes its whole list (cRLDistributionPoints, RFC 5280
  /// §4.2.1.13). Leaves out points that name another issuer of the list, or only some reasons.
  package var revocationURLs: [RevocationURL] {
    guard let value = X509_get_ext_d2i(handle, NID_crl_distribution_points, nil, nil) else {
      OpenSSLError.discard()
      return []
    }
    let points = OpaquePointer(value)
    defer { CRL_DIST_POINTS_free(points) }
    let names = (0..<min(Int(copenssl_sk_DIST_POINT_num(points)), Self.pointLimit)).flatMap { index in
      copenssl_dist_point_is_whole(points, CInt(clamping: index)) == 0
        ? [] : SubjectAlternativeName.all(of: copenssl_dist_point_names(points, CInt(clamping: index))).names
    }
    return names.prefix(Self.pointLimit).compactMap { $0.kind == .uri ? RevocationURL($0.description) : nil }
  }
}

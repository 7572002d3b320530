import Bytes
package import Crypto
import Glibc

/// A server's certificate of the authority whose time to be renewed has come.
package struct ServerRenewal: Sendable {
  /// The file that holds it, and that gets the successor.
  package let path: String
  package let old: Certificate
  fileprivate let renewal: CertificateRenewal

  /// Renews it with the same key, so that the file of the key stays, and returns the successor. The old certificate stays
  /// valid until its end.
  package func renew(by authority: LocalAuthority) throws(AuthorityError) -> Certificate {
    let successor = try authority.sign(renewal.profile, for: old.publicKey)
    var files = IssuedFiles()
    let text = SecretBytes(Array(authority.pem(of: successor).utf8))
    try files.stage(text, as: path, mode: 0o644, replacing: .file)
    try authority.register(successor)
    try files.publish()
    return successor
  }
}

extension LocalAuthority {
  /// Returns the servers' certificates in a folder that end within `days`, or in the last third of a shorter life.
  ///
  /// `folder`: it may be another user's, in which root works. So a link is left out, and a certificate counts only if the
  /// register has it as valid. What no `ca renew` would renew is told to `leftOut`.
  package func endingServers(
    in folder: String, within days: Int64, at now: Int64 = Int64(time(nil)),
    leftOut: (_ path: String, AuthorityError) -> Void
  ) throws(AuthorityError) -> [ServerRenewal] {
    let index = try store.index()
    var found: [ServerRenewal] = []
    for path in try Self.certificateFiles(in: folder) {
      guard let old = (try? Certificate.loadAll(MaterialReference(path: path)))?.first, store.certificate.issued(old),
        index[serial: old.serial]?.state == .valid, try store.certificate(old.serial) == old,
        old.usage.purposes == ["serverAuth"], Self.isDue(old, within: days, at: now)
      else { continue }
      do throws(AuthorityError) {
        let renewal = try CertificateRenewal(old.serial, in: store, folder: folder)
        guard renewal.certificatePath == path else {
          throw AuthorityError(
            "\"\(path)\" is not named \(renewal.profile.name).crt, so it is not replaced",
            hint: "renew it: `sallyport ca renew`")
        }
        found.append(ServerRenewal(path: path, old: old, renewal: renewal))
      } catch {
        leftOut(path, error)
      }
    }
    return found
  }

  /// The certificate of the past isn't due: nobody uses it, or somebody would have seen it.
  private static func isDue(_ certificate: Certificate, within days: Int64, at now: Int64) -> Bool {
    guard case .at(let begin) = certificate.notBefore, case .at(let end) = certificate.notAfter else { return false }
    return end - now <= min(days * 86_400, (end - begin) / 3)
  }

  /// The regular files NAME.crt, sorted.
  private static func certificateFiles(in folder: String) throws(AuthorityError) -> [String] {
    guard let directory = opendir(folder) else { throw .system("opendir", folder) }
    defer { closedir(directory) }
    var paths: [String] = []
    while let entry = readdir(directory) {
      let name = withUnsafePointer(to: &entry.pointee.d_name) {
        $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
      }
      var status = stat()
      guard name.hasSuffix(".crt"), !name.hasPrefix("."), lstat("\(folder)/\(name)", &status) == 0,
        status.st_mode & S_IFMT == S_IFREG
      else { continue }
      paths.append("\(folder)/\(name)")
    }
    return paths.sorted()
  }
}

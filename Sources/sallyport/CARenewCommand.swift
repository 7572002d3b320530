import ArgumentParser
import Bytes
import Crypto
import Enrolment
import Observability

struct CARenewCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "renew", abstract: "Issue the successor of a certificate, with the same names and purpose.",
    discussion: """
      The successor has the key of the old certificate, so its owner keeps NAME.key; --new-key makes a new one. The old \
      certificate stays valid until its end, unless --revoke-old is given. The command replaces NAME.crt, if that is the \
      old certificate. --ca renews the authority's own certificate with the same key: everything that it issued stays \
      valid, and clients need the new ca.crt before the old one ends.
      """
  ).example("sallyport ca renew /etc/sallyport/ca alice --days 90")

  @OptionGroup var argument: AuthorityArgument
  @Argument(help: "A serial as `ca list` shows it, or a common name.")
  var which: String?
  @Flag(help: "Renew the authority's own certificate.")
  var ca = false
  @Flag(help: "Make a new key: NAME.key.")
  var newKey = false
  @Option(help: "The kind of a new key. The default is that of the old key.")
  var key: KeyChoice?
  @Flag(help: "Revoke the old certificate.")
  var revokeOld = false
  @Option(help: "The number of days that the certificate is valid; for a server, at most the default.")
  var days: Int64?
  @Option(help: "The folder of NAME.crt and NAME.key.")
  var out = "."
  @OptionGroup var password: AuthorityPassword

  func validate() throws {
    try CATool.check(days: days)
    guard (which == nil) == ca else { throw ValidationError("give a serial or common name, or --ca") }
    if ca, newKey || key != nil || revokeOld || days != nil {
      throw ValidationError("--ca keeps the key and takes no other option")
    }
    try key?.checkForTLS()
    if key != nil, !newKey { throw ValidationError("--key is for a new key: --new-key") }
  }

  func run() throws {
    try CATool.run { () throws(AuthorityError) in
      let authority = try password.authority(of: argument)
      if let which { try renew(which, authority) } else { try renewAuthority(authority) }
    }
  }

  private func renewAuthority(_ authority: LocalAuthority) throws(AuthorityError) {
    let certificate = try LocalAuthority.renewed(authority)
    print("\(authority.store.folder.path)/ca.crt: \(certificate.subject), serial \(certificate.serial)")
    print("valid until \(AuthorityTime.rfc3339(certificate.notAfter))")
    print(
      "the old one was valid until \(AuthorityTime.rfc3339(authority.store.certificate.notAfter)): by then, give the new ca.crt to"
    )
    print("everything that trusts the old one, and reload servers that name it in ssl_client_certificate")
  }

  private func renew(_ which: String, _ authority: LocalAuthority) throws(AuthorityError) {
    let renewal = try CertificateRenewal(
      which, in: authority.store, folder: out, key: key?.kind, days: days)
    let (certificatePath, keyPath) = (renewal.certificatePath, renewal.keyPath)
    if let (old, successor) = renewal.interruption {
      print("an earlier renewal wrote \(keyPath) and ended before it wrote \(certificatePath): this completes it")
      var files = IssuedFiles()
      try stage(successor, as: certificatePath, in: &files, authority)
      try files.publish()
      return try finish(old, successor, at: certificatePath, authority)
    }
    if let objection = renewal.objection(toReplacing: certificatePath, isKey: false) { throw objection }
    if newKey, let objection = renewal.objection(toReplacing: keyPath, isKey: true) { throw objection }

    var files = IssuedFiles()
    let issued: Certificate
    if newKey {
      let pair = try authority.sign(renewal.profile)
      issued = pair.certificate
      try files.stage(CATool.pem(of: pair.key), as: keyPath, mode: 0o600, replacing: .fileOfLink)
    } else {
      issued = try authority.sign(renewal.profile, for: renewal.old.publicKey)
    }
    try stage(issued, as: certificatePath, in: &files, authority)
    try authority.register(issued)
    try CATool.publish(files, issued, authority)
    try finish(renewal.old, issued, at: certificatePath, authority)
  }

  private func stage(
    _ certificate: Certificate, as path: String, in files: inout IssuedFiles, _ authority: LocalAuthority
  ) throws(AuthorityError) {
    let text = SecretBytes(Array(authority.pem(of: certificate).utf8))
    try files.stage(text, as: path, mode: 0o644, replacing: .fileOfLink)
  }

  private func finish(
    _ old: Certificate, _ successor: Certificate, at path: String, _ authority: LocalAuthority
  ) throws(AuthorityError) {
    if revokeOld { _ = try authority.store.revoke(signer: authority.signer) { _ in [old.serial] } }
    print("\(path): \(successor.subject), serial \(successor.serial)")
    print("valid until \(AuthorityTime.rfc3339(successor.notAfter))")
    print(
      revokeOld
        ? "revoked \(old.serial)" : "\(old.serial) stays valid until \(AuthorityTime.rfc3339(old.notAfter))")
  }
}

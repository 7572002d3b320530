import ArgumentParser
import Bytes
import Crypto
import Enrolment
import Glibc
import Observability

struct CAIssueCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "issue", abstract: "Issue a certificate with a new key: NAME.crt and NAME.key.",
    discussion: """
      A client's is for clientAuth and lasts 365 days. A server's is for serverAuth and lasts as long as platforms take \
      it: the CA/Browser Forum's limit of the day, now \(CertificateProfile.serverDays(at: Int64(time(nil)))) days.
      """)

  @OptionGroup var argument: AuthorityArgument
  @Option(help: ArgumentHelp("A client's certificate of this common name.", valueName: "name"))
  var client: String?
  @Option(help: ArgumentHelp("A server's certificate of this common name.", valueName: "name"))
  var server: String?
  @Option(help: "What it is for: DNS:…,IP:…,URI:…,email:… A server's default is its name.")
  var san: String?
  @Option(help: "The folder for NAME.crt and NAME.key.")
  var out = "."
  @Option(name: .customLong("p12"), help: "Write a PKCS#12 too, with the CA's certificate in it.")
  var bundle: String?
  @Option(help: "The pass phrase of the PKCS#12: the first line of this file.")
  var passwordFile: String?
  @Flag(help: "RC2 and 3DES in the PKCS#12, for devices that know nothing else.")
  var legacy = false
  @Option(help: "The kind of the key.")
  var key = KeyChoice.p256
  @Option(help: "How many days it lasts; never more than the default of a server's.")
  var days: Int64?
  @OptionGroup var password: AuthorityPassword

  func validate() throws {
    guard (client == nil) != (server == nil) else {
      throw ValidationError("say whose certificate: --client NAME or --server NAME")
    }
    if bundle != nil, passwordFile == nil {
      throw ValidationError("--p12 needs a pass phrase: --password-file FILE")
    }
    if bundle == nil, passwordFile != nil || legacy {
      throw ValidationError("--password-file and --legacy are for a PKCS#12: --p12 FILE")
    }
  }

  func run() throws {
    try CATool.run { () throws(AuthorityError) in
      let names: [CertificateBuilder.AlternativeName] =
        if let san { try CertificateBuilder.AlternativeName.list(san) } else { [] }
      let name = try CommonName(client ?? server ?? "")
      let profile = try CertificateProfile(
        client == nil ? .server : .client, name, names: names, key: key.kind, days: days)
      let phrase: SecretBytes? = if let passwordFile { try CATool.passwords(passwordFile).first } else { nil }

      let authority = try password.authority(of: argument)
      let issued = try authority.sign(profile)
      var files = IssuedFiles()
      try files.stage(SecretBytes(Array(issued.certificate.pem.utf8)), as: "\(out)/\(name).crt", mode: 0o644)
      try files.stage(pem(of: issued.key), as: "\(out)/\(name).key", mode: 0o600)
      if let bundle, let phrase {
        let file = try authority.bundle(
          issued, name: name.text, password: phrase, strength: legacy ? .legacy : .modern)
        try files.stage(file, as: bundle, mode: 0o600)
      }
      try authority.register(issued)
      try publish(files, issued, authority)

      print("\(out)/\(name).crt: \(issued.certificate.subject), serial \(issued.certificate.serial)")
      print("valid until \(AuthorityTime.rfc3339(issued.certificate.notAfter))")
    }
  }

  private func pem(of key: PrivateKey) throws(AuthorityError) -> SecretBytes {
    do throws(OpenSSLError) { return try key.pem } catch { throw AuthorityError("the key can't be written: \(error)") }
  }

  /// A certificate that reached nobody is revoked again.
  private func publish(
    _ files: consuming IssuedFiles, _ issued: CertifiedKey, _ authority: LocalAuthority
  ) throws(AuthorityError) {
    do throws(AuthorityError) { try files.publish() } catch {
      _ = try? authority.store.revoke(signer: authority.signer) { _ in [issued.certificate.serial] }
      throw error
    }
  }
}

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
      A client certificate is for clientAuth and valid for 365 days. A server certificate is for serverAuth and valid for \
      the CA/Browser Forum's limit, today \(CertificateProfile.serverDays(at: Int64(time(nil)))) days.
      """
  ).example("sallyport ca issue /etc/sallyport/ca --client alice --out certificates")

  @OptionGroup var argument: AuthorityArgument
  @Option(help: ArgumentHelp("Issue a client certificate with this common name.", valueName: "name"))
  var client: String?
  @Option(help: ArgumentHelp("Issue a server certificate with this common name.", valueName: "name"))
  var server: String?
  @Option(help: "Subject alternative names: DNS:…,IP:…,URI:…,email:… The default for a server is its common name.")
  var san: String?
  @Option(help: "The folder for NAME.crt and NAME.key.")
  var out = "."
  @Option(name: .customLong("p12"), help: "Also write a PKCS#12 file, with the CA's certificate.")
  var bundle: String?
  @Option(help: "A file whose first line is the pass phrase of the PKCS#12.")
  var passwordFile: String?
  @Flag(help: "Encrypt the PKCS#12 with RC2 and 3DES, for devices that support nothing else.")
  var legacy = false
  @Option(help: "The kind of the key.")
  var key = KeyChoice.p256
  @Option(help: "The number of days that the certificate is valid; for a server, at most the default.")
  var days: Int64?
  @OptionGroup var password: AuthorityPassword

  func validate() throws {
    try CATool.check(days: days)
    try key.checkForTLS()
    guard (client == nil) != (server == nil) else {
      throw ValidationError("give --client NAME or --server NAME")
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
        if let san { try CATool.alternativeNames(san) } else { [] }
      let name = try CATool.name(client ?? server ?? "", of: client == nil ? "--server" : "--client")
      let profile = try CertificateProfile(
        client == nil ? .server : .client, name, names: names, key: key.kind, days: days)
      let phrase: SecretBytes? =
        if let passwordFile { try CATool.passwords(passwordFile, of: "--password-file").first } else { nil }

      let authority = try password.authority(of: argument)
      let issued = try authority.sign(profile)
      var files = IssuedFiles()
      try files.stage(
        SecretBytes(Array(authority.pem(of: issued.certificate).utf8)), as: "\(out)/\(name).crt", mode: 0o644)
      try files.stage(CATool.pem(of: issued.key), as: "\(out)/\(name).key", mode: 0o600)
      if let bundle, let phrase {
        let file = try authority.bundle(
          issued, name: name.text, password: phrase, strength: legacy ? .legacy : .modern)
        try files.stage(file, as: bundle, mode: 0o600)
      }
      try authority.register(issued)
      try CATool.publish(files, issued.certificate, authority)

      print("\(out)/\(name).crt: \(issued.certificate.subject), serial \(issued.certificate.serial)")
      print("valid until \(AuthorityTime.rfc3339(issued.certificate.notAfter))")
    }
  }
}

extension CATool {
  static func pem(of key: PrivateKey) throws(AuthorityError) -> SecretBytes {
    do throws(OpenSSLError) { return try key.pem } catch { throw AuthorityError("the key can't be written: \(error)") }
  }
}

import ArgumentParser
import Bytes
import Crypto
import Enrolment
import Glibc
import Observability

struct CASignCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "sign", abstract: "Sign a certificate signing request (CSR): the private key stays with its owner.",
    discussion: """
      The command checks that the request is signed by its own key, and that the key is strong: RSA of 2048 bits or \
      more, ECDSA P-256, P-384 or P-521, Ed25519, or ML-DSA. It takes the common name and the alternative names of the request, \
      unless --name or --san replace them, and nothing else: no extension, no organization. It prints the names first, \
      and at a terminal it asks before it signs. Anybody can write any name into a request, so read them.
      """
  ).example("sallyport ca sign /etc/sallyport/ca alice.csr --profile client")

  @OptionGroup var argument: AuthorityArgument
  @Argument(help: "The request as PEM or DER, or - for standard input.")
  var request: String
  @Option(help: "What the certificate is for: client or server.")
  var profile = RoleChoice.client
  @Option(help: "The common name, in place of the request's.")
  var name: String?
  @Option(help: "Subject alternative names, in place of the request's: DNS:…,IP:…,URI:…,email:…")
  var san: String?
  @Flag(help: "Take no alternative name of the request.")
  var noSan = false
  @Option(help: "The number of days that the certificate is valid; for a server, at most the default.")
  var days: Int64?
  @Option(help: "The new certificate's file. The default is NAME.crt in the working directory.")
  var out: String?
  @Flag(help: "Don't ask at a terminal.")
  var yes = false
  @OptionGroup var password: AuthorityPassword

  func validate() throws {
    try CATool.check(days: days)
    if noSan, san != nil { throw ValidationError("give --san or --no-san, not both") }
  }

  func run() throws {
    try CATool.run { () throws(AuthorityError) in
      let wanted = try wanted()
      let authority = try password.authority(of: argument)
      guard try isConfirmed(wanted) else { throw AuthorityError("nothing was signed") }
      let issued = try authority.sign(wanted.profile, for: wanted.key)
      let path = out ?? "\(wanted.profile.name).crt"
      var files = IssuedFiles()
      try files.stage(SecretBytes(Array(authority.pem(of: issued).utf8)), as: path, mode: 0o644)
      try authority.register(issued)
      try CATool.publish(files, issued, authority)
      print("\(path): \(issued.subject), serial \(issued.serial)")
      print("valid until \(AuthorityTime.rfc3339(issued.notAfter))")
    }
  }

  private func wanted() throws(AuthorityError) -> RequestedCertificate {
    let file: SigningRequest
    do throws(MaterialError) { file = try SigningRequest.load(CATool.reference(request)) } catch {
      throw AuthorityError(
        error.message, hint: error.hint ?? "the owner makes one: openssl req -new -newkey … -keyout KEY -out CSR")
    }
    var names: [CertificateBuilder.AlternativeName]? = noSan ? [] : nil
    if let san { names = try CATool.alternativeNames(san) }
    let chosen: CommonName? = if let name { try CATool.name(name, of: "--name") } else { nil }
    return try RequestedCertificate(file, profile.role, name: chosen, names: names, days: days)
  }

  /// Shows what will be signed. At a terminal, the answer must be yes.
  private func isConfirmed(_ wanted: RequestedCertificate) throws(AuthorityError) -> Bool {
    var lines = ["common name  \(wanted.profile.name)"]
    let names = wanted.profile.names.map(\.spelling)
    lines.append("names        \(names.isEmpty ? "none" : names.joined(separator: " "))")
    lines.append("for          a \(profile.rawValue)")
    lines.append("key          \(wanted.key.kind), pin \(Pin.spelling(publicKeyDigest: wanted.key.sha256))")
    for thing in wanted.leftOut { lines.append("left out     \(thing)") }
    for line in lines { LogFile.standardError.write(string: InspectionPage.visible(line) + "\n") }
    guard !yes, isatty(STDIN_FILENO) == 1 else { return true }
    LogFile.standardError.write(string: "sign it? [y/N] ")
    return ["y", "yes"].contains((readLine() ?? "").lowercased())
  }
}

/// What a certificate is for.
enum RoleChoice: String, ExpressibleByArgument, CaseIterable {
  case client, server

  var role: CertificateProfile.Role { self == .client ? .client : .server }
}

extension CATool {
  /// Publishes the files, or revokes the certificate if that fails, because nobody has received it.
  static func publish(
    _ files: consuming IssuedFiles, _ issued: Certificate, _ authority: LocalAuthority
  ) throws(AuthorityError) {
    do throws(AuthorityError) { try files.publish() } catch {
      _ = try? authority.store.revoke(signer: authority.signer) { _ in [issued.serial] }
      throw error
    }
  }
}

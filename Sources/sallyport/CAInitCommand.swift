import ArgumentParser
import Bytes
import Crypto
import Enrolment

struct CAInitCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "init", abstract: "Create an authority in a folder that is empty or doesn't exist.",
    discussion: """
      For two levels, first make a root with --root, then an authority with --intermediate-of ROOT. The intermediate \
      issues certificates from day to day, and the root's folder can be kept offline. The root's key is needed again \
      only for another intermediate and for the root's revocation list.
      """
  ).example("sallyport ca init /etc/sallyport/ca --name 'Example CA'")

  @OptionGroup var argument: AuthorityArgument
  @Option(help: "The common name of the CA's certificate. The default is \"sallyport CA\".")
  var name: String?
  @Option(help: "The kind of the CA's key.")
  var key = KeyChoice.p256
  @Option(help: "Encrypt the CA's key with the first pass phrase in this file.")
  var caPasswordFile: String?
  @Flag(help: "Create a root, which can sign intermediates.")
  var root = false
  @Option(help: ArgumentHelp("Create an intermediate, signed by the root in this folder.", valueName: "root"))
  var intermediateOf: String?
  @Option(help: "A file with pass phrases for the root's key, one on each line.")
  var rootPasswordFile: String?
  @Option(
    help: ArgumentHelp(
      "Keep the register in this PostgreSQL database, for several machines: postgresql://USER@HOST/DATABASE.",
      valueName: "uri"))
  var store: String?

  func validate() throws {
    if root, intermediateOf != nil { throw ValidationError("give --root or --intermediate-of, not both") }
    if rootPasswordFile != nil, intermediateOf == nil {
      throw ValidationError("--root-password-file is for --intermediate-of")
    }
  }

  func run() throws {
    try CATool.run { () throws(AuthorityError) in
      let password: SecretBytes? =
        if let caPasswordFile { try CATool.passwords(caPasswordFile, of: "--ca-password-file").first } else { nil }
      let place = try place()
      let store = try AuthorityStore.create(
        in: argument.dir,
        name: CATool.name(
          name ?? (intermediateOf == nil ? "sallyport CA" : "sallyport intermediate CA"), of: "--name"), key: key.kind,
        password: password, place: place, database: store)
      let folder = store.folder.path
      print("\(folder)/ca.crt: \(store.certificate.subject)")
      print("valid until \(AuthorityTime.rfc3339(store.certificate.notAfter))")
      if case .below(let parent) = place { printChain(folder, root: parent.store.folder.path) }
    }
  }

  private func place() throws(AuthorityError) -> AuthorityPlace {
    guard let intermediateOf else { return root ? .root : .alone }
    var passwords: [SecretBytes] = []
    if let rootPasswordFile { passwords = try CATool.passwords(rootPasswordFile, of: "--root-password-file") }
    do throws(AuthorityError) {
      return .below(try LocalAuthority(AuthorityStore(intermediateOf), passwords: passwords))
    } catch {
      throw error.hint?.contains("--password-file") == true
        ? AuthorityError(error.message, hint: "name a file with the root's pass phrase: --root-password-file FILE")
        : error
    }
  }

  private func printChain(_ folder: String, root: String) {
    print(
      """
      clients and servers trust the root alone: \(folder)/root.crt
      ssl_client_certificate takes both certificates: \(folder)/ca.crt
      ssl_crl takes the lists of both levels in one file: cat \(folder)/crl.pem \(root)/crl.pem
      """)
  }
}

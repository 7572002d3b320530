import ArgumentParser
import Bytes
import Crypto
import Enrolment
import Observability

struct CACommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "ca",
    abstract: "Run a certificate authority in a folder: issue, revoke and list certificates.",
    discussion: """
      The folder has the layout of `openssl ca` and contains an openssl.cnf for it. Every change is atomic and locks the \
      file `lock`. To use the same lock with openssl, run `flock DIR/lock openssl ca …`.
      """,
    subcommands: [
      CAInitCommand.self, CAIssueCommand.self, CARevokeCommand.self, CAListOfRevokedCommand.self, CAListCommand.self,
      CASignCommand.self, CARenewCommand.self, CAUpkeepCommand.self, CAMigrateCommand.self, CAInspectCommand.self,
    ]
  ).example("sallyport ca init /etc/sallyport/ca")
}

/// The authority that a command uses.
struct AuthorityArgument: ParsableArguments {
  @Argument(help: "The authority's folder.")
  var dir: String

  func store() throws(AuthorityError) -> AuthorityStore { try AuthorityStore(dir) }
}

/// The password file for the CA's key.
struct AuthorityPassword: ParsableArguments {
  @Option(help: "A file with pass phrases for the authority's key, one on each line.")
  var caPasswordFile: String?

  func passwords() throws(AuthorityError) -> [SecretBytes] {
    guard let caPasswordFile else { return [] }
    return try CATool.passwords(caPasswordFile, of: "--ca-password-file")
  }

  func authority(of argument: AuthorityArgument) throws(AuthorityError) -> LocalAuthority {
    do throws(AuthorityError) {
      return try LocalAuthority(argument.store(), passwords: passwords())
    } catch {
      let isAsked = error.hint?.contains("--password-file") == true
      throw isAsked
        ? AuthorityError(error.message, hint: "name a file with the pass phrase: --ca-password-file FILE") : error
    }
  }
}

/// The kinds of new keys.
struct KeyChoice: ExpressibleByArgument {
  let kind: PrivateKey.Kind

  static let p256 = KeyChoice(kind: .p256)

  /// `--key p256`, and the post-quantum ones by OpenSSL's names in any case: `ml-dsa-65`.
  private static let choices: [(name: String, kind: PrivateKey.Kind)] =
    [
      ("p256", .p256), ("rsa2048", .rsa(bits: 2048)), ("rsa3072", .rsa(bits: 3072)), ("rsa4096", .rsa(bits: 4096)),
    ] + PostQuantumSignature.allCases.map { ($0.rawValue.lowercased(), .postQuantum($0)) }

  init(kind: PrivateKey.Kind) { self.kind = kind }

  init?(argument: String) {
    guard let choice = Self.choices.first(where: { $0.name == argument.lowercased() }) else { return nil }
    kind = choice.kind
  }

  var defaultValueDescription: String { Self.choices.first { $0.kind == kind }?.name ?? "" }
  static var allValueStrings: [String] { choices.map(\.name) }

  /// Refuses a kind whose keys sign certificates, but no handshakes.
  func checkForTLS() throws {
    guard case .postQuantum(let algorithm) = kind, !algorithm.isOfTLS else { return }
    throw ValidationError(
      "--key \(algorithm.rawValue.lowercased()): TLS has no signatures of SLH-DSA, so it is only for the key of a CA")
  }
}

/// Code that the commands of `ca` share.
enum CATool {
  /// Runs a command's body. An error goes to stderr, and the exit status is 1.
  static func run(_ body: () throws(AuthorityError) -> Void) throws {
    do throws(AuthorityError) { try body() } catch {
      LogFile.tell("error: \(error)", level: 3)
      throw ExitCode.failure
    }
  }

  static func passwords(_ file: String, of option: String) throws(AuthorityError) -> [SecretBytes] {
    try value(of: option) { () throws(AuthorityError) in
      do throws(MaterialError) { return try PasswordFile.load(MaterialReference(path: file)) } catch {
        throw AuthorityError(error.message, hint: error.hint)
      }
    }
  }

  /// Reads the value of an option. An error, which begins with the value, is told with the option in front.
  static func value<Value>(
    of option: String, _ read: () throws(AuthorityError) -> Value
  ) throws(AuthorityError) -> Value {
    do throws(AuthorityError) { return try read() } catch {
      throw AuthorityError("\(option) \(error.message)", hint: error.hint)
    }
  }

  static func name(_ text: String, of option: String) throws(AuthorityError) -> CommonName {
    try value(of: option) { () throws(AuthorityError) in try CommonName(text) }
  }

  static func alternativeNames(_ text: String) throws(AuthorityError) -> [CertificateBuilder.AlternativeName] {
    try value(of: "--san") { () throws(AuthorityError) in try CertificateBuilder.AlternativeName.list(text) }
  }

  /// The days that a certificate may be valid; a server's has a lower limit, which its profile knows.
  static func check(days: Int64?) throws {
    guard let days, !(1...AuthorityStore.authorityDays).contains(days) else { return }
    throw ValidationError("--days \(days): expected 1 to \(AuthorityStore.authorityDays)")
  }
}

struct CARevokeCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "revoke", abstract: "Revoke a certificate, and renew the revocation list.",
    discussion: "If you give a name, the command revokes every valid certificate with this name."
  ).example("sallyport ca revoke /etc/sallyport/ca alice")

  @OptionGroup var argument: AuthorityArgument
  @Argument(help: "A serial as `ca list` shows it, or a common name.")
  var which: String
  @OptionGroup var password: AuthorityPassword

  func run() throws {
    try CATool.run { () throws(AuthorityError) in
      let authority = try password.authority(of: argument)
      let revoked = try authority.store.revoke(signer: authority.signer) { (index) throws(AuthorityError) in
        try authority.store.chosen(which, in: index)
      }
      for serial in revoked { print("revoked \(serial)") }
      if revoked.isEmpty { print("\(which) is already revoked") }
    }
  }
}

struct CAListOfRevokedCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "crl", abstract: "Renew the revocation list, crl.pem.",
    discussion:
      "When the list expires, sallyport refuses every client of the CA. `ca upkeep` renews it in time, by a timer."
  ).example("sallyport ca crl /etc/sallyport/ca --days 30")

  @OptionGroup var argument: AuthorityArgument
  @Option(help: "The number of days that the list is valid.")
  var days = AuthorityStore.listDays
  @Flag(help: "Renew nothing: bring crl.pem up to what other machines have revoked in the database of the register.")
  var fetch = false
  @OptionGroup var password: AuthorityPassword

  func validate() throws {
    guard (1...3650).contains(days) else { throw ValidationError("--days \(days): expected 1 to 3650") }
  }

  func run() throws {
    try CATool.run { () throws(AuthorityError) in
      if fetch {
        let store = try argument.store()
        let isNew = try store.fetchList()
        return print("\(store.folder.path)/crl.pem: \(isNew ? "fetched" : "is up to date")")
      }
      let authority = try password.authority(of: argument)
      try authority.store.renewList(signer: authority.signer, days: days)
      print("\(authority.store.folder.path)/crl.pem: \(try authority.store.index().revoked.count) revoked")
    }
  }
}

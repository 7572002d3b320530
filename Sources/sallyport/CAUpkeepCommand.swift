import ArgumentParser
import Bytes
import Crypto
import Enrolment
import Glibc
import Language
import Observability

/// For sallyport-ca.service, which sallyport-ca.timer starts.
struct CAUpkeepCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "upkeep", abstract: "Renew what ends soon, and warn of what its owner must renew.",
    discussion: """
      Run it every few hours, as sallyport-ca.timer does, or with --every in a container. It renews crl.pem in the last third of its validity. With --out, it \
      also renews the certificates NAME.crt of servers in that folder, with the keys that they have. It warns on stderr of \
      the authority's own certificate half a year before its end, and of other certificates that end within --days days and \
      have no successor: their owners have the keys (`ca renew`). A warning doesn't change the exit status.
      """
  ).example("sallyport ca upkeep /etc/sallyport/ca --out /etc/sallyport/tls --every 6h")

  @OptionGroup var argument: AuthorityArgument
  @Option(help: "A folder with certificates of servers, which are renewed there.")
  var out: String?
  @Option(help: "How many days before its end a certificate is renewed, or warned of: 1 to 365.")
  var days: Int64 = 30
  @Option(help: "A file that gets a copy of crl.pem, for a server that doesn't see the folder of the authority's key.")
  var crl: String?
  @Option(help: "Stay, and repeat it after this time, such as 6h or 1m. Then only what changes is printed.")
  var every: String?
  @OptionGroup var password: AuthorityPassword

  /// The authority's own certificate has to reach everybody who trusts it.
  private static let authorityDays: Int64 = 180
  /// With `--every`, what only its owner can renew is told once a day.
  private static let secondsBetweenWarnings: UInt32 = 86_400

  func validate() throws {
    guard (1...365).contains(days) else { throw ValidationError("--days \(days): expected 1 to 365") }
    if let every, pause == nil { throw ValidationError("--every \(every): expected a time from 1s to 10d, such as 6h") }
  }

  /// Seconds.
  private var pause: UInt32? {
    every.flatMap { Quantity.seconds($0) }.flatMap { (1...864_000).contains($0) ? UInt32(exactly: $0) : nil }
  }

  func run() throws {
    guard let pause else { return try keepUp(warns: true) }
    // The first process of a container ends by no signal that it doesn't handle.
    for number in [SIGTERM, SIGINT, SIGQUIT] { signal(number) { _ in _exit(0) } }
    var secondsUntilWarnings: UInt32 = 0
    while true {
      // What failed was told, and may succeed the next time.
      try? keepUp(warns: secondsUntilWarnings == 0)
      fflush(nil)
      secondsUntilWarnings = secondsUntilWarnings == 0 ? Self.secondsBetweenWarnings : secondsUntilWarnings
      secondsUntilWarnings -= min(pause, secondsUntilWarnings)
      sleep(pause)
    }
  }

  private func keepUp(warns: Bool) throws {
    var isWhole = true
    try CATool.run { () throws(AuthorityError) in
      let authority = try password.authority(of: argument)
      let list = "\(authority.store.folder.path)/crl.pem"
      if let end = try authority.store.keepUp(signer: authority.signer, at: Int64(time(nil))) {
        print("\(list): renewed, valid until \(AuthorityTime.rfc3339(end))")
      } else if every == nil {
        print("\(list): need not be renewed yet")
      }
      try copyList(of: authority.store)
      isWhole = try renewServers(authority)
      if warns { try warn(authority.store) }
    }
    if !isWhole { throw ExitCode.failure }
  }

  private func copyList(of store: AuthorityStore) throws(AuthorityError) {
    guard let crl, let list = try store.folder.read("crl.pem") else { return }
    if case .success(let former) = SourceFiles.disk.read(crl, list.count), former == list { return }
    var files = IssuedFiles()
    try files.stage(SecretBytes(list), as: crl, mode: 0o644, replacing: .file)
    try files.publish()
    print("\(crl): the list is written")
  }

  /// Whether every certificate that is due could be renewed. One that can't doesn't keep the others from it.
  private func renewServers(_ authority: LocalAuthority) throws(AuthorityError) -> Bool {
    guard let out else { return true }
    guard access(out, F_OK) == 0 || errno != ENOENT else {
      if every != nil { return true }
      print("\(out): there is no such folder, so there is nothing to renew in it")
      return true
    }
    var isWhole = true
    let due = try authority.endingServers(in: out, within: days) { CATool.warn("\($0): \($1)") }
    for server in due {
      do throws(AuthorityError) {
        let successor = try server.renew(by: authority)
        print(
          "\(server.path): renewed, serial \(successor.serial), valid until \(AuthorityTime.rfc3339(successor.notAfter))"
        )
      } catch {
        isWhole = false
        LogFile.tell("error: \(server.path): \(error)", level: 3)
      }
    }
    return isWhole
  }

  private func warn(_ store: AuthorityStore) throws(AuthorityError) {
    if let left = store.certificate.notAfter.days(from: Int64(time(nil))), left < Self.authorityDays {
      CATool.warn(
        "\(store.folder.path)/ca.crt: \(store.certificate.subject) "
          + (left < 0 ? "has ended" : "ends in \(left) days")
          + ": renew it and give it to all who trust it (`ca renew --ca`)")
    }
    for record in CertificateRecord.ending(try store.records(), within: days) {
      CATool.warn(
        "\(record.subject) ends on \(AuthorityTime.rfc3339(record.notAfter)), serial \(record.serial): "
          + "`sallyport ca renew \(store.folder.path) \(record.serial)`")
    }
  }
}

extension CATool {
  static func warn(_ text: String) { LogFile.tell("warning: \(text)", level: 4) }
}

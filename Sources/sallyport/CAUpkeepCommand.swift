import ArgumentParser
import Crypto
import Enrolment
import Glibc
import Observability

/// For sallyport-ca.service, which sallyport-ca.timer starts.
struct CAUpkeepCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "upkeep", abstract: "Renew what ends soon, and warn of what its owner must renew.",
    discussion: """
      Run it every few hours, as sallyport-ca.timer does. It renews crl.pem in the last third of its validity. With --out, it \
      also renews the certificates NAME.crt of servers in that folder, with the keys that they have. It warns on stderr of \
      the authority's own certificate half a year before its end, and of other certificates that end within --days days and \
      have no successor: their owners have the keys (`ca renew`). A warning doesn't change the exit status.
      """)

  @OptionGroup var argument: AuthorityArgument
  @Option(help: "A folder with certificates of servers, which are renewed there.")
  var out: String?
  @Option(help: "How many days before its end a certificate is renewed, or warned of: 1 to 365.")
  var days: Int64 = 30
  @OptionGroup var password: AuthorityPassword

  /// The authority's own certificate has to reach everybody who trusts it.
  private static let authorityDays: Int64 = 180

  func validate() throws {
    guard (1...365).contains(days) else { throw ValidationError("--days \(days): expected 1 to 365") }
  }

  func run() throws {
    var isWhole = true
    try CATool.run { () throws(AuthorityError) in
      let authority = try password.authority(of: argument)
      let list = "\(authority.store.folder.path)/crl.pem"
      let renewed = try authority.store.keepUp(signer: authority.signer, at: Int64(time(nil)))
      print(
        renewed.map { "\(list): renewed, valid until \(AuthorityTime.rfc3339($0))" }
          ?? "\(list): need not be renewed yet")
      isWhole = try renewServers(authority)
      try warn(authority.store)
    }
    if !isWhole { throw ExitCode.failure }
  }

  /// Whether every certificate that is due could be renewed. One that can't doesn't keep the others from it.
  private func renewServers(_ authority: LocalAuthority) throws(AuthorityError) -> Bool {
    guard let out else { return true }
    guard access(out, F_OK) == 0 || errno != ENOENT else {
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

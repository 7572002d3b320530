import ArgumentParser
import Enrolment
import Glibc
import Observability

struct CAListCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "list", abstract: "List all certificates that the authority has issued."
  ).example("sallyport ca list /etc/sallyport/ca --expiring 30")

  @OptionGroup var argument: AuthorityArgument
  @Flag(help: "Print a JSON array of objects.")
  var json = false

  @Option(
    help: ArgumentHelp(
      "Only valid certificates that end within this number of days and have no successor with the same names. The exit status is 1 if there are any.",
      valueName: "days"))
  var expiring: Int64?

  func validate() throws {
    if let expiring, !(0...36500).contains(expiring) {
      throw ValidationError("--expiring \(expiring): expected 0 to 36500")
    }
  }

  func run() throws {
    var isAnyEnding = false
    try CATool.run { () throws(AuthorityError) in
      var records = try argument.store().records()
      if let expiring {
        records = CertificateRecord.ending(records, within: expiring)
        isAnyEnding = !records.isEmpty
        if !json, records.isEmpty {
          print("no valid certificate ends within \(expiring) days")
          return
        }
      }
      print(json ? Self.json(records) : Self.table(records))
    }
    if isAnyEnding { throw ExitCode.failure }
  }

  private static func json(_ records: [CertificateRecord]) -> String {
    var json = JSONText()
    json.array(records) { record, json in
      json.object { json in
        json.member("serial", record.serial)
        json.member("subject", record.subject)
        json.array("san", record.alternativeNames) { $1.value($0) }
        json.member("not_before", record.notBefore.map(AuthorityTime.rfc3339))
        json.member("not_after", AuthorityTime.rfc3339(record.notAfter))
        json.member("status", record.status.rawValue)
        json.member("revoked_at", record.revokedAt.map(AuthorityTime.rfc3339))
      }
    }
    return json.text
  }

  private static func table(_ records: [CertificateRecord]) -> String {
    guard !records.isEmpty else { return "no certificate issued yet" }
    return records.map { record in
      let names = record.alternativeNames.isEmpty ? "" : "  \(record.alternativeNames.joined(separator: " "))"
      let instant = record.revokedAt.map { "since \(AuthorityTime.rfc3339($0))" }
      let padding = String(repeating: " ", count: max(1, 9 - record.status.rawValue.count))
      return "\(record.serial)  \(record.status.rawValue)\(padding)"
        + "\(instant ?? "until \(AuthorityTime.rfc3339(record.notAfter))")  \(record.subject)\(names)"
    }.joined(separator: "\n")
  }
}

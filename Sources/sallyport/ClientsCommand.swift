import ArgumentParser
import Features
import Glibc
import Observability
import Review

struct ClientsCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "clients",
    abstract: "List who came, from records of `client_record`.",
    discussion: """
      Several records, as those of several machines, are read as one; of a folder, each file that ends with .clients. The \
      list counts clients by the issuer, the end or the key of their certificate, or by the version of TLS, and names those \
      with old or weak certificates and handshakes.

      `sallyport check --clients` says whom a configuration would refuse.
      """
  ).example("sallyport clients /var/lib/sallyport/clients --ending 30d")

  @Argument(help: ArgumentHelp("A record, or a folder with records.", valueName: "record"))
  var records: [String]

  @Option(help: "Count clients by: issuer, end, key or version.")
  var by = ClientListing.Grouping.issuer

  @Option(help: ArgumentHelp("Only those whose certificate ends within this time: 30d, 12h.", valueName: "time"))
  var ending: String?

  @Flag(help: "Print one JSON object.")
  var json = false

  func validate() throws {
    if records.isEmpty { throw ValidationError("name a record of client_record, or a folder with records") }
    if let ending, Self.seconds(ending) == nil {
      throw ValidationError("--ending \"\(ending)\": it must be a number of days or hours, as 30d")
    }
  }

  private static func seconds(_ text: String) -> Int64? {
    let units: [Character: Int64] = ["d": 86_400, "h": 3600]
    guard let unit = text.last.flatMap({ units[$0] }), let number = Int64(text.dropLast()),
      (0...36_500).contains(number)
    else { return nil }
    return number * unit
  }

  func run() throws {
    let record: RecordedClients
    do throws(RecordedFilesError) { record = try RecordedClients(files: records) } catch {
      LogFile.standardError.write(string: "error: \(LogEscape.visible(error.description))\n")
      throw ExitCode.failure
    }
    let listing = ClientListing(record, by: by, ending: ending.flatMap(Self.seconds), now: Int64(time(nil)))
    if json { return print(listing.json) }
    for line in listing.lines { print(line) }
  }
}

extension ClientListing.Grouping: ExpressibleByArgument {}

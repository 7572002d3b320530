import Crypto
import Forward
package import Language
import Observability
package import Traffic
import Transport

/// client_record, which nginx does not have: who came, so that a next configuration can be asked whom it would refuse.
///
/// The folder is the whole feature: the directive here; what a worker notes of a handshake in `RecordBuffer`; the file in
/// `ClientRecords` and `RecordWriter`; what a record holds, and how it is read, in `RecordedClients`.
package struct ClientRecord: LocationFeature {
  /// Absolute, or relative to the working folder.
  let path: String
  let bounds: RecordWriter.Bounds

  // MARK: Directives

  package static let chapter = Chapter.tls
  package static let kinds: Set<TrafficKind> = [.http, .stream]

  private static let row = DirectiveEntry.value(
    "client_record", [.http, .server, .stream, .streamServer],
    .words(1...3, "FILE | FOLDER/ [days=NUMBER] [limit=NUMBER] | off"), "off",
    "Keeps who came: each chain of certificates that a client has shown, or that a front has relayed, once, with when, where and how it came, and how it was"
      + " judged; no key, and nothing of requests. `sallyport clients` lists it, and `sallyport check --clients` says whom a"
      + " configuration would refuse. A name that ends with a slash is a folder, in which the file has the name of the machine"
      + " and `.clients`. `days`: who has not come for so long is forgotten (30). `limit`: the most chains (100000).",
    example: "client_record /var/lib/sallyport/clients/ days=90;", trust: .none)

  package static let directives = [row]

  package static func read(_ level: Level, _ builder: inout SettingsBuilder) -> ClientRecord? {
    guard let line = row.line(in: level.scope), line.text(0) != "off" else { return nil }
    var bounds = RecordWriter.Bounds()
    for word in line.arguments.dropFirst() {
      let (option, value) = word.text.splitAtEquals
      switch (option, value.flatMap { Int($0) }) {
      case ("days", let days?) where (1...3650).contains(days): bounds.days = days
      case ("limit", let limit?) where (1...1_000_000).contains(limit): bounds.limit = limit
      default:
        builder.refuse(word, of: line, hint: "days= from 1 to 3650, or limit= from 1 to 1000000")
        return nil
      }
    }
    let name = line.text(0)
    guard !name.isEmpty else {
      builder.refuse(line, 0, hint: "a file, or a folder with a slash at its end")
      return nil
    }
    let path = resolve(name, in: builder.folder)
    let record = ClientRecord(
      path: name.hasSuffix("/") ? "\(path)\(path.hasSuffix("/") ? "" : "/")\(Sockets.hostName)\(fileEnd)" : path,
      bounds: bounds)
    if let former = builder[Block.self].bounds[record.path], former != bounds {
      builder.error(
        line.location, "\"\(name)\" has other bounds in another line of \"\(row.name)\"",
        hint: "a file has one number of days and one limit: write the same in both lines")
    }
    builder[Block.self].bounds[record.path] = bounds
    return record
  }

  /// How the names of records in a folder end.
  package static let fileEnd = ".clients"

  /// The bounds of each file.
  private struct Block: BlockPart {
    var bounds: [String: RecordWriter.Bounds] = [:]
  }

  // MARK: Effect

  package static let sharedParts: [any SharedPart.Type] = [ClientRecords.self]
  package static let workerParts: [WorkerPart.Type] = [RecordUpkeep.self]

  package func fileUses(_ location: LocationSettings) -> [FileUse] { [.path(.change, NewFile.folder(of: path))] }

  package func compile(_ parts: inout LocationParts, _ makers: LiveMakers) {
    guard parts.isOfServer, makers.trace == nil else { return }
    let file = makers.shared[ClientRecords.self].file(self)
    parts.watches.append(RecordWatch(makers[RecordBuffer.self], file))
  }
}

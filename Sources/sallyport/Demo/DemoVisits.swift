import Glibc
import Observability
import Review
import Synchronization

/// The file of what clients made of the bad servers since the demo started. `sallyport demo --report` reads it.
final class DemoVisits: Sendable {
  static let fileName = "visits.tsv"
  /// A client that comes again and again must not fill the disk.
  private static let mostLines = 20_000

  private let file: Int32
  private let lines = Mutex(0)

  init(in folder: DemoFolder) throws(DemoFailure) {
    try folder.write("", to: Self.fileName)
    file = open(folder.file(Self.fileName), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW)
    guard file >= 0 else { throw DemoFailure.system("open", folder.file(Self.fileName)) }
  }

  func note(_ server: BadServer, from address: String, isAccepted: Bool, _ detail: String) {
    let visit = ClientVisit(server, at: Int64(time(nil)), from: address, isAccepted: isAccepted, detail: detail)
    lines.withLock { lines in
      guard lines < Self.mostLines else { return }
      lines += 1
      let bytes = Array(visit.line.utf8)
      _ = write(file, bytes, bytes.count)
    }
  }

  /// nil: no demo of this folder has had bad servers.
  static func text(in folder: DemoFolder) -> String? {
    let descriptor = open(folder.file(fileName), O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    var bytes: [UInt8] = []
    var part = [UInt8](repeating: 0, count: 64 * 1024)
    while true {
      let count = read(descriptor, &part, part.count)
      guard count > 0 else { return String(decoding: bytes, as: UTF8.self) }
      bytes += part[..<count]
    }
  }
}

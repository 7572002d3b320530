import Bytes
import CLinux
import Glibc

/// A datagram socket to systemd's journal.
///
/// Not libsystemd's: its socket blocks, and a journal that takes nothing would make a worker wait. Each entry names its
/// receiver, so a restart of the journal loses what comes meanwhile, and nothing else. An entry that can't be sent at once
/// is lost and counted (`LogLosses`).
///
/// Without a journal (in a container), lines go to stderr with the prefix `<N>`, which systemd and other log collectors
/// understand (sd-daemon(3)).
public final class JournalSocket: Sendable {
  public static let standardPath = "/run/systemd/journal/socket"
  /// The name of the log for `LogLosses`.
  static let name = "journal"

  private let descriptor: Int32
  private let receiver: SocketName
  private let losses: LogLosses
  /// Whether the journal's socket existed when this object was made.
  private let hasJournal: Bool

  private struct SocketName: @unchecked Sendable { var address = sockaddr_un() }

  public init(path: String = standardPath, losses: LogLosses = LogLosses()) {
    self.losses = losses
    var name = SocketName()
    name.address.sun_family = sa_family_t(AF_UNIX)
    let fits = withUnsafeMutableBytes(of: &name.address.sun_path) { room in
      let bytes = Array(path.utf8)
      guard bytes.count < room.count else { return false }
      room.copyBytes(from: bytes)
      return true
    }
    receiver = name
    hasJournal = fits && access(path, F_OK) == 0
    let kind = Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
    descriptor = hasJournal ? socket(AF_UNIX, kind, 0) : -1
  }

  deinit { if descriptor >= 0 { close(descriptor) } }

  /// The number of entries of all logs that could not be sent since the start.
  public var failedWrites: UInt64 { losses.lines(of: Self.name) }

  /// Sends one entry. `line`: its MESSAGE, without a line feed.
  public func write(
    _ line: UnsafeRawBufferPointer, severity: UInt8, fields: (inout JournalMessage) -> Void = { _ in }
  ) {
    guard hasJournal else {
      var text = ByteBuffer(capacity: line.count + 8)
      text.append(string: "<\(severity)>")
      text.append(line)
      text.append("\n")
      return LogFile.standardError.write(text.readable)
    }
    var message = JournalMessage(severity: severity)
    message.append("MESSAGE", line)
    fields(&message)
    let bytes = message.bytes.readable
    let sent = withUnsafeBytes(of: receiver.address) { raw -> Int in
      guard let address = raw.baseAddress?.assumingMemoryBound(to: sockaddr.self) else { return -1 }
      return sendto(descriptor, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL), address, socklen_t(raw.count))
    }
    guard sent < 0 else { return losses.noteSuccess(Self.name) }
    losses.note(Self.name, 1, errno, tellsStandardError: true)
  }
}

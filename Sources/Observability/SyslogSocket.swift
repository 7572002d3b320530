import Bytes
import CLinux
import Glibc
import Synchronization

/// A datagram socket to a syslog server, for RFC 3164 messages.
///
/// Each message names its receiver (sendto), so a restart of the server breaks no connection, and no lock is needed. It
/// never blocks: a message that the system can't send at once is lost and counted, as in nginx.
public final class SyslogSocket: Sendable {
  public let settings: SyslogSettings
  private let descriptor: Int32
  /// The bytes of the C address.
  private let receiver: [UInt8]
  /// `HOST TAG: ` or `TAG: `.
  private let origin: [UInt8]
  private let failures = Atomic<UInt64>(0)
  private let losses: LogLosses
  /// The server's name for `losses`.
  private let name: String

  public init(_ settings: SyslogSettings, losses: LogLosses = LogLosses()) throws(LogDestinationError) {
    self.settings = settings
    self.losses = losses
    self.name =
      switch settings.server {
      case .unix(let path): "syslog:server=unix:\(path)"
      case .udp(let host, let port): "syslog:server=\(host):\(port)"
      }
    guard let (family, receiver) = Self.address(settings.server) else {
      throw LogDestinationError("syslog server \(settings.server): expected an IP address or a socket's path")
    }
    let kind = Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
    self.receiver = receiver
    self.origin = Array("\(settings.sendsHostName ? Self.hostName() + " " : "")\(settings.tag): ".utf8)
    self.descriptor = socket(family, kind, 0)
    guard descriptor >= 0 else {
      throw LogDestinationError("can't make a socket for syslog: \(String(cString: strerror(errno)))")
    }
  }

  deinit { if descriptor >= 0 { close(descriptor) } }

  /// The number of messages that could not be sent since the start.
  public var failedWrites: UInt64 { failures.load(ordering: .relaxed) }

  /// Sends one line, without a line feed, as one message.
  package func write(_ line: UnsafeRawBufferPointer, severity: LogLevel) {
    var message = ByteBuffer(capacity: line.count + origin.count + 32)
    message.append("<")
    message.append(decimal: UInt64(settings.facility) * 8 + UInt64(severity.syslogSeverity))
    message.append(">")
    ClockText.appendSyslogTime(time(nil), to: &message)
    message.append(" ")
    message.append(origin)
    message.append(line)
    let bytes = message.readable
    let sent = receiver.withUnsafeBytes { raw -> Int in
      guard let address = raw.baseAddress?.assumingMemoryBound(to: sockaddr.self) else { return -1 }
      return sendto(
        descriptor, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL), address, socklen_t(raw.count))
    }
    guard sent < 0 else { return losses.noteSuccess(name) }
    let code = errno
    failures.wrappingAdd(1, ordering: .relaxed)
    losses.note(name, 1, code, tellsStandardError: false)
  }

  private static func address(_ server: SyslogSettings.Server) -> (Int32, [UInt8])? {
    switch server {
    case .unix(let path):
      var address = sockaddr_un()
      address.sun_family = sa_family_t(AF_UNIX)
      let fits = withUnsafeMutableBytes(of: &address.sun_path) { room in
        let bytes = Array(path.utf8)
        guard bytes.count < room.count else { return false }
        room.copyBytes(from: bytes)
        return true
      }
      return fits ? (AF_UNIX, withUnsafeBytes(of: &address) { Array($0) }) : nil
    case .udp(let host, let port):
      var four = sockaddr_in()
      if inet_pton(AF_INET, host, &four.sin_addr) == 1 {
        four.sin_family = sa_family_t(AF_INET)
        four.sin_port = port.bigEndian
        return (AF_INET, withUnsafeBytes(of: &four) { Array($0) })
      }
      var six = sockaddr_in6()
      guard inet_pton(AF_INET6, host, &six.sin6_addr) == 1 else { return nil }
      six.sin6_family = sa_family_t(AF_INET6)
      six.sin6_port = port.bigEndian
      return (AF_INET6, withUnsafeBytes(of: &six) { Array($0) })
    }
  }

  private static func hostName() -> String {
    var name = [UInt8](repeating: 0, count: 256)
    let failed = name.withUnsafeMutableBytes { room -> Bool in
      guard let base = room.baseAddress?.assumingMemoryBound(to: CChar.self) else { return true }
      return gethostname(base, room.count - 1) != 0
    }
    return failed ? "localhost" : String(decoding: name.prefix { $0 != 0 }, as: UTF8.self)
  }
}

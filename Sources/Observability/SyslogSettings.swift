import Bytes
import Glibc

/// `syslog:server=…[,facility=…][,tag=…][,severity=…][,nohostname]`, as nginx documents it.
public struct SyslogSettings: Sendable, Hashable {
  public enum Server: Sendable, Hashable {
    /// A datagram socket, such as /dev/log; at most 107 bytes.
    case unix(path: String)
    /// An IP literal, without brackets.
    case udp(host: String, port: UInt16)
  }

  public var server: Server
  /// RFC 3164 §4.1.1, 0 to 23; 23 is local7, nginx's default.
  public var facility: UInt8 = 23
  public var tag = "sallyport"
  /// The severity of access lines; an error line has its own level.
  public var severity: LogLevel = .info
  public var sendsHostName = true

  public init(server: Server) { self.server = server }

  /// Parses the text after `syslog:`.
  public init(parsing text: Substring) throws(LogDestinationError) {
    var server: Server?
    var seen: Set<Substring> = []
    var facility: UInt8 = 23
    var tag = "sallyport"
    var severity = LogLevel.info
    var sendsHostName = true
    for parameter in text.split(separator: ",", omittingEmptySubsequences: false) {
      let parts = parameter.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      let name = parts[0]
      let value = parts.count == 2 ? parts[1] : ""
      guard seen.insert(name).inserted else {
        throw LogDestinationError("syslog parameter \"\(name)\" occurs twice: keep one")
      }
      switch name {
      case "server": server = try Self.server(value)
      case "facility": facility = try Self.facility(value)
      case "tag": tag = try Self.tag(value)
      case "severity":
        guard let level = LogLevel(name: value) else {
          throw LogDestinationError(
            "unknown syslog severity \"\(value)\": expected one of debug info notice warn error crit alert emerg")
        }
        severity = level
      case "nohostname" where parts.count == 1: sendsHostName = false
      default:
        throw LogDestinationError(
          "unknown syslog parameter \"\(parameter)\": expected server=, facility=, tag=, severity= or nohostname")
      }
    }
    guard let server else {
      throw LogDestinationError("no syslog server: write syslog:server=ADDRESS[:PORT] or syslog:server=unix:/dev/log")
    }
    self.server = server
    self.facility = facility
    self.tag = tag
    self.severity = severity
    self.sendsHostName = sendsHostName
  }

  private static func server(_ text: Substring) throws(LogDestinationError) -> Server {
    if text.hasPrefix("unix:") {
      let path = text.dropFirst(5)
      guard !path.isEmpty, path.utf8.count <= 107, !path.utf8.contains(0) else {
        throw LogDestinationError("syslog socket \"\(text)\": expected unix: and a path of 1 to 107 bytes")
      }
      return .unix(path: String(path))
    }
    guard let server = try? HostPort(text), isAddress(server.host) else {
      throw LogDestinationError(
        "syslog server \"\(text)\": expected an IP address with an optional port (192.0.2.1:514, [2001:db8::1]:514), "
          + "or unix:/dev/log; names are not looked up")
    }
    return .udp(host: server.host, port: server.port ?? 514)
  }

  private static func isAddress(_ host: String) -> Bool {
    var four = in_addr()
    var six = in6_addr()
    return inet_pton(AF_INET, host, &four) == 1 || inet_pton(AF_INET6, host, &six) == 1
  }

  private static func facility(_ name: Substring) throws(LogDestinationError) -> UInt8 {
    guard let index = facilities.firstIndex(of: String(name)) else {
      throw LogDestinationError(
        "unknown syslog facility \"\(name)\": expected one of \(facilities.joined(separator: " "))")
    }
    return UInt8(truncatingIfNeeded: index)
  }

  private static func tag(_ text: Substring) throws(LogDestinationError) -> String {
    let allowed = text.utf8.allSatisfy {
      $0 == UInt8(ascii: "_") || ($0 | 0x20) &- 97 < 26 || $0 &- 48 < 10
    }
    guard allowed, (1...32).contains(text.utf8.count) else {
      throw LogDestinationError("syslog tag \"\(text)\": expected 1 to 32 of A-Z a-z 0-9 _")
    }
    return String(text)
  }

  /// The names, which are nginx's, in the order of their numbers.
  private static let facilities = [
    "kern", "user", "mail", "daemon", "auth", "intern", "lpr", "news", "uucp", "clock", "authpriv", "ftp", "ntp",
    "audit", "alert", "cron", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7",
  ]
}

import Glibc
import Testing

@testable import Observability

@Suite struct `Where a log goes` {
  @Test func `words, syslog and paths are told apart, and a relative path is the configuration's`() throws {
    #expect(try LogDestination(parsing: "stderr", relativeTo: "/etc/s") == .stderr)
    #expect(try LogDestination(parsing: "journal", relativeTo: "/etc/s") == .journal)
    #expect(try LogDestination(parsing: "logs/a.log", relativeTo: "/etc/s") == .file(path: "/etc/s/logs/a.log"))
    #expect(try LogDestination(parsing: "/var/a.log", relativeTo: "/etc/s") == .file(path: "/var/a.log"))
  }

  @Test(arguments: ["", "a\0b", "memory:32m"])
  func `what can be no log is refused`(text: String) {
    #expect(throws: LogDestinationError.self) { try LogDestination(parsing: text, relativeTo: "/") }
  }

  @Test func `syslog's parameters are nginx's`() throws {
    var settings = SyslogSettings(server: .udp(host: "192.0.2.1", port: 514))
    #expect(try SyslogSettings(parsing: "server=192.0.2.1") == settings)
    #expect(settings.facility == 23 && settings.severity == .info && settings.tag == "sallyport")
    settings = SyslogSettings(server: .udp(host: "2001:db8::1", port: 12345))
    settings.facility = 16
    settings.tag = "edge_1"
    settings.severity = .notice
    settings.sendsHostName = false
    #expect(
      try SyslogSettings(
        parsing: "server=[2001:db8::1]:12345,facility=local0,tag=edge_1,severity=notice,nohostname") == settings)
    #expect(try SyslogSettings(parsing: "server=unix:/dev/log").server == .unix(path: "/dev/log"))
    #expect(try SyslogSettings(parsing: "server=[::1]").server == .udp(host: "::1", port: 514))
  }

  @Test(
    arguments: [
      "", "server=", "server=example.com", "server=192.0.2.1:0", "server=192.0.2.1:65536", "server=192.0.2.1:x",
      "server=[::1]514", "server=[::1", "server=::1", "server=unix:", "tag=a", "server=192.0.2.1,tag=",
      "server=192.0.2.1,tag=a-b", "server=192.0.2.1,tag=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
      "server=192.0.2.1,facility=local8", "server=192.0.2.1,severity=warning", "server=192.0.2.1,nohostname=1",
      "server=192.0.2.1,server=192.0.2.2", "server=192.0.2.1,", "server=192.0.2.1,colour=red",
      "server=unix:/" + String(repeating: "x", count: 107),
    ])
  func `a malformed syslog destination is refused`(text: String) {
    #expect(throws: LogDestinationError.self) { try SyslogSettings(parsing: Substring(text)) }
  }
}

@Suite struct `Syslog` {
  @Test func `a UDP message has RFC 3164's form, and an error line its own severity`() throws {
    let server = try LoopbackDatagramSocket()
    let destination = try LogDestination(
      parsing: "syslog:server=127.0.0.1:\(server.port),facility=daemon,tag=edge,nohostname", relativeTo: "/")
    let log = ErrorLog([ErrorLogSink(level: .warn, handler: try LogFiles().handler(for: destination))])
    log.alert("*1 worker is gone")
    let text = server.receive() ?? ""
    let form = try Regex(
      #"<25>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d edge: \d{4}/\S+ \S+ \[alert\] \d+#\d+: \*1 worker is gone"#)
    #expect(try form.wholeMatch(in: text) != nil, "\(text)")
  }

  @Test func `an access line leaves at once, with the severity asked for and the host's name`() throws {
    let server = try LoopbackDatagramSocket()
    let destination = try LogDestination(
      parsing: "syslog:server=127.0.0.1:\(server.port),severity=notice", relativeTo: "/")
    let writer = try LogFiles().accessLog(for: destination).makeWriter()
    [UInt8]("GET / 200".utf8).withUnsafeBytes { writer.append($0) }
    #expect(writer.isEmpty)
    let text = server.receive() ?? ""
    let form = try Regex(#"<189>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S+ sallyport: GET / 200"#)
    #expect(try form.wholeMatch(in: text) != nil, "\(text)")
  }

  @Test func `a server that isn't there costs a line and a count`() throws {
    let losses = LogLosses()
    let socket = try SyslogSocket(SyslogSettings(server: .unix(path: "/nowhere/at/all")), losses: losses)
    [UInt8]("lost".utf8).withUnsafeBytes { socket.write($0, severity: .info) }
    #expect(socket.failedWrites == 1 && losses.total == 1)
    let reason = "(2: No such file or directory)"
    #expect(losses.changes() == [.began(path: "syslog:server=unix:/nowhere/at/all", reason: reason)])
  }
}

/// A UDP socket of the test's own.
private final class LoopbackDatagramSocket {
  struct Failure: Error { var code: Int32 }

  let port: UInt16
  private let descriptor: Int32

  init() throws {
    descriptor = socket(AF_INET, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let descriptor = descriptor
    let bound = withUnsafeMutablePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(descriptor, $0, length) == 0 && getsockname(descriptor, $0, &length) == 0
      }
    }
    port = UInt16(bigEndian: address.sin_port)
    guard bound else { throw Failure(code: errno) }
  }

  deinit { close(descriptor) }

  /// Loopback delivers before sendto returns: never waits.
  func receive() -> String? {
    var bytes = [UInt8](repeating: 0, count: 65_536)
    let count = recv(descriptor, &bytes, bytes.count, Int32(MSG_DONTWAIT))
    return count < 0 ? nil : String(decoding: bytes.prefix(count), as: UTF8.self)
  }
}

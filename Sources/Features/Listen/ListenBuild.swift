import Bytes
package import Forward
import Glibc
import Language
import Observability
package import Traffic
package import Transport

extension SettingsBuilder {
  /// Builds a server's `listen` lines. Without a line, it uses nginx's default port: 80, or 8000 without root's rights.
  fileprivate mutating func listenLines(_ server: Scope, at place: SourceLocation, allTLS: Bool) -> [ListenLine] {
    let datagrams = Listen.datagramLines(server)
    let lines = Listen.lines(server)
    let isBesideTLS = kind == .http && (allTLS || lines.contains { $0.hasWord("ssl") })
    for line in datagrams { judge(datagrams: line, isBesideTLS) }
    if lines.isEmpty, !datagrams.isEmpty { return [] }
    if lines.isEmpty, kind == .stream {
      error(place, "no \"listen\" is defined for server in stream", hint: "listen ADDRESS:PORT ssl;")
      return []
    }
    if lines.isEmpty {
      let port: UInt16 = geteuid() == 0 ? 80 : 8000
      let address = ListenAddress.socket(.ipv4(address: 0, port: port))
      return [ListenLine(addresses: [address], isTLS: allTLS, location: place)]
    }
    return lines.compactMap { line in
      do throws(Authority.ParseError) {
        var parsed = ListenLine(
          addresses: try Self.listenAddresses(line.text(0), defaultPort: kind == .http ? 80 : nil, lookUp: lookUp),
          location: line.location)
        parsed.isTLS = allTLS
        parsed.kind = kind
        readParameters(of: line, into: &parsed)
        return parsed
      } catch {
        self.error(line.place(0), "\(error.reason) in \"listen\" directive: \"\(line.text(0))\"", hint: error.hint)
        return nil
      }
    }
  }

  /// Takes a line for HTTP/3 beside one by which the same clients come over TCP.
  private mutating func judge(datagrams line: Directive, _ isBesideTLS: Bool) {
    guard isBesideTLS else {
      return error(
        line.location,
        "`listen … quic` is for HTTP/3, which sallyport doesn't speak, and no other line takes its clients",
        hint: kind == .http ? "listen \(line.text(0)) ssl;" : "leave it out: HTTP/3 is of \"http\"")
    }
    diagnostics.append(
      Diagnostic(
        .notice, at: line.location, "`listen … quic` is taken and has no effect: its clients come over TCP",
        hint: "leave out the field Alt-Svc too, which sends clients to HTTP/3 first"
      ).sharing(.init("listen quic", title: "lines `listen … quic` have no effect: their clients come over TCP")))
  }

  /// `defaultPort`: nil where the text must have a port. `lookUp`: finds the addresses of a name; nil if none is looked up.
  package static func listenAddresses(
    _ text: String, defaultPort: UInt16? = 80, lookUp: Resolver.LookUp? = nil
  ) throws(Authority.ParseError) -> [ListenAddress] {
    if text.hasPrefix("systemd:") {
      let name = String(text.dropFirst("systemd:".count))
      guard !name.isEmpty else { throw .init(reason: "no name", hint: "systemd:NAME, as FileDescriptorName= says") }
      return [.systemd(name: name)]
    }
    if text.lowercased().hasPrefix("unix:") {
      guard case .unix(let path) = try Authority(parsing: text) else { return [] }
      return [.socket(.unix(path: path))]
    }
    let (host, ports) = try splitPorts(text, defaultPort)
    // A name without a letter, such as 1.2.3, would be taken for an address by getaddrinfo.
    if let lookUp, Authority.isHost(host), host.contains(where: \.isLetter) {
      let found = lookUp(host, ports.lowerBound)
      if found.isEmpty {
        throw .init(reason: "host not found", hint: "an IP address, or a name that DNS or /etc/hosts knows")
      }
      return ports.flatMap { port in found.map { .socket($0.withPort(port)) } }
    }
    return try ports.map { (port) throws(Authority.ParseError) in .socket(try socketAddress(host, port)) }
  }

  /// Splits the text into the host and its ports: `443`, `*:443`, `10.0.0.1`, `[::]:8000-8010`.
  private static func splitPorts(
    _ text: String, _ defaultPort: UInt16?
  ) throws(Authority.ParseError) -> (String, ClosedRange<UInt16>) {
    let invalidPort = Authority.ParseError(reason: "invalid port", hint: "a port, or a range of them, from 1 to 65535")
    func range(_ text: Substring) throws(Authority.ParseError) -> ClosedRange<UInt16> {
      let ends = text.split(separator: "-", maxSplits: 1, omittingEmptySubsequences: false)
      let numbers = ends.compactMap { HostPort.port($0) }
      guard numbers.count == ends.count, let low = numbers.first, let high = numbers.last, low <= high,
        high - low < 1024
      else { throw invalidPort }
      return low...high
    }
    if text.utf8.allSatisfy({ $0 &- 48 < 10 || $0 == UInt8(ascii: "-") }) { return ("*", try range(text[...])) }
    let parts: HostPort.Parts
    do throws(HostPort.ParseError) { parts = try HostPort.Parts(of: text[...]) } catch {
      throw error == .missingBracket ? .init(reason: "invalid address", hint: "the \"]\" is missing") : invalidPort
    }
    let host = parts.isBracketed ? "[\(parts.host)]" : String(parts.host)
    guard let ports = parts.port else {
      guard let defaultPort else { throw .init(reason: "no port", hint: "ADDRESS:PORT") }
      return (host, defaultPort...defaultPort)
    }
    return (host, try range(ports))
  }

  private static func socketAddress(_ host: String, _ port: UInt16) throws(Authority.ParseError) -> SocketAddress {
    if host == "*" { return .ipv4(address: 0, port: port) }
    if host.lowercased() == "localhost" { return .ipv4(address: 0x7F00_0001, port: port) }
    if host.hasPrefix("[") {
      if let address = SocketAddress(literal: String(host.dropFirst().dropLast()), port: port), case .ipv6 = address {
        return address
      }
    } else if let address = SocketAddress(literal: host, port: port), case .ipv4 = address {
      return address
    }
    throw Authority.ParseError(
      reason: "invalid address", hint: "an IP address ([ ] for IPv6), a name, \"*\", unix:PATH or systemd:NAME")
  }

  private static func hint(forUnsupported name: String) -> String {
    switch name {
    case "setfib": "leave it out: routing tables for sockets (SO_SETFIB) are FreeBSD's, and Linux has none"
    case "accept_filter":
      "leave it out: accept filters are FreeBSD's and NetBSD's; on Linux \"deferred\" does what dataready does"
    default: "leave it out: sallyport listens by TCP, which every client of Multipath TCP speaks too"
    }
  }

  /// Bytes for SO_RCVBUF and SO_SNDBUF.
  private mutating func bufferSize(_ word: Word, _ value: String) -> Int? {
    if let size = Quantity.size(value), size > 0, size <= Int(Int32.max) { return size }
    refuse(word, hint: "a size from 1 byte to under 2g, such as 64k")
    return nil
  }

  private mutating func readParameters(of line: Directive, into listen: inout ListenLine) {
    for word in line.arguments.dropFirst() {
      let (name, value) = word.text.splitAtEquals
      switch (name, value) {
      case ("ssl", nil): listen.isTLS = true
      case ("default_server", nil), ("default", nil): listen.isDefault = true
      case ("bind", nil): listen.options = listen.options ?? ListenOptions()
      case ("reuseport", nil): set(&listen) { $0.reuseport = true }
      case ("backlog", let value?):
        if let backlog = number(word, value, in: 1...65535) { set(&listen) { $0.backlog = backlog } }
      case ("ipv6only", let value?):
        guard let only = Flag(value), listen.addresses.allSatisfy(\.isIPv6) else {
          refuse(word, hint: "ipv6only=on or off, with an IPv6 address")
          continue
        }
        set(&listen) { $0.ipv6only = only }
      case ("so_keepalive", let value?):
        guard let keepalive = Self.keepalive(value) else {
          refuse(word, hint: "on, off or IDLE:INTERVAL:COUNT, as 30m::10")
          continue
        }
        set(&listen) { $0.keepalive = keepalive }
      case ("udp", nil) where kind == .stream:
        error(
          word.location, "`listen … udp` is nginx's, but not supported here",
          hint: "leave it out: sallyport passes connections of TCP and of unix sockets")
      case ("proxy_protocol", nil): listen.expectsProxyHeader = true
      case ("spdy", nil):
        warning(word.location, "`listen … spdy` has no effect: HTTP/2 took the place of SPDY", hint: "http2 on;")
      case ("http3", nil):
        error(word.location, "`listen … http3` is nginx's, but not supported here", hint: "leave it out")
      case ("deferred", nil): set(&listen) { $0.isDeferred = true }
      case ("rcvbuf", let value?):
        if let size = bufferSize(word, value) { set(&listen) { $0.receiveBuffer = size } }
      case ("sndbuf", let value?):
        if let size = bufferSize(word, value) { set(&listen) { $0.sendBuffer = size } }
      case ("fastopen", let value?):
        if let count = number(word, value, in: 0...65535) { set(&listen) { $0.fastOpenQueue = count } }
      case ("setfib", _), ("accept_filter", _), ("multipath", nil):
        error(
          word.location, "`listen … \(name)` is nginx's, but not supported here", hint: Self.hint(forUnsupported: name))
      default:
        let others = kind == .http ? features.all.flatMap { $0.listenParameters } : []
        if value == nil, let other = others.first(where: { $0.name == name }) {
          other.read(word, &listen, &self)
          continue
        }
        let known =
          ["ssl", "default_server", "reuseport", "backlog", "ipv6only", "so_keepalive"]
          + ["proxy_protocol", "deferred", "rcvbuf", "sndbuf", "fastopen", "bind"]
          + others.map(\.name)
        let nearest = Spelling.nearest(to: name, among: known)
        error(
          word.location, "invalid parameter \"\(word.text)\" in \"listen\" directive",
          hint: nearest.map { "did you mean \"\($0)\"?" })
      }
    }
  }

  private func set(_ listen: inout ListenLine, _ change: (inout ListenOptions) -> Void) {
    var options = listen.options ?? ListenOptions()
    change(&options)
    listen.options = options
  }

  private static func keepalive(_ text: String) -> TCPKeepalive? {
    if let flag = Flag(text) { return flag ? .on : .off }
    let parts = text.split(separator: ":", omittingEmptySubsequences: false).map(String.init)
    guard parts.count == 3, text != "::" else { return nil }
    let idle = Quantity.seconds(parts[0])
    let interval = Quantity.seconds(parts[1])
    let count = Quantity.number(parts[2])
    guard parts[0].isEmpty == (idle == nil), parts[1].isEmpty == (interval == nil), parts[2].isEmpty == (count == nil)
    else { return nil }
    let values = [idle, interval, count]
    guard values.allSatisfy({ $0.map { (1...32767).contains($0) } ?? true }) else { return nil }
    return .parameters(idle: idle, interval: interval, count: count)
  }
}

extension ListenAddress {
  fileprivate var isIPv6: Bool {
    if case .socket(.ipv6) = self { true } else { false }
  }
}

extension Level {
  /// Whether every address of the server uses TLS, as far as the server's own lines show.
  var isEncrypted: Bool {
    switch self {
    case .location(_, _, let outer), .conditional(_, _, let outer): outer.isEncrypted
    case .server(let scope), .streamServer(let scope):
      scope.isObsoletelyEncrypted
        || !Listen.lines(scope).isEmpty
          && Listen.lines(scope).allSatisfy {
            $0.hasWord("ssl") || $0.text(0).hasPrefix("unix:")
          }
    }
  }
}

/// `listen` (nginx: ngx_http_core_module)
enum Listen: Feature {
  fileprivate static let name = "listen"
  static let chapter = Chapter.http

  static func listenLines(
    _ server: Scope, at place: SourceLocation, allTLS: Bool, _ builder: inout SettingsBuilder
  ) -> [ListenLine] {
    builder.listenLines(server, at: place, allTLS: allTLS)
  }

  private static let usage =
    "PORT | unix:PATH | systemd:NAME [ssl] [default_server] [backlog=N] [reuseport] [ipv6only=on|off]"
    + " [so_keepalive=on|off|IDLE:INTERVAL:COUNT]"

  static let directives: [DirectiveEntry] = [
    .local(
      name, .server, .words(1...Int.max, "ADDRESS[:PORT] | \(usage) [http2]"), "*:80 | *:8000",
      "The address on which the server listens. A name stands for all its addresses when the configuration is read.",
      repeatable: true, example: "listen 127.0.0.1:8443 ssl;", trust: .told),
    .local(
      name, .streamServer, .words(1...Int.max, "ADDRESS:PORT | \(usage) [proxy_protocol]"),
      "The address on which the server listens. An address serves `http` or `stream`, not both.", repeatable: true,
      example: "listen 127.0.0.1:5433;", trust: .told),
  ]

  /// The lines of a server block, but for those by which nothing comes over TCP.
  static func lines(_ server: Scope) -> [Directive] { server.own(name).filter { !$0.takesDatagrams } }
  static func datagramLines(_ server: Scope) -> [Directive] { server.own(name).filter { $0.takesDatagrams } }
}

extension Directive {
  fileprivate func hasWord(_ word: String) -> Bool { arguments.dropFirst().contains { $0.text == word } }
  fileprivate var takesDatagrams: Bool { hasWord("quic") }
}

extension Scope {
  /// The `listen` lines of the server block that the level is in.
  var listenLines: [Directive] { list(Listen.name).filter { !$0.takesDatagrams } }
}

package import Observability
package import Language

/// One parsed `listen` line.
package struct ListenLine {
  /// The addresses of the line. A range of ports gives several addresses.
  package var addresses: [ListenAddress]
  package var kind = TrafficKind.http
  package var isTLS = false
  package var isDefault = false
  /// The parameter `http2`: for every server of the address, as in nginx.
  package var isHTTP2 = false
  /// The parameter `proxy_protocol`: for every server of the address, as in nginx.
  package var expectsProxyHeader = false
  /// The socket options; nil when the line sets no option.
  package var options: ListenOptions?
  package var location: SourceLocation

  package init(
    addresses: [ListenAddress], kind: TrafficKind = TrafficKind.http, isTLS: Bool = false, isDefault: Bool = false,
    isHTTP2: Bool = false, expectsProxyHeader: Bool = false, options: ListenOptions? = nil, location: SourceLocation
  ) {
    self.addresses = addresses
    self.kind = kind
    self.isTLS = isTLS
    self.isDefault = isDefault
    self.isHTTP2 = isHTTP2
    self.expectsProxyHeader = expectsProxyHeader
    self.options = options
    self.location = location
  }
}

/// A word of `listen` in `http` that a feature reads.
package struct ListenParameter: Sendable {
  package let name: String
  package let read: @Sendable (Word, inout ListenLine, inout SettingsBuilder) -> Void

  package init(_ name: String, read: @escaping @Sendable (Word, inout ListenLine, inout SettingsBuilder) -> Void) {
    self.name = name
    self.read = read
  }
}

/// The listen lines of all servers, grouped by address, as in nginx's `ngx_http_add_listen`.
package struct ListenerTable {
  package private(set) var listeners: [ListenerSettings] = []
  /// The most pairs of an address and a server. A range of ports multiplies the pairs.
  private static let mostPairs = 16_384
  private var pairs = 0
  /// Indices of the listeners with the parameter `http2`.
  package private(set) var http2: Set<Int> = []
  private var indices: [ListenAddress: Int] = [:]
  private var optionPlaces: [Int: SourceLocation] = [:]
  private var defaultPlaces: [Int: SourceLocation] = [:]

  /// Adds a server's line, and returns diagnostics for contradictions with earlier lines.
  package mutating func add(_ line: ListenLine, server: Int) -> [Diagnostic] {
    pairs += line.addresses.count
    guard pairs <= Self.mostPairs else {
      return [Diagnostic(.error, at: line.location, "more than \(Self.mostPairs) listen addresses")]
    }
    return line.addresses.flatMap { add($0, line, server: server) }
  }

  private mutating func add(_ address: ListenAddress, _ line: ListenLine, server: Int) -> [Diagnostic] {
    guard let index = indices[address] else {
      let index = listeners.count
      indices[address] = index
      if line.options != nil { optionPlaces[index] = line.location }
      if line.isDefault { defaultPlaces[index] = line.location }
      if line.isHTTP2 { http2.insert(index) }
      listeners.append(
        ListenerSettings(
          address: address, options: line.options ?? ListenOptions(), isTLS: line.isTLS, servers: [server],
          defaultServer: server, location: line.location, expectsProxyHeader: line.expectsProxyHeader,
          kind: line.kind))
      return []
    }
    var found: [Diagnostic] = []
    if listeners[index].servers.last == server {
      return [Diagnostic(.error, at: line.location, "a duplicate listen \(address)", hint: "keep one of the lines")]
    }
    guard listeners[index].kind == line.kind else {
      return [
        Diagnostic(
          .error, at: line.location, "\"listen\" of http and of stream for \(address)",
          hint: "an address serves one of them; the other line is at \(listeners[index].location)")
      ]
    }
    listeners[index].servers.append(server)
    if line.isHTTP2 { http2.insert(index) }
    if let options = line.options {
      if let first = optionPlaces[index] {
        found.append(
          Diagnostic(
            .error, at: line.location, "duplicate listen options for \(address)",
            hint: "both lines share one socket: keep its options in one line, such as the one at \(first)"))
      } else {
        optionPlaces[index] = line.location
        listeners[index].options = options
      }
    }
    if line.isDefault {
      if let first = defaultPlaces[index] {
        found.append(
          Diagnostic(
            .error, at: line.location, "a duplicate default server for \(address)", hint: "the first is at \(first)"))
      } else {
        defaultPlaces[index] = line.location
        listeners[index].defaultServer = server
      }
    }
    if line.expectsProxyHeader != listeners[index].expectsProxyHeader {
      found.append(
        Diagnostic(
          .warning, at: line.location, "protocol options redefined for \(address): it uses the PROXY protocol",
          hint: "write \"proxy_protocol\" in every listen of the address, or in no listen"))
      listeners[index].expectsProxyHeader = true
    }
    if line.isTLS != listeners[index].isTLS {
      found.append(
        Diagnostic(
          .warning, at: line.location, "protocol options redefined for \(address): it uses TLS",
          hint: "write \"ssl\" in every listen of the address, or in no listen"))
      listeners[index].isTLS = true
    }
    return found
  }
}

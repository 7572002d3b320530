import Bytes
import Forward
import HTTP
package import Traffic
import Upstream

/// The request of a health check, made once at load. It is of no client.
///
/// Its fields are those of `proxy_set_header`, except fields whose value depends on a client, and fields of the connection
/// and the framing. So no field carries a client's identity, and none of `client_identity` or `proxy_auth` is sent.
struct HealthCheckRequest: Sendable {
  let method: HTTP.Method
  private let methodName: StaticString
  private let target: [UInt8]
  private let fields: FieldBlock
  /// A message of gRPC; nil without a body.
  let body: [UInt8]?

  /// `serverName`: that of the server block, the value of `$server_name` and `$host`. nil: the check is none of HTTP.
  init?(_ check: HealthCheckSettings, of pass: UpstreamPass, serverName: String) {
    var lines: [(name: [UInt8], value: [UInt8])] = []
    for field in pass.request.fields where !Self.isLeftOut(field.name) {
      let values = field.candidates.lazy.compactMap { pass.withoutClient($0, serverName: serverName) }
      guard let value = values.first(where: { !$0.isEmpty }) else { continue }
      lines.append((field.name, value))
    }
    func says(_ name: StaticString) -> Bool {
      lines.contains { $0.name.withUnsafeBytes { $0.equalsIgnoringCase(name) } }
    }
    // HTTP/1.1 and HTTP/2 need a host, and one that a client chooses is missing.
    if !says("host") { lines.insert((Array("Host".utf8), Array(pass.target.host.utf8)), at: 0) }
    if !says("user-agent") { lines.append((Array("User-Agent".utf8), Array("sallyport-health-check".utf8))) }
    switch check.kind {
    case .http(let target, _):
      (method, methodName, self.target, body) = (.get, "GET", target, nil)
    case .grpc(let service, _):
      (method, methodName, self.target) = (.post, "POST", Array("/grpc.health.v1.Health/Check".utf8))
      body = GRPCHealthMessage.request(service: service)
      if !says("te") { lines.append((Array("TE".utf8), Array("trailers".utf8))) }
      lines.removeAll { $0.name.withUnsafeBytes { $0.equalsIgnoringCase("content-type") } }
      lines.append((Array("Content-Type".utf8), Array("application/grpc".utf8)))
    case .tcp: return nil
    }
    // Each check has a connection of its own.
    if pass.version != .http2 { lines.append((Array("Connection".utf8), Array("close".utf8))) }
    fields = FieldBlock(lines)
  }

  /// Fills a head that is sent. Returns false if the target isn't valid, which the configuration has ruled out.
  func fill(_ head: OutgoingRequestHead) -> Bool {
    head.reset(over: nil)
    guard head.setMethod(methodName), target.withUnsafeBytes({ head.setTarget($0) }) else { return false }
    head.add(fields)
    head.framing = body == nil ? .none : .chunked
    return true
  }

  /// Fields of the connection, of the framing, and those that make a server answer otherwise than by a response.
  private static func isLeftOut(_ name: [UInt8]) -> Bool {
    name.withUnsafeBytes { name in
      ["connection", "upgrade", "keep-alive", "proxy-connection", "content-length", "transfer-encoding", "expect"]
        .contains { (other: StaticString) in name.equalsIgnoringCase(other) }
    }
  }
}

extension UpstreamPass {
  /// The value of a template for a request that no client made; nil if it depends on a client.
  ///
  /// As in nginx, `$host` is the name of the server block where no request has a Host.
  package func withoutClient(_ template: Template, serverName: String) -> [UInt8]? {
    var value: [UInt8] = []
    for part in template.parts {
      // No `set` runs for a check, so a variable that one could set has its own value.
      let part = if case .variable(.settable(_, let own)) = part { Template.Part.variable(own) } else { part }
      switch part {
      case .literal(let bytes): value += bytes
      case .variable(.simple(.proxy_host)): value += target.host.utf8
      case .variable(.simple(.proxy_port)): value += target.port.utf8
      case .variable(.feature(ServerNames.variable)), .variable(.simple(.host)): value += serverName.utf8
      case .variable: return nil
      }
    }
    return value
  }
}

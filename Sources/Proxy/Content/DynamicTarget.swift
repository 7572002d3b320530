import Bytes
import Observability
import Upstream

/// The target of a `proxy_pass` with variables, evaluated for one request.
struct DynamicTarget {
  /// Host and port, as written in the target.
  let authority: String
  let defaultPort: UInt16
  /// `$proxy_host` and `$proxy_port`.
  let host: [UInt8]
  let port: [UInt8]
  /// The target's group; nil until the name is resolved.
  var group: UpstreamGroup?

  init(_ target: [UInt8], _ pass: LiveProxyPass) {
    authority = String(decoding: target[..<Self.authorityEnd(target)], as: UTF8.self)
    defaultPort = pass.settings.scheme.defaultPort
    (host, port) = DynamicGroups.variables(of: authority, defaultPort: defaultPort)
  }

  /// Where the host and port of a target end: at its URI. In `unix:/path:/uri` that is the colon after the path.
  static func authorityEnd(_ target: [UInt8]) -> Int {
    if isSocket(target) { return target.dropFirst(5).firstIndex(of: 0x3A) ?? target.count }
    return target.firstIndex { $0 == 0x2F || $0 == 0x3F } ?? target.count
  }

  static func isSocket(_ target: some Collection<UInt8>) -> Bool {
    target.prefix(5).map { ASCII.lower($0) } == Array("unix:".utf8)
  }

  /// Calls `found` with the group of the target's authority, perhaps at once, or responds with 502.
  func find(for exchange: Exchange, _ found: @escaping (UpstreamGroup) -> Void) {
    let serial = exchange.serial
    exchange.session.live.dynamicGroups.find(authority, defaultPort: defaultPort) { outcome in
      // The exchange object may already serve another request.
      guard serial == exchange.serial else { return }
      switch outcome {
      case .success(let group): found(group)
      case .failure(let reason):
        let why = if case .crowded = reason { ": too many names are being looked up" } else { "" }
        exchange.tellOfRepeated(.error, "\(authority) could not be resolved\(why)")
        exchange.fail(ErrorResponse(502))
      }
    }
  }
}

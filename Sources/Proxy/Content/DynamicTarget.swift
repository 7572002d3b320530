import Bytes
import DNS
import Observability
import Upstream

/// The target of a `proxy_pass` that each request finds anew: it has variables, or DNS says the servers of its group.
struct DynamicTarget {
  /// Host and port, as written in the target.
  let authority: String
  let defaultPort: UInt16
  /// `$proxy_host` and `$proxy_port`.
  let host: [UInt8]
  let port: [UInt8]
  /// The target's group; nil until the name is resolved.
  var group: UpstreamGroup?
  /// How the name is resolved; nil: by the system.
  private let names: LiveNames?
  /// The group with `resolve` that the location names.
  private let followed: FollowedGroup?
  /// The question for the name, while it is open.
  private var question: DynamicGroups.Question?

  /// nil: the location can serve nobody.
  init?(for exchange: Exchange, _ pass: LiveProxyPass) {
    names = pass.names
    defaultPort = pass.settings.scheme.defaultPort
    followed = pass.followed
    guard let template = pass.targetTemplate else {
      guard followed != nil else { return nil }
      (authority, host, port) = ("", pass.host, pass.port)
      return
    }
    let target = template.bytes(exchange)
    authority = String(decoding: target[..<Self.authorityEnd(target)], as: UTF8.self)
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

  /// The request ends: nobody waits for the name any more.
  func leave() { question?.withdraw() }

  /// Keeps the question that `find` has returned, unless its answer came at once.
  mutating func keep(_ question: DynamicGroups.Question?) {
    if group == nil { self.question = question }
  }

  /// Calls `found` with the group of the target's authority, perhaps at once, or responds with 502.
  func find(for exchange: Exchange, _ found: @escaping (UpstreamGroup) -> Void) -> DynamicGroups.Question? {
    if let followed {
      found(followed.newest())
      return nil
    }
    let serial = exchange.serial
    let groups = exchange.session.live.dynamicGroups
    return groups.find(authority, defaultPort: defaultPort, by: names) { outcome in
      // The exchange object may already serve another request.
      guard serial == exchange.serial else { return }
      switch outcome {
      case .success(let group): found(group)
      case .failure(let reason):
        exchange.tellOfRepeated(.error, reason.sentence(authority))
        exchange.fail(ErrorResponse(502))
      }
    }
  }
}

extension DynamicGroups.Refusal {
  /// For the error log; what `resolver` says as nginx words it.
  fileprivate func sentence(_ authority: String) -> String {
    switch self {
    case .unknownHost: "\(authority) could not be resolved"
    case .crowded: "\(authority) could not be resolved: too many names are being looked up"
    case .dns(let host, .crowded): "\(host) could not be resolved: \(DNSFailure.crowded)"
    case .dns(let host, let reason): "\(host) could not be resolved (\(reason))"
    }
  }
}

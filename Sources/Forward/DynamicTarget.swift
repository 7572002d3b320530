import Bytes
import DNS
import Observability
import TLS
import Traffic
import Upstream

/// The target of a `proxy_pass` that each request finds anew: it has variables, or DNS says the servers of its group.
///
/// Computed once for a request: a variable could have another value the next time.
struct DynamicTarget {
  /// How connections to the target begin. An https target without trust settings can't be written down.
  enum Security {
    case plain
    case tls(UpstreamTLSContext)

    /// nil: plain HTTP.
    var context: UpstreamTLSContext? { if case .tls(let context) = self { context } else { nil } }
    var scheme: UpstreamScheme { if case .tls = self { .https } else { .http } }
  }

  /// Why no request goes to the target.
  struct Refusal: Error {
    /// For the error log; nil where the log has the cause already.
    let sentence: String?
    let cause: RefusalCause

    init(sentence: String?, _ cause: RefusalCause) {
      self.sentence = sentence
      self.cause = cause
    }

    /// Refuses the client, and logs the reason.
    func answer(_ transaction: Transaction) {
      if let sentence { transaction.tellOfRepeated(.error, sentence) }
      transaction.refuse(cause)
    }
  }

  let security: Security
  /// Host and port, as written in the target.
  let authority: String
  /// The URI that the upstream gets; empty: that of the request.
  let uri: [UInt8]
  /// `$proxy_host` and `$proxy_port`.
  let host: [UInt8]
  let port: [UInt8]
  /// The target's group; nil until the name is resolved.
  var group: UpstreamGroup?
  private let groups: DynamicGroups
  /// How the name is resolved; nil: by the system.
  private let names: LiveNames?
  /// The group with `resolve` that the location names.
  private let followed: FollowedGroup?
  /// The question for the name, while it is open.
  private var question: DynamicGroups.Question?

  var defaultPort: UInt16 { security.scheme.defaultPort }
  /// What follows the scheme.
  var text: String { authority + String(decoding: uri, as: UTF8.self) }

  init(for transaction: Transaction, _ pass: CompiledPass) throws(Refusal) {
    groups = pass.dynamicGroups
    names = pass.names
    followed = pass.followed
    guard let template = pass.targetTemplate else {
      guard followed != nil else { throw Refusal(sentence: nil, .fault) }
      security = try Self.security(pass.settings.scheme ?? .https, pass, "")
      (authority, uri, host, port) = ("", [], pass.host, pass.port)
      return
    }
    let value = template.bytes(transaction)
    guard let (scheme, start) = Self.scheme(of: value, pass.settings) else {
      throw Refusal(
        sentence: "invalid URL prefix in \"\(LogEscape.text(value))\"", .fault)
    }
    let target = Array(value[start...])
    security = try Self.security(scheme, pass, LogEscape.text(value))
    let end = Self.authorityEnd(target)
    authority = String(decoding: target[..<end], as: UTF8.self)
    // In `unix:/path:/uri`, a colon stands between the two.
    uri = Array(target[end...].dropFirst(end < target.count && target[end] == 0x3A ? 1 : 0))
    // As in nginx: the path of a gRPC request is the method's name.
    guard pass.settings.dialect.takesPath || uri.isEmpty else {
      throw Refusal(sentence: "invalid host in upstream \"\(LogEscape.text(target))\"", .fault)
    }
    (host, port) = DynamicGroups.variables(
      of: authority, defaultPort: pass.settings.dialect.needsPort ? nil : scheme.defaultPort)
  }

  /// The scheme of a value, and where its authority begins; nil for a URL of another scheme, or of none that needs one.
  private static func scheme(of value: [UInt8], _ settings: UpstreamPass) -> (scheme: UpstreamScheme, count: Int)? {
    settings.scheme.map { ($0, 0) } ?? settings.dialect.scheme(of: value)
  }

  /// Fails closed: without trust settings, no request goes to an https upstream, and none goes there in plaintext.
  private static func security(
    _ scheme: UpstreamScheme, _ pass: CompiledPass, _ url: String
  ) throws(Refusal) -> Security {
    if scheme == .http { return .plain }
    if let context = pass.context { return .tls(context) }
    throw Refusal(
      sentence: "no trust settings for the https upstream \"\(url)\" that the variables of \"proxy_pass\" lead to",
      .upstream)
  }

  /// Where the host and port of a target end: at its URI. In `unix:/path:/uri` that is the colon after the path.
  static func authorityEnd(_ target: [UInt8]) -> Int {
    if isSocket(target) { return target.dropFirst(5).firstIndex(of: 0x3A) ?? target.count }
    return target.firstIndex { $0 == 0x2F || $0 == 0x3F } ?? target.count
  }

  static func isSocket(_ target: some Collection<UInt8>) -> Bool {
    target.prefix(5).map { ASCII.lower($0) } == Array("unix:".utf8)
  }

  /// Why no port is known in a protocol that has no default; nil: one is, or the target is a group or a socket.
  func portFault(in transaction: Transaction) -> String? {
    guard followed == nil, !Self.isSocket(authority.utf8), (try? HostPort(authority, bareIPv6: .isHost))?.port == nil,
      !groups.isGroup(authority)
    else { return nil }
    return authority.isEmpty ? "no host in upstream \"\"" : "no port in upstream \"\(authority)\""
  }

  /// The request ends: nobody waits for the name any more.
  func leave() { question?.withdraw() }

  /// Keeps the question that `find` has returned, unless its answer came at once.
  mutating func keep(_ question: DynamicGroups.Question?) {
    if group == nil { self.question = question }
  }

  /// Calls `found` with the group of the target's authority, perhaps at once, or refuses the client.
  func find(for transaction: Transaction, _ found: @escaping (UpstreamGroup) -> Void) -> DynamicGroups.Question? {
    if let followed {
      found(followed.newest())
      return nil
    }
    let serial = transaction.serial
    return groups.find(authority, defaultPort: defaultPort, by: names) { outcome in
      // The exchange object may already serve another request.
      guard serial == transaction.serial else { return }
      switch outcome {
      case .success(let group): found(group)
      case .failure(let reason):
        transaction.tellOfRepeated(.error, reason.sentence(authority))
        transaction.refuse(.upstream)
      }
    }
  }
}

extension DynamicGroups.Refusal {
  /// For the error log; what `resolver` says as nginx words it.
  fileprivate func sentence(_ authority: String) -> String {
    switch self {
    case .unknownHost: "\(authority) could not be resolved"
    case .zone: "\(authority) has a zone, and sallyport connects to no IPv6 address with one"
    case .crowded: "\(authority) could not be resolved: too many names are being looked up"
    case .dns(let host, .crowded): "\(host) could not be resolved: \(DNSFailure.crowded)"
    case .dns(let host, let reason): "\(host) could not be resolved (\(reason))"
    }
  }
}

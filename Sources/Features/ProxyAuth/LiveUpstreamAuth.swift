import Forward
import Traffic
import Transport
import Upstream
import UpstreamAuth

extension UpstreamAuthSettings: PassPart {
  var fileUses: [FileUse] {
    let users = FileUse.material([users], reloads: reloads)
    if case .permanent(folder: let folder) = persistence { return users + [.path(.change, folder)] }
    return users
  }

  func policy(_ loaded: GenerationParts) -> [PassPolicyLine] {
    let known: [(AuthSchemes, String)] = [(.digest, "digest"), (.ntlm, "ntlm"), (.basic, "basic")]
    let names = known.filter { schemes.contains($0.0) }.map(\.1).joined(separator: ", ")
    guard let count = loaded[UpstreamUsers.self].files[users]?.count else { return [PassPolicyLine("answers", nil)] }
    let first = PassPolicyLine(
      "answers", "a 401 by \(names), as one of \(count) users of \(users); 403 for other clients")
    return [first]
      + spaces.map { space in
        let realm = space.realm.map { ", realm \"\(String(decoding: $0, as: UTF8.self))\"" } ?? ""
        return PassPolicyLine(
          "", "in \(space.scheme)://\(space.host)\(space.port.map { ":\($0)" } ?? "")\(realm)")
      }
  }

  func compile(_ parts: inout PassParts, _ makers: LiveMakers) {
    let live = LiveUpstreamAuth(self, parts.pass, parts.group, makers)
    for name in LiveUpstreamAuth.ours { parts.replace(name) }
    for name in LiveUpstreamAuth.hidden { parts.hide(name) }
    parts.requestHooks.append(live)
  }
}

/// `proxy_auth` of a location in one worker.
final class LiveUpstreamAuth: RequestHook {
  /// A server that may send a challenge, and the key under which the challenge is stored.
  struct Place {
    let origin: AuthOrigin
    let key: String
  }

  /// Fields that only sallyport sends. It doesn't forward a client's field of such a name, in any spelling.
  static let ours = ["Authorization", "Proxy-Authorization"]
  /// Response fields that the client doesn't get.
  static let hidden = [
    "www-authenticate", "authentication-info", "proxy-authenticate", "proxy-authentication-info",
  ]

  let settings: UpstreamAuthSettings
  /// Never nil in a loaded generation; with nil, the response would be 500.
  let users: UserFile?
  /// nil: nothing is remembered.
  let store: ChallengeStore?
  /// Whether every connection belongs to one user (NTLM).
  var bindsConnections: Bool { settings.schemes.contains(.ntlm) }
  /// Whether a connection can carry more than one request: always in HTTP/2, which has no `Connection` field; in HTTP/1.1
  /// unless `Connection: close` has the server close it.
  let keepsConnections: Bool
  private let terms: String
  private let places: [Place]

  init(_ settings: UpstreamAuthSettings, _ pass: UpstreamPass, _ group: UpstreamGroup?, _ makers: LiveMakers) {
    self.settings = settings
    users = makers.generation[UpstreamUsers.self].files[settings.users]
    store = makers.shared.challenges.store(settings.persistence, log: makers.generation.errorLog)
    keepsConnections =
      switch pass.version {
      case .http10: false
      case .http11: !pass.request.fields.contains(where: \.closesConnection)
      case .http2, .tcp, .wire: true
      }
    // Locations with other schemes or spaces have entries of their own.
    let terms =
      "\(settings.schemes.rawValue) "
      + settings.spaces.map { "\($0.host):\($0.port ?? 0) \(String(decoding: $0.realm ?? [], as: UTF8.self))" }
      .joined(separator: " ")
    self.terms = terms
    if let group, let scheme = pass.scheme {
      places = group.servers.map { Self.place($0, of: group, scheme, terms) }
    } else {
      places = []
    }
  }

  override func begin(_ exchange: Exchange, _ handler: ProxyHandler) throws(ErrorResponse) -> ExchangeHook? {
    UpstreamAuthentication(self, try UpstreamAuthentication.user(for: exchange, self), handler)
  }

  override func rehearse(_ exchange: Exchange) throws(ErrorResponse) {
    _ = try UpstreamAuthentication.user(for: exchange, self)
  }

  override var note: String? { "a 401 of the upstream is answered (proxy_auth)" }

  /// The place of a server in the group; with variables in `proxy_pass`, group and scheme depend on the request.
  func place(_ server: Int, of group: UpstreamGroup, _ scheme: UpstreamScheme) -> Place? {
    if places.indices.contains(server) { return places[server] }
    return group.servers.indices.contains(server) ? Self.place(group.servers[server], of: group, scheme, terms) : nil
  }

  private static func place(
    _ server: ResolvedGroup.Server, of group: UpstreamGroup, _ scheme: UpstreamScheme, _ terms: String
  ) -> Place {
    let (host, port): (String, UInt16?) =
      switch server.settings.address {
      case .address(let address): (address.host, address.port)
      case .name(let name, let port): (name.lowercased(), port)
      }
    let name = group.settings.name.lowercased()
    return Place(
      origin: AuthOrigin(scheme: scheme.rawValue, group: name, host: host, port: port),
      key: "\(scheme.rawValue)://\(name)/\(server.address) \(terms)")
  }
}

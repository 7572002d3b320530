import HTTP
import Transport
import Upstream

/// What the choice of a group's server asks of requests, in one worker.
final class LiveBalance {
  private let key: CompiledTemplate?
  private let lookups: [CompiledTemplate]
  private let cookie: StickyCookie?
  private let learning: Learning?

  /// `sticky learn`
  private struct Learning {
    let zone: LearnZone
    let creates: [CompiledTemplate]
    let timeout: UInt64
    let isEarly: Bool
  }

  init(_ settings: BalanceSettings, of group: String, _ zones: LearnZones) {
    key = settings.key.map(\.compiled)
    switch settings.sticky {
    case nil: (lookups, cookie, learning) = ([], nil, nil)
    case .cookie(let settings):
      lookups = [Template([.variable(.cookie(settings.name))]).compiled]
      (cookie, learning) = (StickyCookie(settings), nil)
    case .route(let variables): (lookups, cookie, learning) = (variables.map(\.compiled), nil, nil)
    case .learn(let settings):
      lookups = settings.lookups.map(\.compiled)
      cookie = nil
      learning = Learning(
        zone: zones.zone(settings, of: group), creates: settings.creates.map(\.compiled),
        timeout: UInt64(max(0, settings.timeout)), isEarly: settings.isEarly)
    }
  }

  /// Fills in what the request brings.
  func fill(_ selection: inout Selection, for exchange: Exchange) {
    if let key, let digest = key.bytes(exchange).withUnsafeBytes({ KeyDigest($0) }) { selection.key = .digest(digest) }
    guard let name = Self.first(of: lookups, exchange) else { return }
    if let learning {
      selection.identifier = learning.zone.server(
        of: LearnedServers.Key(name), now: exchange.worker.loop.now, timeout: learning.timeout)
    } else {
      selection.identifier = name
    }
  }

  /// Tells the client or the zone which server responds: with the head, which is not sent yet.
  func bind(_ server: [UInt8], _ exchange: Exchange, status: UInt16) {
    cookie?.add(server, to: exchange.response, of: exchange)
    // A tunnel has no end at which its session could be learnt.
    if learning?.isEarly == true || status == 101 { learn(server, exchange) }
  }

  /// The response has come whole.
  func bindAtEnd(_ server: [UInt8], _ exchange: Exchange) { if learning?.isEarly == false { learn(server, exchange) } }

  private func learn(_ server: [UInt8], _ exchange: Exchange) {
    guard let learning else { return }
    let created = Self.first(of: learning.creates, exchange)
    guard let name = created ?? Self.first(of: lookups, exchange) else { return }
    learning.zone.learn(
      LearnedServers.Key(name), server, now: exchange.worker.loop.now, timeout: learning.timeout,
      mayCreate: created != nil)
  }

  private static func first(of templates: [CompiledTemplate], _ exchange: Exchange) -> [UInt8]? {
    for template in templates {
      let value = template.bytes(exchange)
      if !value.isEmpty { return value }
    }
    return nil
  }
}

/// Where the choice of a server depends on the request: only groups with `hash`, `ip_hash` or `sticky` come here.
enum GroupChoice {
  @inline(never)
  static func fill(_ selection: inout Selection, for exchange: Exchange, _ group: UpstreamGroup) {
    if group.settings.method == .addressHash { selection.key = .address(address(exchange.clientAddress)) }
    balance(of: group, exchange)?.fill(&selection, for: exchange)
  }

  /// Binds the client to the server whose response begins.
  @inline(__always)
  static func bind(_ exchange: Exchange, _ group: UpstreamGroup?, _ server: Int?, status: UInt16) {
    if let group, !group.identifiers.isEmpty { bindInGroup(exchange, group, server, status: status) }
  }

  /// The same, when the response has come whole.
  @inline(__always)
  static func bindAtEnd(_ exchange: Exchange, _ group: UpstreamGroup?, _ server: Int?) {
    if let group, !group.identifiers.isEmpty { bindInGroup(exchange, group, server, status: nil) }
  }

  /// `status`: nil at the end of the response.
  @inline(never)
  private static func bindInGroup(_ exchange: Exchange, _ group: UpstreamGroup, _ server: Int?, status: UInt16?) {
    guard let server, group.identifiers.indices.contains(server) else { return }
    let (identifier, balance) = (group.identifiers[server], balance(of: group, exchange))
    if let status {
      balance?.bind(identifier, exchange, status: status)
    } else {
      balance?.bindAtEnd(identifier, exchange)
    }
  }

  private static func balance(of group: UpstreamGroup, _ exchange: Exchange) -> LiveBalance? {
    (exchange.handler as? UpstreamHandler)?.pass?.balances[group.identity]
  }

  private static func address(_ client: SocketAddress) -> AddressKey {
    switch client {
    case .ipv4(let address, _): AddressKey(ipv4: address)
    case .ipv6(let high, let low, _): AddressKey(high: high, low: low)
    case .unix: AddressKey()
    }
  }
}

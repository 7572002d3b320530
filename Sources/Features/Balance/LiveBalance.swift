import Forward
import HTTP
import Traffic
import Transport
import Upstream

/// What the choice of a group's server asks of requests, in one worker.
final class LiveBalance: GroupBalance {
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
  override func fill(_ selection: inout Selection, for transaction: Transaction) {
    if let key, let digest = key.bytes(transaction).withUnsafeBytes({ KeyDigest($0) }) {
      selection.key = .digest(digest)
    }
    guard let name = Self.first(of: lookups, transaction) else { return }
    if let learning {
      selection.identifier = learning.zone.server(
        of: LearnedServers.Key(name), now: transaction.worker.loop.now, timeout: learning.timeout)
    } else {
      selection.identifier = name
    }
  }

  /// Tells the client or the zone which server responds: with the head, which is not sent yet.
  override func bind(_ server: [UInt8], _ exchange: Exchange, status: UInt16) {
    cookie?.add(server, to: exchange.response, of: exchange)
    // A tunnel has no end at which its session could be learnt.
    if learning?.isEarly == true || status == 101 { learn(server, exchange) }
  }

  /// The response has come whole.
  override func bindAtEnd(_ server: [UInt8], _ exchange: Exchange) {
    if learning?.isEarly == false { learn(server, exchange) }
  }

  private func learn(_ server: [UInt8], _ exchange: Exchange) {
    guard let learning else { return }
    let created = Self.first(of: learning.creates, exchange)
    guard let name = created ?? Self.first(of: lookups, exchange) else { return }
    learning.zone.learn(
      LearnedServers.Key(name), server, now: exchange.worker.loop.now, timeout: learning.timeout,
      mayCreate: created != nil)
  }

  private static func first(of templates: [CompiledTemplate], _ transaction: Transaction) -> [UInt8]? {
    for template in templates {
      let value = template.bytes(transaction)
      if !value.isEmpty { return value }
    }
    return nil
  }
}

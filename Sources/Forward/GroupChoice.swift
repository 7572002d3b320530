import HTTP
public import Traffic
import Transport
public import Upstream

/// What a feature asks of requests to choose a group's server, and tells of the choice. One for each group of a worker.
open class GroupBalance {
  public init() {}

  /// Fills in what the request or the session brings.
  open func fill(_ selection: inout Selection, for transaction: Transaction) {}
  /// The response of this server begins: its head is not sent yet.
  open func bind(_ server: [UInt8], _ exchange: Exchange, status: UInt16) {}
  /// The response has come whole.
  open func bindAtEnd(_ server: [UInt8], _ exchange: Exchange) {}
}

/// A feature that says how a group's server is chosen.
package protocol BalanceFeature: ForwardFeature {
  /// What the choice of servers asks of requests, by the index of the group.
  static func balances(_ makers: LiveMakers) -> [Int: GroupBalance]
}

extension BalanceFeature {
  package static var asBalance: (any BalanceFeature.Type)? { self }
}

/// What features ask of requests to choose servers, for all groups of a generation in one worker.
final class GroupBalances: LivePart {
  /// By the identity of the group.
  let all: [ObjectIdentifier: GroupBalance]

  required init(_ makers: LiveMakers) {
    var all: [ObjectIdentifier: GroupBalance] = [:]
    let groups = makers[LiveGroups.self].all
    for feature in makers.shared.features.directives[PassFeatureList.self].balancing {
      for (index, balance) in feature.balances(makers) where groups.indices.contains(index) {
        all[groups[index].identity] = balance
      }
    }
    self.all = all
    super.init(makers)
  }
}

/// Where the choice of a server depends on the request: only groups with `hash`, `ip_hash` or `sticky` come here.
enum GroupChoice {
  @inline(never)
  static func fill(_ selection: inout Selection, for transaction: Transaction, _ group: UpstreamGroup) {
    if group.settings.method == .addressHash { selection.key = .address(address(transaction.clientAddress)) }
    balance(of: group, transaction)?.fill(&selection, for: transaction)
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

  private static func balance(of group: UpstreamGroup, _ transaction: Transaction) -> GroupBalance? {
    UpstreamHandler.pass(of: transaction)?.balances[group.identity]
  }

  private static func address(_ client: SocketAddress) -> AddressKey {
    switch client {
    case .ipv4(let address, _): AddressKey(ipv4: address)
    case .ipv6(let high, let low, _): AddressKey(high: high, low: low)
    case .unix, .name: AddressKey()
    }
  }
}

import Synchronization

/// What a feature responds to requests before a server block is chosen for them. It lives over generations.
package protocol EntryPart: SharedPart {
  /// Responds to a request that is the feature's. Returns false for all other requests.
  func responds(to exchange: Exchange, _ session: ClientSession) -> Bool
}

/// Whether any entry part has something to respond to: every request asks.
package final class EntryState: Sendable {
  private let active = Atomic(0)

  /// An entry part begins, or no longer has, something to respond to.
  package func begin() { active.add(1, ordering: .releasing) }
  package func end() { active.subtract(1, ordering: .releasing) }

  var isActive: Bool { active.load(ordering: .acquiring) != 0 }
}

extension Exchange {
  /// Whether a feature has responded before a server block was chosen.
  @inline(never)
  func isAnsweredAtEntry(_ session: ClientSession) -> Bool {
    func responds<Part: EntryPart>(_ kind: Part.Type) -> Bool { worker.shared[kind].responds(to: self, session) }
    return worker.shared.features.entryParts.contains { responds($0) }
  }
}

/// Settles, at the entry to a server block, what address the client has. Before any phase.
open class ClientAddressStep {
  public init() {}

  open func run(_ exchange: Exchange) {}
  open func run(_ session: StreamSession) {}
}

/// Settles, at the entry to a server block, by whose certificate a request is judged. Before the block admits it.
open class RelayedClientStep {
  public init() {}

  open func run(_ exchange: Exchange, _ session: ClientSession, at server: LiveServer) {}
  /// Whether the session's peer may say which certificate a client has, by its address.
  open func isFront(_ session: ClientSession) -> Bool { false }
  /// Whether somebody who has sent a request from this source may still do so.
  open func believes(_ source: RelayedClient.Source, _ session: ClientSession) -> Bool { false }
}

import Configuration
import Forward
import Glibc
import Observability
import Systemd
import Traffic
import Transport
import Upstream

/// At a start, waits for DNS that can't be asked yet.
///
/// After a boot the network is often not ready when sallyport starts. nginx refuses the start, and the service stays down.
/// A name that doesn't exist is still an error at once. The wait has no end of its own: systemd ends it by
/// TimeoutStartSec=, says so, and starts the service again.
enum NameWait {
  /// The host names that a start resolves.
  static func names(of settings: Settings) -> [String] {
    var addresses: [UpstreamAddress] = []
    for group in settings.http.groups where !group.isNamedToProxies {
      for server in group.servers where server.followed == nil { addresses.append(server.address) }
    }
    for resolver in settings.http.resolvers { addresses += resolver.servers.map(\.address) }
    var names: [String] = []
    for address in addresses { if case .name(let host, _) = address { names.append(host) } }
    for location in settings.http.servers.flatMap(\.root.withNested) {
      names += location.hosts.map(\.name)
    }
    return names
  }

  /// Calls `prepare` until it succeeds or fails for another reason.
  static func until<Prepared>(
    _ prepare: () throws(Refusal) -> Prepared, pause: () -> Void = { sleep(1) },
    cannotAsk: (String) -> Bool = Resolver.cannotAsk
  ) throws(Refusal) -> Prepared {
    var rounds = 0
    while true {
      do throws(Refusal) {
        return try prepare()
      } catch {
        guard case .names(let names) = error.cause, let name = names.first(where: cannotAsk) else { throw error }
        let words = "waiting for DNS, to resolve \"\(name)\""
        // A line a minute.
        if rounds % 60 == 0 { Daemon.print([Diagnostic(.warning, at: nil, words)]) }
        Notification.send(.status("Starting: \(words)"))
        rounds &+= 1
        pause()
      }
    }
  }
}

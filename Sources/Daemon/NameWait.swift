import Configuration
import Forward
import Glibc
import Loading
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

import HTTP
import Upstream

extension UpstreamGroup {
  /// Begins an attempt without a server in mind. `server`: nil if none was left.
  func attempt(
    _ observer: AttemptObserver = AttemptObserver(), trust: UpstreamTrust = UpstreamTrust(context: nil, name: "")
  ) -> (server: Int?, failure: AttemptFailure?) {
    var selection = Selection()
    guard let ticket = pick(&selection) else { return (nil, .noServer) }
    let settings = AttemptSettings(timeouts: UpstreamTimeouts(), headLimits: HeadLimits())
    return (ticket.index, begin(observer, on: ticket, trust: trust, settings: settings, isRetry: false))
  }
}

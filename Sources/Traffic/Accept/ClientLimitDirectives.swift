import Crypto
package import Language
import Observability

/// Limits of what all clients together may take. nginx has none of them.
package enum ClientLimits: DirectiveFeature {
  package static let chapter = Chapter.limits

  package static let directives = rows.entries
  private static let rows = Row<ClientLimitSettings>.local([
    .milliseconds(
      "client_queue_timeout", .http, \.queueTimeout,
      "How long new clients wait in the kernel's queue (`listen … backlog=`) while `worker_connections` are used up and no"
        + " connection can be ended for them. When no place has become free for this time, sallyport refuses new clients"
        + " until one does. 0 refuses them at once, as nginx does.", example: "client_queue_timeout 10s;", trust: .none),
    .line(
      "ssl_expiry_warning", .http, .seconds, initial: "14d, in the last quarter of a life",
      "How long before its end `check`, `sallyport health` and the page of `status` warn of a certificate, a CA or a revocation"
        + " list. Without this directive, nothing is told of in the first three quarters of its life. The log has the same warning at a"
        + " start and a reload, and of a list also when the time comes. 0 warns of nothing that has not ended yet.",
      example: "ssl_expiry_warning 30d;", trust: .none
    ) { limits, line, _ in
      if let time = Quantity.seconds(line.text(0)) { limits.expiryNotice = .before(seconds: Int64(clamping: time)) }
    },
    .line(
      "ssl_handshake_limit", .http, .words(1...2, "NUMBER [per_address=NUMBER]"),
      initial: "1024, half of it per address",
      "The number of TLS handshakes of one worker that may be under way, in all (never more than half of"
        + " `worker_connections`) and for one client address (IPv6: for the first 64 bits). Further clients wait, at a cost of about 1 KiB each, and a handshake that takes longer than 3"
        + " seconds is ended for them. With `listen … proxy_protocol`, the address is that of the PROXY header. Without"
        + " `per_address`, one address may have them all.", example: "ssl_handshake_limit 2000 per_address=200;",
      trust: .none
    ) { $0.handshakes = handshakes($1, &$2) },
  ])

  /// The limits of what all clients together may take.
  package static func settings(_ http: Scope, _ builder: inout SettingsBuilder) -> ClientLimitSettings {
    rows.read(http, &builder)
  }

  private static func handshakes(_ line: Directive, _ builder: inout SettingsBuilder) -> HandshakeLimits {
    var limits = HandshakeLimits()
    limits.perAddress = .max
    for index in line.arguments.indices {
      let text = line.text(index), isTotal = index == 0
      let prefix = isTotal ? "" : "per_address="
      guard text.hasPrefix(prefix), let number = Quantity.number(String(text.dropFirst(prefix.count))), number > 0
      else {
        builder.refuse(line, index, hint: "write a number from 1 on, and after it perhaps per_address=NUMBER")
        continue
      }
      if isTotal { limits.total = number } else { limits.perAddress = number }
    }
    return limits
  }
}

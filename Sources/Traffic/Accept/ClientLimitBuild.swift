package import Crypto
import TLS
import Observability
package import Language

extension SettingsBuilder {
  /// The limits of what all clients together may take.
  mutating func clientLimits(_ http: Scope) -> ClientLimitSettings {
    var limits = ClientLimitSettings()
    limits.queueTimeout = http.milliseconds("client_queue_timeout") ?? limits.queueTimeout
    if let line = http.value("ssl_handshake_limit") { limits.handshakes = handshakeLimits(line) }
    return limits
  }

  package func expiryNotice(_ http: Scope) -> ExpiryNotice {
    http.seconds("ssl_expiry_warning").map { .before(seconds: Int64(clamping: $0)) } ?? .standard
  }

  private mutating func handshakeLimits(_ line: Directive) -> HandshakeLimits {
    var limits = HandshakeLimits()
    limits.perAddress = .max
    for index in line.arguments.indices {
      let text = line.text(index), isTotal = index == 0
      let prefix = isTotal ? "" : "per_address="
      guard text.hasPrefix(prefix), let number = Quantity.number(String(text.dropFirst(prefix.count))), number > 0
      else {
        refuse(line, index, hint: "write a number from 1 on, and after it perhaps per_address=NUMBER")
        continue
      }
      if isTotal { limits.total = number } else { limits.perAddress = number }
    }
    return limits
  }
}

import Bytes
import Crypto
import Observability
import Traffic

/// The variables of TLS that a connection doesn't keep, because they change while it lasts. Those that it keeps are in
/// `ConnectionFacts`.
extension ServerTLS {
  static let variables = [
    // Every intermediary forwards Early-Data (RFC 8470 §5.1), so it says nothing of the client.
    FeatureVariable(
      "ssl_early_data", "`1` while the request came as early data of TLS 1.3, before the handshake was complete.",
      saysClient: false
    ) { exchange, output in
      if exchange.isEarly { output.append(0x31) }
    },
    ofCertificate(.ssl_client_v_remain, "Days until the client's certificate ends."),
  ]

  /// A variable for a property of the client's certificate, empty without one.
  private static func ofCertificate(_ property: CertificateVariable, _ help: String) -> FeatureVariable {
    FeatureVariable(property.rawValue, help) { exchange, output in
      guard let certificate = exchange.facts.shownCertificate(for: property) else { return }
      exchange.worker.clock.update()
      output.append(property.value(of: certificate, at: exchange.worker.clock.seconds))
    }
  }
}

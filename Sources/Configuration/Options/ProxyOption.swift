import Traffic
import Forward
import Features

/// The options of `sallyport proxy` that make a configuration. Each has a variable of the environment.
package enum ProxyOption: String, Sendable, Hashable, CaseIterable {
  case listen
  case listenAnywhere = "listen-anywhere"
  case cert, key
  case passwordFile = "password-file"
  case clientCA = "client-ca"
  case clientPin = "client-pin"
  case verify, crl, allow, deny
  case tcp, starttls
  case to, pin
  case upstreamCA = "upstream-ca"
  case upstreamName = "upstream-name"
  case upstreamCert = "upstream-cert"
  case upstreamKey = "upstream-key"
  case upstreamID = "upstream-id"
  case upstreamStartTLS = "upstream-starttls"
  case clientCert = "client-cert"
  case clientKey = "client-key"
  case ca
  case spiffeEndpoint = "spiffe-endpoint"
  case via
  case viaUserFile = "via-user-file"
  case healthListen = "health-listen"
  case logLevel = "log-level"
  case user
  case demoCA = "demo-ca"

  /// `--client-ca`
  package var spelling: String { "--\(rawValue)" }

  /// `SALLYPORT_CLIENT_CA`
  package var variable: String {
    Self.prefix + String(rawValue.map { $0 == "-" ? "_" : Character($0.uppercased()) })
  }

  package static let prefix = "SALLYPORT_"

  /// Whether the option may be given several times. A variable has one value on each line.
  package var isRepeatable: Bool {
    switch self {
    case .listen, .clientPin, .crl, .allow, .deny, .to, .pin, .upstreamID, .healthListen: true
    case .listenAnywhere, .cert, .key, .passwordFile, .clientCA, .verify, .tcp, .starttls, .upstreamCA, .upstreamName,
      .upstreamCert, .upstreamKey, .upstreamStartTLS, .clientCert, .clientKey, .ca, .spiffeEndpoint, .via, .viaUserFile,
      .logLevel, .user,
      .demoCA:
      false
    }
  }

  /// The option that means the same with `--cert`, for a word of the client's side; nil if this is none.
  ///
  /// Without `--cert` only the upstream has TLS, so that nobody can take these words for options about clients.
  var besideCertificate: ProxyOption? {
    switch self {
    case .clientCert: .upstreamCert
    case .clientKey: .upstreamKey
    case .ca: .upstreamCA
    case .starttls: .upstreamStartTLS
    default: nil
    }
  }
}

/// One value with the option or the variable that gave it, by which errors name it.
package struct ProxyValue: Sendable, Hashable {
  package let option: ProxyOption
  package let text: String
  /// `--pin` or `SALLYPORT_PIN`.
  package let origin: String

  package init(_ option: ProxyOption, _ text: String, origin: String) {
    self.option = option
    self.text = text
    self.origin = origin
  }
}

/// A mistake in the options or variables. The text names the culprit.
package struct ProxyOptionFault: Error, Sendable, Hashable, CustomStringConvertible {
  package let text: String
  package let hint: String?

  package init(_ text: String, hint: String? = nil) {
    self.text = text
    self.hint = hint
  }

  package var description: String { "error: \(text)" + (hint.map { "\n    hint: \($0)" } ?? "") }
}

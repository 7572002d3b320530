import Forward
import Identity
import Language
import Observability
import TLS
import Traffic

/// What contradicts `real_client_cert_from`, in a server block. Each case is one rule.
enum RealClientCertRule: CaseIterable {
  case frontsWithoutField
  case fieldWithoutFronts
  case withoutVerification
  case besideHandshakeRejection
  case besideResponders
  case besidePins
  case besideAnyPurpose
  case everyAddress
  case selectorOnPlainText
  case addressOnPlainText

  /// `settings`: nil if one of the two directives is missing, or has an error.
  func diagnostic(_ settings: RealClientCert?, _ block: ServerBlock) -> Diagnostic? {
    let fronts = RealClientCert.fromLine.lines(in: block.scope),
      header = RealClientCert.headerLine.line(in: block.scope)
    switch self {
    case .frontsWithoutField:
      guard header == nil, let line = fronts.first else { return nil }
      return Diagnostic(
        .error, at: line.location, "\"\(RealClientCert.fromLine.name)\" without \"\(RealClientCert.headerLine.name)\"",
        hint: "name the field in which the front sends the certificate: real_client_cert_header Client-Cert rfc9440;")
    case .fieldWithoutFronts:
      guard fronts.isEmpty, let header else { return nil }
      return Diagnostic(
        .error, at: header.location,
        "\"\(RealClientCert.headerLine.name)\" without \"\(RealClientCert.fromLine.name)\"",
        hint: "name the fronts whose word is taken: real_client_cert_from 10.0.0.0/8;")
    case .withoutVerification:
      guard settings != nil, let line = fronts.first else { return nil }
      switch block.clients?.verification {
      case .on, .optional: return nil
      case .off, .optionalNoCA, nil:
        return Diagnostic(
          .error, at: line.location,
          "\"\(line.name)\" needs verified client certificates, but the server at \(block.place) says ssl_verify_client \(block.clients?.verification.rawValue ?? "off")",
          hint:
            "ssl_verify_client on, or optional: it is about the clients behind the front, and a front that is listed by its address needs no certificate"
        )
      }
    case .besideHandshakeRejection:
      guard settings != nil, block.clients?.rejection == .handshake, let line = fronts.first else { return nil }
      return Diagnostic(
        .error, at: line.location, "\"\(line.name)\" beside \"ssl_verify_reject handshake\"",
        hint: "the handshake is the front's, so that a client can be refused by HTTP only: ssl_verify_reject http;")
    case .besideResponders:
      guard settings != nil, let status = block.clients?.clientStatus, status.extent != .off, let line = fronts.first
      else { return nil }
      return Diagnostic(
        .error, at: line.location, "\"\(line.name)\" beside \"ssl_ocsp \(status.extent.rawValue)\"",
        hint: "no responder is asked about a certificate in a field: use ssl_crl, and ssl_ocsp off; here")
    case .besidePins:
      guard settings != nil, block.hasClientPins, let line = fronts.first else { return nil }
      return Diagnostic(
        .error, at: line.location, "\"\(line.name)\" beside \"ssl_client_pin\"",
        hint:
          "a pin vouches for a key that the client proves to sallyport; here the front has seen the proof: use ssl_client_certificate, and ssl_client_allow spki=…"
      )
    case .besideAnyPurpose:
      guard settings != nil, block.clients?.clientPurpose == .any, let line = fronts.first else { return nil }
      return Diagnostic(
        .error, at: line.location, "\"\(line.name)\" beside \"ssl_client_purpose any\"",
        hint: "a certificate in a field must be one for clients: ssl_client_purpose client;")
    case .everyAddress:
      guard let open = settings?.addresses.first(where: { $0.source.isEverybody }) else { return nil }
      return Diagnostic(
        .error, at: open.location,
        "with \"\(open.source.asWritten)\", everybody may say which certificate a client has",
        hint: "name the addresses of the fronts alone: whoever else has one of them can be any client")
    case .selectorOnPlainText:
      guard let settings, block.tls == nil, let selector = settings.selectors?.allow.first else { return nil }
      return Diagnostic(
        .error, at: selector.location, "no front can show a certificate: the server has no listen with ssl",
        hint: "listen 443 ssl; or name the front by its address")
    case .addressOnPlainText:
      guard let settings, block.tls == nil || block.alsoPlain, let address = settings.addresses.first else {
        return nil
      }
      return Diagnostic(
        .warning, at: address.location,
        "clients' certificates come without TLS from the front: whoever is on the path can be any client",
        hint: "listen 443 ssl; or see to it that nobody else can send from these addresses")
    }
  }
}

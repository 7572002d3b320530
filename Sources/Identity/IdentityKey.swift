/// The parts of a client certificate that a rule may test. The raw value is the spelling (docs/DIRECTIVES.md,
/// `ssl_client_allow`).
public enum IdentityKey: String, Sendable, Hashable, CaseIterable {
  case cn, o, ou
  /// Names of the subjectAltName extension; the CN never replaces them.
  case dns, email, uri, ip
  /// In the form of $ssl_client_serial.
  case serial
  /// In the form of $ssl_client_i_dn.
  case issuer
  /// The SHA-256 of the certificate, and of its SubjectPublicKeyInfo.
  case fingerprint, spki

  /// Whether a pin alone vouches for the value: it is a hash of what the pin and the handshake prove, and no statement.
  package var isHash: Bool { self == .fingerprint || self == .spki }

  /// The place in `allCases`. A dictionary of keys would hash their spelling for each condition of each rule.
  var place: Int {
    switch self {
    case .cn: 0
    case .o: 1
    case .ou: 2
    case .dns: 3
    case .email: 4
    case .uri: 5
    case .ip: 6
    case .serial: 7
    case .issuer: 8
    case .fingerprint: 9
    case .spki: 10
    }
  }
}

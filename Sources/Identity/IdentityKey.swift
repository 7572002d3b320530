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
}

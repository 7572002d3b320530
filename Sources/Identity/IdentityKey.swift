/// What of a client's certificate a rule may ask for; the raw value is its spelling (docs/DIRECTIVES.md,
/// `ssl_client_allow`).
public enum IdentityKey: String, Sendable, Hashable, CaseIterable {
  case cn, o, ou
  /// Of the subjectAltName extension; the CN never stands in.
  case dns, email, uri, ip
  /// As $ssl_client_serial.
  case serial
  /// As $ssl_client_i_dn.
  case issuer
  /// SHA-256 of the certificate, and of its SubjectPublicKeyInfo.
  case fingerprint, spki
}

/// A protocol whose connections begin in clear and change to TLS when the client asks for it. The raw value is the word
/// of the configuration.
public enum NegotiatedProtocol: String, CaseIterable, Sendable {
  /// PostgreSQL, protocol 3: SSLRequest.
  case postgres
  /// RFC 3207.
  case smtp
  /// RFC 9051 §6.2.1.
  case imap
  /// RFC 2595 §4.
  case pop3
  /// RFC 4511 §4.14.
  case ldap

  /// The name of PostgreSQL's protocol in ALPN, which its clients offer when they begin with TLS at once.
  public static let postgresALPN = "postgresql"
}

public import Bytes

/// The fields of an entry in systemd's journal that are sallyport's own, by which `journalctl NAME=VALUE` finds entries.
public enum JournalField: String, Sendable, CaseIterable {
  case connection = "SALLYPORT_CONNECTION"
  case client = "SALLYPORT_CLIENT"
  case server = "SALLYPORT_SERVER"
  case status = "SALLYPORT_STATUS"
  case method = "SALLYPORT_METHOD"
  case uri = "SALLYPORT_URI"
  /// `$ssl_client_verify`.
  case verify = "SALLYPORT_VERIFY"
  /// `admitted`, or why sallyport refused the client, in one word.
  case verdict = "SALLYPORT_VERDICT"
  /// Why sallyport refused the client, with the place of the rule.
  case reason = "SALLYPORT_REASON"
  case subject = "SALLYPORT_CERT_SUBJECT"
  case issuer = "SALLYPORT_CERT_ISSUER"
  case serial = "SALLYPORT_CERT_SERIAL"
  case fingerprint = "SALLYPORT_CERT_FINGERPRINT"
  case upstream = "SALLYPORT_UPSTREAM"
  case kind = "MESSAGE_ID"

  /// The key in swift-log's metadata. Lines of text leave such a key out, because they have it in their words.
  package var key: String { Self.prefix + rawValue }
  package static let prefix = "journal."
}

/// Kinds of entries whose lines begin with a peer's words, and have a MESSAGE_ID.
///
/// The identifiers never change. docs/operating/observe.md lists them.
public enum JournalKind: String, Sendable, CaseIterable {
  /// A line of an access log.
  case request = "582beed7ca1542ec92b8af405fb3bf7f"
  /// A client was refused because of its certificate.
  case clientRefused = "3a48e4548de743a59fa47f225bea868e"
}

/// One entry in the native protocol of systemd's journal (systemd.io/JOURNAL_NATIVE_PROTOCOL).
///
/// A value with a line feed has its length in front of it, so no byte of a value can begin another field.
public struct JournalMessage: ~Copyable {
  public private(set) var bytes = ByteBuffer(capacity: 1024)
  /// The longest value. A datagram must have room for all of them.
  static let longestValue = 16_384

  public init(severity: UInt8) {
    append("PRIORITY", "\(severity)")
    append("SYSLOG_IDENTIFIER", "sallyport")
  }

  /// Adds a field. `name`: of capital letters, digits and `_`. An empty value adds nothing.
  public mutating func append(_ name: String, _ value: UnsafeRawBufferPointer) {
    let value = UnsafeRawBufferPointer(rebasing: value.prefix(Self.longestValue))
    guard !value.isEmpty else { return }
    bytes.append(string: name)
    if value.contains(0x0A) {
      bytes.append("\n")
      withUnsafeBytes(of: UInt64(value.count).littleEndian) { bytes.append($0) }
    } else {
      bytes.append("=")
    }
    bytes.append(value)
    bytes.append("\n")
  }

  public mutating func append(_ field: JournalField, _ value: UnsafeRawBufferPointer) { append(field.rawValue, value) }

  public mutating func append(_ name: String, _ value: String) {
    var value = value
    value.withUTF8 { append(name, UnsafeRawBufferPointer($0)) }
  }
}

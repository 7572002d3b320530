public import Bytes

/// One parsed response head: the model from which the proxy rebuilds responses.
///
/// Storage, ranges and exclusivity are as in `RequestHead`.
public final class ResponseHead {
  @usableFromInline @exclusivity(unchecked) var storage = HeadStorage()
  @usableFromInline @exclusivity(unchecked) var parsed = Parsed()

  /// The state of one response, which `reset` clears.
  @usableFromInline struct Parsed {
    @usableFromInline var status: UInt16 = 0
    @usableFromInline var reason = ByteRange.absent
    @usableFromInline var version = HTTPVersion.http11
    @usableFromInline var framing = BodyFraming.none
    @usableFromInline var announcedLength: UInt64?
    @usableFromInline var keepsAlive = false
    @usableFromInline var upgrade: ByteRange?
    @usableFromInline var repeated = FieldNameSet()
  }

  public init() {}

  /// The head's own copy of its bytes, as sent, line ends included.
  @inlinable public var bytes: HeadBytes { HeadBytes(storage.buffer.readable) }
  /// The fields in the order sent, without the fields that `HeadLimits` drops. Valid until the head changes.
  public var fields: UnsafeBufferPointer<Field> { storage.list.elements }
  /// The known names among `fields`.
  @inlinable public var present: FieldNameSet { storage.present }
  /// The known names that more than one of `fields` has.
  @inlinable public var repeated: FieldNameSet { parsed.repeated }
  /// The status, 100 to 999; 0 before the parser has read a status line.
  @inlinable public var status: UInt16 { parsed.status }
  /// The reason phrase of a status line or a Status field; `.empty` where there was neither, or no phrase in the field.
  @inlinable public var reason: ByteRange { parsed.reason }
  @inlinable public var version: HTTPVersion { parsed.version }
  /// The framing of the body, which depends on the request's method (RFC 9112 §6.3).
  @inlinable public var framing: BodyFraming { parsed.framing }
  /// The value of Content-Length, also where HEAD or the status allows no body.
  @inlinable public var announcedLength: UInt64? { parsed.announcedLength }
  /// Whether the connection can carry another message after this body.
  @inlinable public var keepsAlive: Bool { parsed.keepsAlive }
  /// The value of Upgrade, if Connection nominates that field.
  @inlinable public var upgrade: ByteRange? { parsed.upgrade }
  /// Whether another response to the same request follows (1xx, except 101, which ends HTTP on the connection).
  @inlinable public var isInterim: Bool { parsed.status < 200 && parsed.status != 101 }
  /// The number of bytes of the head as sent, line ends included.
  @inlinable public var byteCount: Int { storage.buffer.count }

  /// Clears the response and keeps the storage.
  public func reset() {
    storage.reset()
    parsed = Parsed()
  }

  /// Clears the response and frees the storage.
  public func release() {
    storage.release()
    parsed = Parsed()
  }

  /// Returns the first field of this name.
  @inlinable public func first(_ id: FieldName) -> Field? {
    guard present.contains(id) else { return nil }
    return fields.first(id)
  }

  /// Returns the value of the first field of this name, compared without case.
  public func value(named name: UnsafeRawBufferPointer) -> ByteRange? {
    storage.value(named: name)
  }

  /// Appends the values of the fields whose name maps to this variable: nginx's `$upstream_http_NAME`. Several are
  /// joined by `, `.
  public func append(variableName: UnsafeRawBufferPointer, to output: inout ByteBuffer) {
    fields.append(variableName: variableName, in: storage.buffer.readable, to: &output)
  }
}

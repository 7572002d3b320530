public import Bytes

/// One response head, parsed: the model that the proxy rebuilds responses from.
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
  }

  public init() {}

  /// The head's own copy of its bytes, as sent, line ends included.
  @inlinable public var bytes: HeadBytes { HeadBytes(storage.buffer.readable) }
  /// In the order sent, without those that `HeadLimits` drops. Valid while the head is not read into, reset or released.
  public var fields: UnsafeBufferPointer<Field> { storage.list.elements }
  /// The known names among `fields`.
  @inlinable public var present: FieldNameSet { storage.present }
  /// 100 to 999; 0 before there is one.
  @inlinable public var status: UInt16 { parsed.status }
  @inlinable public var reason: ByteRange { parsed.reason }
  @inlinable public var version: HTTPVersion { parsed.version }
  /// Decided with the request's method (RFC 9112 §6.3).
  @inlinable public var framing: BodyFraming { parsed.framing }
  /// Content-Length, also where HEAD or the status allow no body.
  @inlinable public var announcedLength: UInt64? { parsed.announcedLength }
  /// The connection can carry another message after this one's body.
  @inlinable public var keepsAlive: Bool { parsed.keepsAlive }
  /// The value of Upgrade, when Connection nominates it.
  @inlinable public var upgrade: ByteRange? { parsed.upgrade }
  /// Another response to the same request follows (1xx, but not 101, after which HTTP has ended).
  @inlinable public var isInterim: Bool { parsed.status < 200 && parsed.status != 101 }
  /// Bytes of the head as sent, its line ends included.
  @inlinable public var byteCount: Int { storage.buffer.count }

  /// Forgets the response, keeps the storage.
  public func reset() {
    storage.reset()
    parsed = Parsed()
  }

  /// Forgets the response and gives the storage back.
  public func release() {
    storage.release()
    parsed = Parsed()
  }

  /// The first field of this name; for `.other`, of any unknown name.
  @inlinable public func first(_ id: FieldName) -> Field? {
    guard present.contains(id) else { return nil }
    return fields.first(id)
  }

  /// The value of the first field of this name, letters folded.
  public func value(named name: UnsafeRawBufferPointer) -> ByteRange? {
    storage.value(named: name)
  }

  /// The value of the first field whose name becomes this variable: nginx's `$upstream_http_NAME`.
  public func value(variableName: UnsafeRawBufferPointer) -> ByteRange? {
    fields.value(variableName: variableName, in: storage.buffer.readable)
  }
}

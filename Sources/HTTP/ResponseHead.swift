public import Bytes

/// One response head, parsed: the model that the proxy rebuilds responses from.
///
/// As `RequestHead` in all that concerns storage, ranges and exclusivity.
public final class ResponseHead {
  /// The head's own copy of its bytes.
  @exclusivity(unchecked) public var bytes = ByteBuffer()
  @exclusivity(unchecked) var list = FieldList()
  /// The known names among `fields`.
  @exclusivity(unchecked) public var present = FieldNameSet()
  /// 100 to 999.
  @exclusivity(unchecked) public var status: UInt16 = 0
  @exclusivity(unchecked) public var reason = ByteRange.absent
  @exclusivity(unchecked) public var version = HTTPVersion.http11
  /// Decided with the request's method (RFC 9112 §6.3).
  @exclusivity(unchecked) public var framing = BodyFraming.none
  /// Content-Length, also where HEAD or the status allow no body.
  @exclusivity(unchecked) public var announcedLength: UInt64?
  /// The connection can carry another message after this one's body.
  @exclusivity(unchecked) public var persists = false
  /// The value of Upgrade, when Connection nominates it.
  @exclusivity(unchecked) public var upgrade: ByteRange?

  public init() {}

  /// In the order sent, without those that `HeadLimits` drops. Valid while the head is not read into, reset or released.
  public var fields: UnsafeBufferPointer<Field> { list.fields }

  /// Another response to the same request follows (1xx, but not 101, after which HTTP has ended).
  @inlinable public var isInterim: Bool { status < 200 && status != 101 }

  /// Forgets the response, keeps the storage.
  public func reset() {
    bytes.removeAll()
    list.removeAll()
    present = FieldNameSet()
    status = 0
    reason = .absent
    version = .http11
    framing = .none
    announcedLength = nil
    persists = false
    upgrade = nil
  }

  /// Forgets the response and gives the storage back.
  public func release() {
    reset()
    bytes.release()
    list.release()
  }

  /// Bytes of the head as sent, its line ends included.
  @inlinable public var byteCount: Int { bytes.count }

  /// The first field of this name; for `.other`, of any unknown name.
  @inlinable public func first(_ id: FieldName) -> Field? {
    guard present.contains(id) else { return nil }
    return fields.first(id)
  }

  /// The value of the first field of this name, letters folded.
  public func value(named name: UnsafeRawBufferPointer) -> ByteRange? {
    fields.value(named: name, in: bytes.readable)
  }

  /// The value of the first field whose name becomes this variable: nginx's `$upstream_http_NAME`.
  public func value(variableName: UnsafeRawBufferPointer) -> ByteRange? {
    fields.value(variableName: variableName, in: bytes.readable)
  }
}

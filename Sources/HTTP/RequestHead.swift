public import Bytes

/// One request head, parsed: the model that the proxy rebuilds requests from.
///
/// It is used again from request to request and keeps its storage. All ranges index into `bytes.readable`. Filled by
/// `HeadParser` only; after a refused head it holds at most the request line.
///
/// Exclusivity is not checked at run time: a head belongs to one exchange on one worker, and a check at each
/// reading of a property would cost more than the parsing.
public final class RequestHead {
  /// The head's own copy of its bytes.
  @exclusivity(unchecked) public var bytes = ByteBuffer()
  @exclusivity(unchecked) var list = FieldList()
  /// The known names among `fields`.
  @exclusivity(unchecked) public var present = FieldNameSet()
  @exclusivity(unchecked) public var method = Method.other
  @exclusivity(unchecked) public var methodRange = ByteRange.absent
  @exclusivity(unchecked) public var target = RequestTarget.unread
  @exclusivity(unchecked) public var version = HTTPVersion.http11
  @exclusivity(unchecked) public var framing = BodyFraming.none
  /// The client means to keep the connection, by version and Connection.
  @exclusivity(unchecked) public var persists = false
  /// The client waits for 100 before it sends the body (RFC 9110 §10.1.1).
  @exclusivity(unchecked) public var expectsContinue = false
  /// The value of Upgrade, when Connection nominates it.
  @exclusivity(unchecked) public var upgrade: ByteRange?
  /// Whom the request is for, without port: of the target's authority, else of Host; empty on an HTTP/1.0 request
  /// without either. An IPv6 address keeps its brackets; one trailing dot is gone; letters are as sent.
  @exclusivity(unchecked) public var host = ByteRange.absent
  @exclusivity(unchecked) public var port: UInt16?
  /// TE said `trailers`.
  @exclusivity(unchecked) public var acceptsTrailers = false

  public init() {}

  /// In the order sent, without those that `HeadLimits` drops. Valid while the head is not read into, reset or released.
  public var fields: UnsafeBufferPointer<Field> { list.fields }

  /// Forgets the request, keeps the storage.
  public func reset() {
    bytes.removeAll()
    list.removeAll()
    present = FieldNameSet()
    method = .other
    methodRange = .absent
    target = .unread
    version = .http11
    framing = .none
    persists = false
    expectsContinue = false
    upgrade = nil
    host = .absent
    port = nil
    acceptsTrailers = false
  }

  /// Forgets the request and gives the storage back: for connections that idle.
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

  /// The value of the first field whose name becomes this variable: nginx's `$http_NAME`, where `_` stands for `-`.
  public func value(variableName: UnsafeRawBufferPointer) -> ByteRange? {
    fields.value(variableName: variableName, in: bytes.readable)
  }
}

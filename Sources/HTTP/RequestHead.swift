public import Bytes

/// One request head, parsed: the model that the proxy rebuilds requests from.
///
/// It is used again from request to request and keeps its storage. All ranges index into `bytes.readable`. Written by
/// `HeadParser` only; after a refused head it holds at most what the request line said.
public final class RequestHead {
  // Exclusivity is not checked at run time: a head belongs to one exchange on one worker, and the check at each
  // reading of a property costs more than reading a field line.
  @usableFromInline @exclusivity(unchecked) var storage = HeadStorage()
  @usableFromInline @exclusivity(unchecked) var parsed = Parsed()

  /// The state of one request, which `reset` clears.
  @usableFromInline struct Parsed {
    @usableFromInline var method = Method.other
    @usableFromInline var methodRange = ByteRange.absent
    @usableFromInline var target = RequestTarget.unread
    @usableFromInline var version = HTTPVersion.http11
    @usableFromInline var framing = BodyFraming.none
    @usableFromInline var keepsAlive = false
    @usableFromInline var expectsContinue = false
    @usableFromInline var upgrade: ByteRange?
    @usableFromInline var host = ByteRange.absent
    @usableFromInline var port: UInt16?
    @usableFromInline var acceptsTrailers = false
  }

  public init() {}

  /// The head's own copy of its bytes, as sent, line ends included.
  @inlinable public var bytes: HeadBytes { HeadBytes(storage.buffer.readable) }
  /// In the order sent, without those that `HeadLimits` drops. Valid while the head is not read into, reset or released.
  public var fields: UnsafeBufferPointer<Field> { storage.list.elements }
  /// The known names among `fields`.
  @inlinable public var present: FieldNameSet { storage.present }
  @inlinable public var method: Method { parsed.method }
  @inlinable public var methodRange: ByteRange { parsed.methodRange }
  @inlinable public var target: RequestTarget { parsed.target }
  @inlinable public var version: HTTPVersion { parsed.version }
  @inlinable public var framing: BodyFraming { parsed.framing }
  /// Whether the client wants to keep the connection open, by version and Connection.
  @inlinable public var keepsAlive: Bool { parsed.keepsAlive }
  /// The client waits for 100 before it sends the body (RFC 9110 §10.1.1).
  @inlinable public var expectsContinue: Bool { parsed.expectsContinue }
  /// The value of Upgrade, when Connection nominates it.
  @inlinable public var upgrade: ByteRange? { parsed.upgrade }
  /// The host of the request, without port: of the target's authority, else of Host; empty on an HTTP/1.0 request
  /// without either. An IPv6 address keeps its brackets; one trailing dot is removed; letters are as sent.
  @inlinable public var host: ByteRange { parsed.host }
  @inlinable public var port: UInt16? { parsed.port }
  /// TE said `trailers`.
  @inlinable public var acceptsTrailers: Bool { parsed.acceptsTrailers }
  /// Bytes of the head as sent, its line ends included.
  @inlinable public var byteCount: Int { storage.buffer.count }

  /// Forgets the request, keeps the storage.
  public func reset() {
    storage.reset()
    parsed = Parsed()
  }

  /// Forgets the request and gives the storage back: for connections that idle.
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

  /// The value of the first field whose name becomes this variable: nginx's `$http_NAME`, where `_` stands for `-`.
  /// `host` is the authority by which the request was judged: that of an absolute form, where there is one.
  public func value(variableName: UnsafeRawBufferPointer) -> ByteRange? {
    if let authority = target.authority, variableName.equalsIgnoringCase("host") { return authority }
    return fields.value(variableName: variableName, in: storage.buffer.readable)
  }
}

/// The bytes of a head, to be read. Valid while the head is not read into, reset or released.
public struct HeadBytes {
  public let readable: UnsafeRawBufferPointer

  @inlinable init(_ readable: UnsafeRawBufferPointer) { self.readable = readable }

  @inlinable public var count: Int { readable.count }
  @inlinable public var isEmpty: Bool { readable.isEmpty }
}

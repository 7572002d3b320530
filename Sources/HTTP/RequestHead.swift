public import Bytes

/// One parsed request head: the model from which the proxy rebuilds requests.
///
/// A connection reuses the object and its storage for each request. All ranges are positions in `bytes.readable`. Only
/// `HeadParser` writes it. A head that the parser refuses keeps what it says of the request (`refusedLine`), and no field.
public final class RequestHead {
  // Exclusivity is not checked at run time: a head belongs to one exchange on one worker, and the check at each
  // access to a property costs more than parsing a field line.
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
    @usableFromInline var isExtendedConnect = false
    @usableFromInline var refusedLine: ByteRange?
    @usableFromInline var isVersionKnown = true
    /// Of a subrequest (`SubrequestHead`): the method of the main request.
    @usableFromInline var shownMethod: ByteRange?
  }

  public init() {}

  /// The head's own copy of its bytes, as sent, line ends included.
  @inlinable public var bytes: HeadBytes { HeadBytes(storage.buffer.readable) }
  /// The fields in the order sent, without the fields that `HeadLimits` drops. Valid until the head changes.
  public var fields: UnsafeBufferPointer<Field> { storage.list.elements }
  /// The known names among `fields`.
  @inlinable public var present: FieldNameSet { storage.present }
  @inlinable public var method: Method { parsed.method }
  @inlinable public var methodRange: ByteRange { parsed.methodRange }
  @inlinable public var target: RequestTarget { parsed.target }
  @inlinable public var version: HTTPVersion { parsed.version }
  @inlinable public var framing: BodyFraming { parsed.framing }
  /// Whether the client wants to keep the connection open, by its HTTP version and Connection field.
  @inlinable public var keepsAlive: Bool { parsed.keepsAlive }
  /// Whether the client waits for a 100 response before it sends the body (RFC 9110 §10.1.1).
  @inlinable public var expectsContinue: Bool { parsed.expectsContinue }
  /// The request line as far as it has come, without its end, of a head that was refused; empty over HTTP/2. nil: the head
  /// was not refused. Method, target, host and port of a refused head are those that could be read without a doubt.
  @inlinable public var refusedLine: ByteRange? { parsed.refusedLine }
  /// False for a head whose request line was refused.
  @inlinable public var isVersionKnown: Bool { parsed.isVersionKnown }
  /// The value of Upgrade, if Connection nominates that field.
  @inlinable public var upgrade: ByteRange? { parsed.upgrade }
  /// The host of the request, without port: from the target's authority, otherwise from Host. One trailing dot is cut.
  /// It is empty for an HTTP/1.0 request with neither. An IPv6 address keeps its brackets; letters are as sent.
  @inlinable public var host: ByteRange { parsed.host }
  @inlinable public var port: UInt16? { parsed.port }
  /// Whether the TE field contains `trailers`.
  @inlinable public var acceptsTrailers: Bool { parsed.acceptsTrailers }
  /// Whether this is a CONNECT of HTTP/2 for a WebSocket (RFC 8441). The head has the form of HTTP/1.1 then: a GET with
  /// Upgrade and Connection.
  @inlinable public var isExtendedConnect: Bool { parsed.isExtendedConnect }
  /// Whether a 101 may answer the request: over HTTP/1.1, or to an extended CONNECT.
  @inlinable public var mayBecomeTunnel: Bool { version == .http11 || isExtendedConnect }
  /// The number of bytes of the head as sent, line ends included.
  @inlinable public var byteCount: Int { storage.buffer.count }

  /// Clears the request and keeps the storage.
  public func reset() {
    storage.reset()
    parsed = Parsed()
  }

  /// Clears the request and frees the storage, for a connection that becomes idle.
  public func release() {
    storage.release()
    parsed = Parsed()
  }

  /// Returns the first field of this name; for `.other`, the first field of any unknown name.
  @inlinable public func first(_ id: FieldName) -> Field? {
    guard present.contains(id) else { return nil }
    return fields.first(id)
  }

  /// Returns the value of the first field of this name, compared without case.
  public func value(named name: UnsafeRawBufferPointer) -> ByteRange? {
    storage.value(named: name)
  }

  /// Removes fields, as if the client had not sent them. `isRemoved` gets a field and the bytes of the head. What the head
  /// says of its framing, its Host and its connection stays, so no field that says such a thing may be removed.
  public func removeFields(where isRemoved: (Field, UnsafeRawBufferPointer) -> Bool) {
    let bytes = storage.buffer.readable, fields = storage.list.mutableElements
    var count = 0
    for field in fields where !isRemoved(field, bytes) {
      fields[count] = field
      count += 1
    }
    storage.list.truncate(to: count)
  }

  /// Appends the values of the fields whose name maps to this variable: nginx's `$http_NAME`, with `_` for `-`. Several
  /// are joined. For `host`, appends the authority by which the proxy chose the server: that of an absolute form, if
  /// there is one. `output` must not be this head's own storage.
  public func append(variableName: UnsafeRawBufferPointer, to output: inout ByteBuffer) {
    let bytes = storage.buffer.readable
    if let authority = target.authority, variableName.equalsIgnoringCase("host") {
      return output.append(bytes[authority])
    }
    fields.append(variableName: variableName, in: bytes, to: &output)
  }
}

/// Read access to the bytes of a head. Valid until the caller parses into, resets or releases the head.
public struct HeadBytes {
  public let readable: UnsafeRawBufferPointer

  @inlinable init(_ readable: UnsafeRawBufferPointer) { self.readable = readable }

  @inlinable public var count: Int { readable.count }
  @inlinable public var isEmpty: Bool { readable.isEmpty }
}

public import Bytes

/// What the proxy knows of a response's body before it sends the body to the client.
public enum OutgoingBody: Sendable, Equatable {
  /// No body follows. `announced` is the length that a GET response would have had, for a response to HEAD and a 304.
  case none(announced: UInt64?)
  /// This many bytes follow.
  case length(UInt64)
  /// A body of unknown length follows; its sender ends it.
  case stream
}

/// What a response tells the client about its connection (RFC 9112 §9).
public enum Persistence: Sendable, Equatable {
  case close
  /// The connection stays open. `announced`: seconds of a Keep-Alive field, the second value of `keepalive_timeout`.
  case keepAlive(announced: Int?)
  /// After a 101 the connection speaks another protocol.
  case upgrade
}

/// A response head for the client, from the upstream or sallyport's own. HTTP/1.1 and HTTP/2 encode the same value.
///
/// Storage and refused bytes are as in `OutgoingRequestHead`. Forwarded fields are ranges of the upstream's head, which
/// must neither change nor be freed before `reset`.
public final class OutgoingResponseHead {
  @exclusivity(unchecked) var fields = OutgoingFields()
  // Not retained: the caller that sets this reference clears it with `reset` before the head is freed.
  @exclusivity(unchecked) private var incoming: Unmanaged<ResponseHead>?
  /// The status, 100 to 999; 0 before the caller sets it.
  @exclusivity(unchecked) public var status: UInt16 = 0
  @exclusivity(unchecked) public var body = OutgoingBody.none(announced: nil)
  /// Whether trailers may follow a body, which may then be empty.
  @exclusivity(unchecked) public var expectsTrailers = false
  /// How HTTP/1 frames the body and describes the connection; decided when the head is sent.
  @exclusivity(unchecked) public var framing = BodyFraming.none
  @exclusivity(unchecked) public var persistence = Persistence.close

  public init() {}

  /// Clears the response. `head` is the upstream's head, if the response forwards fields of it.
  public func reset(over head: ResponseHead? = nil) {
    fields.removeAll()
    incoming = head.map { Unmanaged.passUnretained($0) }
    status = 0
    body = .none(announced: nil)
    expectsTrailers = false
    framing = .none
    persistence = .close
  }

  // MARK: Fields

  /// Adds a field. Returns false, and adds nothing, when the name is not a token or the value would end its line.
  public func add(_ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) -> Bool { fields.add(name, value) }

  /// Adds a field with one of sallyport's own names.
  public func add(_ name: StaticString, _ value: UnsafeRawBufferPointer) -> Bool {
    fields.add(UnsafeRawBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount), value)
  }

  /// Adds a field with sallyport's own name and value.
  public func add(_ name: StaticString, _ value: StaticString) {
    _ = add(name, UnsafeRawBufferPointer(start: value.utf8Start, count: value.utf8CodeUnitCount))
  }

  /// Removes all fields of this name, compared without case.
  public func remove(_ name: UnsafeRawBufferPointer) { fields.remove(name, in: incomingBytes) }

  /// Removes all fields of one of sallyport's own names.
  public func remove(_ name: StaticString) {
    remove(UnsafeRawBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount))
  }

  /// Adds fields that are the same for every response.
  public func add(_ block: FieldBlock) { fields.add(block) }

  /// Forwards a field of the upstream's head.
  @inline(__always)
  public func forward(_ field: Field) { fields.forward(field) }

  /// Appends the values of the fields whose name maps to this variable (nginx's `$sent_http_NAME`), including the fields
  /// that HTTP/1 adds for framing and connection. `output` must not be this head's own storage.
  public func append(variableName name: UnsafeRawBufferPointer, to output: inout ByteBuffer) {
    if fields.append(variableName: name, in: incomingBytes, to: &output) { return }
    guard status > 0 else { return }
    if name.equals("content_length") {
      switch body {
      case .length(let length), .none(announced: .some(let length)): output.append(decimal: length)
      case .none(announced: nil), .stream: break
      }
    } else if name.equals("transfer_encoding") {
      if framing == .chunked { output.append("chunked") }
    } else if name.equals("connection") {
      switch persistence {
      case .close: output.append("close")
      case .keepAlive: output.append("keep-alive")
      case .upgrade: output.append("upgrade")
      }
    } else if name.equals("keep_alive"), case .keepAlive(let announced?) = persistence {
      output.append("timeout=")
      output.append(decimal: UInt64(max(0, announced)))
    }
  }

  var incomingBytes: UnsafeRawBufferPointer {
    incoming?._withUnsafeGuaranteedRef { $0.bytes.readable } ?? UnsafeRawBufferPointer(start: nil, count: 0)
  }

  /// The upstream's reason phrase, if the status is still the upstream's. nil: it has none, as over HTTP/2.
  var reason: UnsafeRawBufferPointer? {
    incoming?._withUnsafeGuaranteedRef {
      $0.status == status && $0.reason != .absent ? $0.bytes.readable[$0.reason] : nil
    } ?? nil
  }
}

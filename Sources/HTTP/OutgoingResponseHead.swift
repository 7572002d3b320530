public import Bytes

/// What is known of a response's body before it goes to the client.
public enum OutgoingBody: Sendable, Equatable {
  /// None follows. `announced`: the length that a GET would have had, told in an answer to HEAD and in a 304.
  case none(announced: UInt64?)
  /// So many bytes follow.
  case length(UInt64)
  /// What follows ends by itself.
  case stream
}

/// What a response says of the client's connection (RFC 9112 §9).
public enum Persistence: Sendable, Equatable {
  case close
  /// `announced`: seconds of a Keep-Alive field (nginx's second value of `keepalive_timeout`).
  case keepAlive(announced: Int?)
  /// After a 101 the connection speaks another protocol.
  case upgrade
}

/// A response head as it goes to the client, the upstream's or one of our own; HTTP/1.1 and HTTP/2 encode the same value.
///
/// As `OutgoingRequestHead` in all that concerns storage and what is refused. Forwarded fields are ranges of the upstream's
/// head, which must neither change nor go until `reset`.
public final class OutgoingResponseHead {
  @exclusivity(unchecked) var fields = OutgoingFields()
  // Uncounted: whoever sets it takes it back (`reset`) before it goes.
  @exclusivity(unchecked) private var incoming: Unmanaged<ResponseHead>?
  /// 100 to 999; 0 while nothing was said.
  @exclusivity(unchecked) public var status: UInt16 = 0
  @exclusivity(unchecked) public var body = OutgoingBody.none(announced: nil)
  /// How HTTP/1 frames the body, and what it says of the connection: settled when the head is sent.
  @exclusivity(unchecked) public var framing = BodyFraming.none
  @exclusivity(unchecked) public var persistence = Persistence.close

  public init() {}

  /// Forgets the response. `head`: that of the upstream, where fields of it are forwarded.
  public func reset(over head: ResponseHead? = nil) {
    fields.removeAll()
    incoming = head.map { Unmanaged.passUnretained($0) }
    status = 0
    body = .none(announced: nil)
    framing = .none
    persistence = .close
  }

  // MARK: Fields

  /// False, and nothing added, when the name is no token or the value would end its line.
  public func add(_ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) -> Bool { fields.add(name, value) }

  /// The same with a name of ours.
  public func add(_ name: StaticString, _ value: UnsafeRawBufferPointer) -> Bool {
    fields.add(UnsafeRawBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount), value)
  }

  /// Name and value of ours.
  public func add(_ name: StaticString, _ value: StaticString) {
    _ = add(name, UnsafeRawBufferPointer(start: value.utf8Start, count: value.utf8CodeUnitCount))
  }

  /// Adds fields that are the same for every response.
  public func add(_ block: FieldBlock) { fields.add(block) }

  /// Takes over a field of the upstream's head.
  @inline(__always)
  public func forward(_ field: Field) { fields.forward(field) }

  /// Appends the value of the first field whose name becomes this variable (nginx's `$sent_http_NAME`), with what HTTP/1
  /// adds of framing and connection. `output` is not this head's own storage.
  public func append(variableName name: UnsafeRawBufferPointer, to output: inout ByteBuffer) {
    if let value = fields.value(variableName: name, in: incomingBytes) { return output.append(value) }
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

  /// The upstream's own, while the status is its own.
  var reason: UnsafeRawBufferPointer? {
    incoming?._withUnsafeGuaranteedRef { $0.status == status ? $0.bytes.readable[$0.reason] : nil } ?? nil
  }
}

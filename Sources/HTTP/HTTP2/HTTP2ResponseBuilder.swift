internal import Bytes

/// Builds a response head from the fields of one HTTP/2 header block of an upstream, in the form of HTTP/1.1, as
/// `HTTP2HeadBuilder` does for requests.
public struct HTTP2ResponseBuilder: ~Copyable {
  private var limits = HeadLimits()
  private var error: HeadError?
  private var hasFields = false

  public init() {}

  /// Begins a header block. The caller passes the same head to every call until `finish`.
  public mutating func begin(_ head: ResponseHead, limits: HeadLimits) {
    head.reset()
    head.parsed.version = .http2
    self.limits = limits
    error = nil
    hasFields = false
  }

  /// Adds a decoded field, in the order of the block.
  public mutating func add(_ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer, to head: ResponseHead) {
    guard error == nil else { return }
    do throws(HeadError) {
      let line = name.count &+ value.count &+ 4
      guard line <= limits.lineBytes else { throw .fieldTooLarge }
      guard head.storage.buffer.count &+ line <= limits.headBytes else { throw .headTooLarge }
      guard let base = name.baseAddress, name.count > 0 else { throw .emptyFieldName }
      if ByteScan.byte(base, 0) == 0x3A { return try readStatus(name, value, head) }
      hasFields = true
      try HTTP2Lines.check(name, value)
      guard head.storage.list.count < limits.fields else { throw .tooManyFields }
      switch FieldName.known(base, name.count) {
      case .connection, .proxyConnection, .keepAlive, .transferEncoding, .upgrade, .te: throw .connectionSpecificField
      default: HTTP2Lines.append(name, value, to: &head.storage)
      }
    } catch {
      self.error = error
    }
  }

  private func readStatus(
    _ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer, _ head: ResponseHead
  ) throws(HeadError) {
    guard name.equals(":status"), !hasFields else { throw .badPseudoField }
    guard head.parsed.status == 0 else { throw .repeatedPseudoField }
    guard value.count == 3 else { throw .badStatusLine }
    var status: UInt16 = 0
    for byte in value {
      guard ASCII.isDigit(byte) else { throw .badStatusLine }
      status = status &* 10 &+ UInt16(byte &- 48)
    }
    // There is no 101 in HTTP/2 (RFC 9113 §8.6).
    guard status >= 100, status != 101 else { throw .badStatusLine }
    head.parsed.status = status
  }

  /// Ends the block. `endsStream`: no body follows. `method`: that of the request.
  public mutating func finish(_ head: ResponseHead, endsStream: Bool, to method: Method) throws(HeadError) {
    if let error { throw error }
    guard head.parsed.status > 0 else { throw .missingPseudoField }
    // An interim response may have no field at all.
    let facts: MessageFacts
    if let base = head.storage.buffer.readable.baseAddress {
      facts = try MessageFacts(&head.storage.list, base, limits)
    } else {
      facts = MessageFacts()
    }
    let decision = try facts.framing.response(.http2, status: head.parsed.status, to: method)
    head.parsed.framing =
      switch (decision.framing, endsStream) {
      case (.none, _): .none
      case (.length(let length), false): .length(length)
      case (.length(0), true): .length(0)
      // The body that was announced doesn't come.
      case (.length, true): throw .badContentLength
      case (.chunked, true), (.untilClose, true): .length(0)
      case (.chunked, false), (.untilClose, false): .chunked
      }
    head.parsed.repeated = facts.repeated
    head.parsed.announcedLength = facts.framing.length
    head.parsed.keepsAlive = true
    head.storage.present = facts.present
  }
}

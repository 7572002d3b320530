internal import Bytes

/// Builds a request head from the fields of one HTTP/2 header block, by the same strict reading as `HeadParser`.
///
/// The head gets its fields as HTTP/1.1 lines, so that every later step works on one form, and a field goes on to an
/// HTTP/1.1 upstream as it stands. `:authority` becomes the field Host, as in nginx. Several Cookie fields become one
/// (RFC 9113 §8.2.3). The first error is kept, and everything after it is dropped.
public struct HTTP2HeadBuilder: ~Copyable {
  private enum Pseudo: UInt8 {
    case method = 1, scheme = 2, path = 4, authority = 8, `protocol` = 16
  }

  private var limits = HeadLimits()
  private var error: HeadError?
  /// The pseudo-fields seen so far, as a set of `Pseudo`.
  private var seen: UInt8 = 0
  private var hasFields = false
  /// What the limits count, as in nginx: the bytes of all names and values, and the fields without pseudo-fields and
  /// cookies. So no request is too large that isn't over HTTP/1.1.
  private var bytes = 0, fields = 0
  /// The Host field, which is not the one made of `:authority`.
  private var host: ByteRange?
  private var cookies = ByteBuffer()

  public init() {}

  /// Begins a header block. The caller passes the same head to every call until `finish`.
  public mutating func begin(_ head: RequestHead, limits: HeadLimits) {
    head.reset()
    head.parsed.version = .http2
    self.limits = limits
    error = nil
    seen = 0
    hasFields = false
    (bytes, fields) = (0, 0)
    host = nil
    cookies.removeAll()
  }

  /// Adds a decoded field, in the order of the block.
  public mutating func add(_ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer, to head: RequestHead) {
    guard error == nil else { return }
    do throws(HeadError) {
      guard name.count <= limits.lineBytes, value.count <= limits.lineBytes else { throw .fieldTooLarge }
      bytes &+= name.count &+ value.count
      guard bytes <= limits.headBytes else { throw .headTooLarge }
      guard let base = name.baseAddress, name.count > 0 else { throw .emptyFieldName }
      if ByteScan.byte(base, 0) == 0x3A { return try addPseudo(name, value, head) }
      hasFields = true
      try addField(base, name.count, value, head)
    } catch {
      self.error = error
    }
  }

  /// Ends the block. `endsStream`: the request has no body. A refused head keeps only what a log shows of it.
  public mutating func finish(_ head: RequestHead, endsStream: Bool) throws(HeadError) {
    defer { if !cookies.isEmpty { cookies.release() } }
    do throws(HeadError) {
      if let error { throw error }
      try complete(head, endsStream)
    } catch {
      keepKnown(head)
      throw error
    }
  }

  /// Keeps what is known of a refused request: method, target and host as far as they could be read, and no field, because
  /// an error page may go to an upstream.
  private func keepKnown(_ head: RequestHead) {
    let base = head.storage.buffer.readable.baseAddress
    if let base {
      let raw = head.parsed.target.raw, end = ByteScan.control(base, Int(raw.start), raw.end)
      head.parsed.target = (try? target(raw, base)) ?? .unread
      // A log may write it as it is.
      head.parsed.target.raw = ByteRange(start: Int(raw.start), count: end - Int(raw.start))
      // A Host beside the authority may be another one.
      if host == nil { head.take(head.knownHost(base)) }
    }
    head.parsed.framing = .none
    head.parsed.refusedLine = .absent
    head.storage.list.removeAll()
    head.storage.present = FieldNameSet()
  }

  private mutating func complete(_ head: RequestHead, _ endsStream: Bool) throws(HeadError) {
    if !cookies.isEmpty { HTTP2Lines.append("cookie", cookies.readable, to: &head.storage) }
    try addUpgrade(head)
    guard seen & 7 == 7, let base = head.storage.buffer.readable.baseAddress else { throw .missingPseudoField }
    try readTarget(head, base)
    let facts = try MessageFacts(&head.storage.list, base, limits)
    try facts.refuseRepeated()
    guard facts.present.contains(.host) else { throw .missingHost }
    let authority = try Authority(base, facts.host)
    if let host, host != facts.host {
      // A client that sends both must send the same bytes, as over HTTP/1.1 (RFC 9113 §8.3.1).
      _ = try Authority(base, host)
      guard HTTP.at(base, host).equals(HTTP.at(base, facts.host)) else { throw .differentHost }
    }
    head.parsed.host = authority.host
    head.parsed.port = authority.port
    head.parsed.framing =
      switch facts.framing.length {
      case _ where head.parsed.isExtendedConnect: .none
      case let length? where !endsStream: .length(length)
      case 0?: .length(0)
      case _?: throw .badContentLength
      case nil: endsStream ? .none : .chunked
      }
    head.parsed.keepsAlive = true
    head.parsed.expectsContinue = facts.expectsContinue && !endsStream
    head.parsed.upgrade = head.parsed.isExtendedConnect ? facts.upgrade : nil
    head.parsed.acceptsTrailers = true
    head.storage.present = facts.present
  }

  // MARK: Pseudo-fields (RFC 9113 §8.3.1)

  private mutating func addPseudo(
    _ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer, _ head: RequestHead
  ) throws(HeadError) {
    if hasFields { throw .badPseudoField }
    let pseudo: Pseudo
    switch name.count {
    case 7 where name.equals(":method"): pseudo = .method
    case 7 where name.equals(":scheme"): pseudo = .scheme
    case 5 where name.equals(":path"): pseudo = .path
    case 10 where name.equals(":authority"): pseudo = .authority
    case 9 where name.equals(":protocol"): pseudo = .protocol
    default: throw .badPseudoField
    }
    guard seen & pseudo.rawValue == 0 else { throw .repeatedPseudoField }
    seen |= pseudo.rawValue
    let range = ByteRange(start: head.storage.buffer.count, count: value.count)
    switch pseudo {
    case .method:
      guard let base = value.baseAddress, value.count > 0 else { throw .badMethod }
      for byte in value where !ByteSet.method.contains(byte) { throw .badMethod }
      head.storage.buffer.append(value)
      head.parsed.method = Method(base, count: value.count)
      head.parsed.methodRange = range
    case .scheme:
      guard value.equals("https") || value.equals("http") else { throw .badScheme }
    case .path:
      head.storage.buffer.append(value)
      head.parsed.target.raw = range
    case .authority: HTTP2Lines.append("host", value, to: &head.storage)
    case .protocol:
      guard value.equals("websocket") else { throw .unknownProtocol }
      head.parsed.isExtendedConnect = true
    }
  }

  private func readTarget(_ head: RequestHead, _ base: UnsafeRawPointer) throws(HeadError) {
    switch (head.parsed.method, head.parsed.isExtendedConnect) {
    case (.connect, true):
      head.parsed.method = .get
    case (.connect, false): throw .connectMethod
    case (_, true): throw .badPseudoField
    case (.trace, _): throw .traceMethod
    case (.preface, _): throw .prefaceMethod
    default: break
    }
    head.parsed.target = try target(head.parsed.target.raw, base)
  }

  private func target(_ raw: ByteRange, _ base: UnsafeRawPointer) throws(HeadError) -> RequestTarget {
    let first = ByteScan.targetEnd(base, Int(raw.start), raw.end)
    var at = first
    while at < raw.end, ByteScan.byte(base, at) == 0x3F { at = ByteScan.targetEnd(base, at &+ 1, raw.end) }
    guard !raw.isEmpty, at == raw.end else { throw .badTarget }
    let target = try RequestTarget.parse(base, Int(raw.start), question: first, raw.end)
    guard target.form != .absolute else { throw .badTarget }
    return target
  }

  // MARK: Fields

  private mutating func addField(
    _ base: UnsafeRawPointer, _ count: Int, _ value: UnsafeRawBufferPointer, _ head: RequestHead
  ) throws(HeadError) {
    let name = UnsafeRawBufferPointer(start: base, count: count)
    try HTTP2Lines.check(name, value)
    let id = FieldName.known(base, count)
    if id != .cookie { fields &+= 1 }
    guard fields <= limits.fields else { throw .tooManyFields }
    switch id {
    case .connection, .proxyConnection, .keepAlive, .transferEncoding, .upgrade: throw .connectionSpecificField
    // Only `trailers` may stand there, which says nothing that HTTP/2 doesn't say (RFC 9113 §8.2.2).
    case .te:
      guard value.equalsIgnoringCase("trailers") else { throw .connectionSpecificField }
      HTTP2Lines.append(name, value, to: &head.storage)
    case .cookie:
      if !cookies.isEmpty { cookies.append("; ") }
      cookies.append(value)
    // HTTP/2 has no such key (RFC 8441 §5); `addUpgrade` makes the one for HTTP/1.1.
    case .other where head.parsed.isExtendedConnect && name.equals("sec-websocket-key"): break
    case .host where seen & Pseudo.authority.rawValue != 0:
      guard host == nil else { throw .repeatedHost }
      // It is kept to be compared, and not as a second field.
      host = ByteRange(start: head.storage.buffer.count, count: value.count)
      head.storage.buffer.append(value)
      head.storage.buffer.append("\r\n")
    default: HTTP2Lines.append(name, value, to: &head.storage)
    }
  }

  /// Gives a CONNECT for a WebSocket the fields with which HTTP/1.1 asks for one (RFC 8441 §5).
  private func addUpgrade(_ head: RequestHead) throws(HeadError) {
    guard head.parsed.isExtendedConnect else { return }
    let method = ByteRange(start: head.storage.buffer.count, count: 3)
    head.storage.buffer.append("GET")
    guard head.parsed.method == .connect else { throw .badPseudoField }
    head.parsed.methodRange = method
    HTTP2Lines.append("connection", "upgrade", to: &head.storage)
    HTTP2Lines.append("upgrade", "websocket", to: &head.storage)
    var generator = SystemRandomNumberGenerator()
    let words: [UInt64] = [generator.next(), generator.next()]
    let key = Array(Base64.encode(words.withUnsafeBytes { Array($0) }).utf8)
    key.withUnsafeBytes { HTTP2Lines.append("sec-websocket-key", $0, to: &head.storage) }
  }
}

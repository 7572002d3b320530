import HTTP

/// The header block that an HTTP/2 connection reads. There is one at a time (RFC 9113 §4.3).
struct HeaderBlock: ~Copyable {
  private enum Kind {
    case request, trailers
    /// The block's stream was refused: its fields count for nothing.
    case refused
  }

  private var kind = Kind.refused
  private var builder = HTTP2HeadBuilder()
  /// The stream and the exchange of a request, until the block ends.
  private(set) var stream: HTTP2Stream?
  private var exchange: Exchange?
  // The exchange holds it. Each field comes by here, so it isn't counted.
  private var head: Unmanaged<RequestHead>?
  private var section = TrailerSection()
  /// Bytes of names and values so far, also of those that count for nothing.
  private(set) var decoded = 0

  var isTrailers: Bool { kind == .trailers }

  mutating func begin(_ stream: HTTP2Stream, _ exchange: Exchange, _ limits: HeadLimits) {
    kind = .request
    decoded = 0
    self.stream = stream
    self.exchange = exchange
    head = Unmanaged.passUnretained(exchange.head)
    builder.begin(exchange.head, limits: limits)
  }

  mutating func beginTrailers() {
    kind = .trailers
    decoded = 0
    section.begin()
  }

  mutating func refuse() {
    kind = .refused
    decoded = 0
  }

  mutating func add(_ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) {
    decoded &+= name.count &+ value.count
    switch kind {
    case .refused: break
    case .request: head?._withUnsafeGuaranteedRef { builder.add(name, value, to: $0) }
    case .trailers: section.add(name, value)
    }
  }

  /// Ends a request's block, as `HTTP2HeadBuilder.finish`.
  mutating func finish(_ head: RequestHead, endsStream: Bool) throws(HeadError) {
    try builder.finish(head, endsStream: endsStream)
  }

  /// Returns the exchange that gets the block of this stream, and forgets both.
  mutating func takeExchange(of stream: HTTP2Stream) -> Exchange? {
    guard self.stream === stream else { return nil }
    defer {
      self.stream = nil
      exchange = nil
      head = nil
    }
    return exchange
  }

  /// Returns the trailers; nil if none are left without those that a trailer must not be.
  mutating func takeTrailers() throws(BodyError) -> Trailers? { try section.take() }
}

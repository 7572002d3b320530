import Bytes
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
  /// The trailers so far, in the form of HTTP/1.
  private var section = ByteBuffer()
  private var isInvalid = false

  /// Bytes of names and values so far, also of those that count for nothing.
  private(set) var decoded = 0

  /// A section of trailers in HTTP/1 has the same bound.
  private static let sectionBytes = 8192

  var isTrailers: Bool { kind == .trailers }

  mutating func begin(_ stream: HTTP2Stream, _ exchange: Exchange, _ limits: HeadLimits) {
    kind = .request
    decoded = 0
    self.stream = stream
    self.exchange = exchange
    builder.begin(exchange.head, limits: limits)
  }

  mutating func beginTrailers() {
    kind = .trailers
    decoded = 0
    section.removeAll()
    isInvalid = false
  }

  mutating func refuse() {
    kind = .refused
    decoded = 0
  }

  mutating func add(_ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) {
    decoded &+= name.count &+ value.count
    switch kind {
    case .refused: break
    case .request: if let exchange { builder.add(name, value, to: exchange.head) }
    case .trailers: addTrailer(name, value)
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
    }
    return exchange
  }

  private mutating func addTrailer(_ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) {
    guard section.count <= Self.sectionBytes else { return }
    // libnghttp2 refuses such a value too; here it would begin another line.
    guard FieldValue.isValid(value) else { return isInvalid = true }
    section.append(name)
    section.append(": ")
    section.append(value)
    section.append("\r\n")
  }

  /// Returns the trailers; nil if none are left after removing what a trailer must not be.
  mutating func takeTrailers() throws(BodyError) -> Trailers? {
    defer { section.release() }
    if isInvalid { throw .badTrailer(.controlCharacter) }
    guard section.count <= Self.sectionBytes else { throw .trailersTooLarge }
    section.append("\r\n")
    return try Trailers(Array(section.readable))
  }
}

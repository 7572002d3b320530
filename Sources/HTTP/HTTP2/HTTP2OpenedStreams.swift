/// Which streams a client has opened: their identifiers only grow, and one that it passed over is closed unused (RFC 9113
/// §5.1.1).
///
/// Clients pass over hardly any, so the ones that were passed over are kept, as ranges. A client that passes over more ranges
/// than `mostRanges` is forgiven the oldest, so the memory of a connection has a bound, and nobody is refused wrongly.
struct HTTP2OpenedStreams {
  static let mostRanges = 32

  private var last: Int32 = 0
  private var skipped: [ClosedRange<Int32>] = []

  /// Takes the beginning of a head. Returns false if its stream can't be opened any more, and never was.
  ///
  /// An even identifier, which no client may use, is libnghttp2's to refuse.
  mutating func takes(_ stream: Int32) -> Bool {
    guard stream & 1 == 1, stream > last else { return !skipped.contains { $0.contains(stream) } }
    if stream - last > 2 {
      if skipped.count == Self.mostRanges { skipped.removeFirst() }
      skipped.append((last + 1)...(stream - 1))
    }
    last = stream
    return true
  }
}

package import Bytes
public import HTTP
public import Transport

/// What a location does to the responses that leave it, compiled at load. One object serves all exchanges of its
/// location (nginx: a header filter, which may begin a body filter).
///
/// An exchange runs the location's filters in the order of the list, which is nginx's, after the head is built and before
/// it goes. The body filters that they begin stand in the same order.
open class ResponseFilter {
  public init() {}

  /// May change the head, and have a `BodyFilter` take the body.
  open func begin(_ exchange: Exchange) {}
  /// Whether the filter will change the bytes of a file whose head is built with status 200, so that the response has no
  /// ranges.
  open func changesBytes(ofFile exchange: Exchange) -> Bool { false }
  /// The head of a whole file is built, and a range of it will go in its place, with status 206: the filter adds what the
  /// head of a range must say too.
  open func beginRange(_ exchange: Exchange) {}
}

/// How the body of a response ends.
public enum BodyEnd {
  case whole(Trailers?)
  /// Its source broke off. As in nginx, the client first gets all that came, and then an end that it can't take for the
  /// response's.
  case broken
}

/// One response's body on its way to the client: changes the bytes, or delays them (nginx: a body filter).
///
///     handler ─► filter ─► … ─► filter ─► stream
///
/// A filter takes all bytes that it is given. What it keeps counts as waiting for the client, so that the source pauses,
/// and the source hears no drain until all filters have passed on what they kept. The end of the body waits for the
/// kept bytes too. A filter lives until its exchange ends; after `stop` it makes no calls.
open class BodyFilter: EventTarget {
  package final let exchange: Exchange
  /// The bytes that may not go on yet.
  package final var kept: WaitingBytes
  /// The next filter towards the client; nil: the client's stream is next.
  fileprivate final var next: BodyFilter?
  /// The end that waits for the kept bytes.
  private final var waitingEnd: BodyEnd?
  /// Whether more bytes may come.
  package private(set) final var isOpen = true
  package private(set) final var isStopped = false

  package init(_ exchange: Exchange) {
    self.exchange = exchange
    kept = WaitingBytes(in: exchange.worker.responses)
    super.init(loop: exchange.worker.loop)
  }

  // MARK: What a filter does

  open func send(_ bytes: UnsafeRawBufferPointer) { pass(bytes) }
  /// The body ends, and nothing is kept any more.
  open func finish(_ end: BodyEnd) { pass(end) }
  /// The client has taken all bytes that had gone on: sends kept ones that waited for that.
  open func proceed() {}
  /// Whether bytes must still go on, so that the end waits for them: those that are kept, or also such as the filter makes
  /// of those that it has taken.
  open var holdsBytes: Bool { !kept.isEmpty }
  /// Whether the source must not be asked for more yet.
  open var holdsSource: Bool { false }
  /// The exchange has ended: gives back what the filter holds besides `kept`.
  open func didStop() {}

  // MARK: What a filter asks for

  /// Gives bytes to the next filter or to the client. The exchange may end within the call.
  package final func pass(_ bytes: UnsafeRawBufferPointer) {
    if let next { next.send(bytes) } else { exchange.passBody(bytes) }
  }

  package final func pass(_ end: BodyEnd) {
    if let next { next.end(end) } else { exchange.bodyDidEnd(end) }
  }

  /// Bytes that the client has not taken yet, behind this filter.
  package final var waitingBehind: Int {
    var count = exchange.stream?.waitingBytes ?? 0
    var filter = next
    while let each = filter {
      count += each.kept.count
      filter = each.next
    }
    return count
  }

  /// Nothing is kept any more: the end follows if it has come, or the source is asked for more.
  package final func didPassKept() {
    if let waitingEnd {
      self.waitingEnd = nil
      return finish(waitingEnd)
    }
    exchange.askForMore()
  }

  // MARK: For the exchange

  package final func end(_ end: BodyEnd) {
    guard isOpen, !isStopped else { return }
    isOpen = false
    if holdsBytes { waitingEnd = end } else { finish(end) }
  }

  package final func stop() {
    guard !isStopped else { return }
    isStopped = true
    kept.release()
    loop.forgetDeadline(of: self)
    didStop()
  }

  /// Returns whether this filter, or one behind it, sees to the bytes that the source is asked for next.
  fileprivate final func drain() -> Bool {
    if let next, next.drain() { return true }
    guard holdsBytes else { return holdsSource }
    proceed()
    return true
  }
}

/// The body filters of one response.
package struct BodyFilterChain {
  /// The one that gets the bytes of the source; nil: they go to the client's stream.
  package private(set) var first: BodyFilter?

  /// Adds a filter behind the others, next to the client.
  package mutating func append(_ filter: BodyFilter) {
    guard var last = first else {
      first = filter
      return
    }
    while let next = last.next { last = next }
    last.next = filter
  }

  var keptBytes: Int {
    var count = 0
    var filter = first
    while let each = filter {
      count += each.kept.count
      filter = each.next
    }
    return count
  }

  package var holdsSource: Bool { find { $0.holdsSource } != nil }

  package func find(_ matches: (BodyFilter) -> Bool) -> BodyFilter? {
    var filter = first
    while let each = filter {
      if matches(each) { return each }
      filter = each.next
    }
    return nil
  }

  /// Returns whether a filter sees to the bytes that come next.
  package func drain() -> Bool { first?.drain() ?? false }

  /// At the end of every exchange.
  @inline(__always)
  package mutating func reset() { if first != nil { clear() } }

  @inline(never)
  private mutating func clear() {
    var filter = first.take()
    while let each = filter {
      each.stop()
      filter = each.next.take()
    }
  }
}

/// Changes the heads of a location's responses before they leave: those of the content as well as sallyport's own. An
/// object keeps nothing of a request.
open class HeadFilter {
  public init() {}

  open func change(_ exchange: Exchange) {}
}

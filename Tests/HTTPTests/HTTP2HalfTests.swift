import Bytes
import HTTP
import Testing

@Suite struct `The halves of an HTTP2 stream` {
  private func arrive(_ text: String, at half: inout HTTP2ReceivingHalf) -> Bool {
    Array(text.utf8).withUnsafeBytes { half.arrive($0) }
  }

  private func append(_ text: String, to half: inout HTTP2SendingHalf) -> Bool {
    Array(text.utf8).withUnsafeBytes { half.append($0) }
  }

  @Test func `what arrives at a paused half waits, and its end after it`() {
    var half = HTTP2ReceivingHalf(isPaused: true)
    let isDue = arrive("abc", at: &half)
    let isEndDue = half.arriveEnd(nil)
    let wasRead = half.isRead
    #expect(!isDue && !isEndDue && !wasRead)
    var arrived: [UInt8] = []
    if let bytes = half.resume() { arrived = Array(bytes.readable) }
    let isRead = half.isRead
    #expect(arrived == Array("abc".utf8) && isRead)
    guard case .whole(nil)? = half.settled else { return #expect(Bool(false), "the end is lost") }
    half.close()
    let isLateDue = arrive("d", at: &half)
    #expect(!isLateDue)
  }

  @Test func `a fault of trailers that waits is told also if an end follows`() {
    var half = HTTP2ReceivingHalf(isPaused: true)
    let isDue = half.arriveFault(.trailersTooLarge)
    let isEndDue = half.arriveEnd(nil)
    #expect(!isDue && !isEndDue)
    guard case .invalid? = half.settled else { return #expect(Bool(false), "the fault is lost") }
  }

  @Test func `what a window doesn't take waits, and the end goes with the last of it`() {
    var half = HTTP2SendingHalf(in: nil)
    half.begin(hasBody: true)
    guard case .none = half.ready(room: 10) else { return #expect(Bool(false), "nothing was there") }
    let isTaken = append("abcdef", to: &half)
    let (resumes, again) = (half.mustResume(), half.mustResume())
    let (ends, endsAgain) = (half.end(nil), half.end(nil))
    #expect(isTaken && resumes && !again && ends && !endsAgain)
    half.setMark()
    guard case .bytes(4) = half.ready(room: 4) else { return #expect(Bool(false), "the window has room for 4") }
    let first = Array(half.first(4)), wasMoving = half.isSlowButMoving
    #expect(first == Array("abcd".utf8) && !wasMoving)
    half.didTake(4)
    let (isMoving, count) = (half.isSlowButMoving, half.count)
    #expect(isMoving && count == 2)
    guard case .last(2, hasTrailers: false) = half.ready(room: 10) else {
      return #expect(Bool(false), "these are the last bytes")
    }
  }

  @Test func `a body that breaks off ends no stream, and breaks at once if nothing waits`() {
    var half = HTTP2SendingHalf(in: nil)
    half.begin(hasBody: true)
    let waitsForNothing = half.breakOff()
    let isTaken = append("ab", to: &half)
    let waits = half.breakOff()
    #expect(!waitsForNothing && isTaken && waits)
    guard case .bytes(2) = half.ready(room: 9) else { return #expect(Bool(false), "they go, and end nothing") }
    half.didTake(2)
    guard case .none = half.ready(room: 9) else { return #expect(Bool(false), "nothing follows") }
  }
}

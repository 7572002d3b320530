import Bytes
import Transport

/// What the transport's deadline of an HTTP/2 connection stands for. It is set again only when that changes, because
/// frames of the client are no progress of their own.
struct HTTP2Deadline {
  enum Awaited {
    case nothing
    /// The client's next request.
    case request
    /// The rest of a header block.
    case headers
    /// The client takes waiting bytes.
    case sending
    case answerToShutdown
  }

  private(set) var awaited = Awaited.nothing
  private var mark = ProgressMark()

  /// Whether the client has taken waiting bytes since the deadline was set: `send_timeout` applies between two writes.
  func hasProgress(_ transport: ByteStream) -> Bool {
    awaited == .sending && mark.isPassed(at: transport.wireBytesOut)
  }

  /// `timeout` in milliseconds; nil for no deadline. `again`: sets the same deadline once more.
  mutating func set(_ next: Awaited, _ transport: ByteStream, again: Bool, _ timeout: () -> Int?) {
    guard again || next != awaited else { return }
    awaited = next
    mark.set(transport.wireBytesOut)
    transport.setDeadline(in: timeout())
  }
}

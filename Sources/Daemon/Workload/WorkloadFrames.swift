import Bytes
import HTTP
import Observability
import SPIFFE

/// The HTTP/2 side of the one RPC, FetchX509SVID: makes its request, and reads messages and the status.
final class WorkloadFrames: HTTP2Frames {
  /// Of the messages that came, the last one: it replaces those before.
  private(set) var message: [UInt8]?
  /// Why the response is none of the Workload API.
  private(set) var fault: WorkloadFault?
  private(set) var status: GRPCStatus?
  /// The words of the agent beside the status, printable, at most 200 bytes.
  private(set) var statusWords = ""
  /// The stream is over; the status says how.
  private(set) var isOver = false
  /// Bytes that have to go out.
  var output: [UInt8] = []

  private var body = GRPCFrames()
  private var request = GRPCFrames.frame([])
  private var stream: Int32 = 0
  private var decoded = 0
  private var httpStatus: [UInt8] = []

  private static let headerLimit = 32 << 10
  private static let window: Int32 = 1 << 20
  private static let wordsLimit = 200

  /// Takes the message that came; the caller wipes it, because it holds keys.
  func takeMessage() -> [UInt8]? {
    defer { message = nil }
    return message
  }

  /// Begins the RPC. Returns false if memory is lacking.
  func begin() -> Bool {
    var announcement = HTTP2Announcement()
    announcement.concurrentStreams = 0
    announcement.streamWindow = Self.window
    announcement.connectionWindow = Self.window
    guard start(.client, announcement) else { return false }
    let head = OutgoingRequestHead()
    func add(_ name: StaticString, _ value: StaticString) {
      _ = head.add(name, UnsafeRawBufferPointer(start: value.utf8Start, count: value.utf8CodeUnitCount))
    }
    let target: StaticString = "/SpiffeWorkloadAPI/FetchX509SVID"
    guard head.setMethod("POST"),
      head.setTarget(UnsafeRawBufferPointer(start: target.utf8Start, count: target.utf8CodeUnitCount))
    else { return false }
    add("host", "localhost")
    add("content-type", "application/grpc")
    add("te", "trailers")
    add("user-agent", "sallyport")
    // The agent refuses requests without it: no browser can be made to send it (SPIFFE_Workload_Endpoint §5).
    add("workload.spiffe.io", "true")
    head.framing = .chunked
    let pointer = Unmanaged.passUnretained(self).toOpaque()
    guard let id = HTTP2Encoder.request(head, self, pointer, isTLS: false, hasBody: true) else { return false }
    stream = id
    return collect()
  }

  /// Reads bytes of the agent, and collects what has to go out. Returns false if the connection can't go on.
  func take(_ bytes: UnsafeRawBufferPointer) -> Bool { receive(bytes) != nil && collect() }

  private func collect() -> Bool {
    pull { bytes in
      output.append(contentsOf: bytes)
      return true
    }
  }

  // MARK: Events

  override func frameDidBegin(_ frame: HTTP2FrameHeader) -> Bool {
    let limit = bounds.take(
      frame.kind, length: frame.length, endsStream: frame.endsStream, now: MonotonicClock.milliseconds)
    if let limit { note("the agent sends too many frames (\(limit.rawValue))") }
    return limit == nil
  }

  override func header(_ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer, _ stream: Stream?) -> Bool {
    decoded += name.count + value.count
    guard decoded <= Self.headerLimit else {
      note("the agent's header list has more than \(Self.headerLimit) bytes")
      return false
    }
    switch String(decoding: name, as: UTF8.self) {
    case ":status": httpStatus = Array(value.prefix(3))
    case "grpc-status": status = GRPCStatus(value) ?? .other(-1)
    case "grpc-message": statusWords = Self.words(value)
    default: break
    }
    return true
  }

  override func headersDidEnd(_ stream: Stream, endsStream: Bool) {
    if httpStatus != Array("200".utf8) {
      note("the endpoint responds with HTTP status \(String(decoding: httpStatus, as: UTF8.self)), not as gRPC")
    }
    if endsStream { isOver = true }
  }

  override func data(_ bytes: UnsafeRawBufferPointer, _ stream: Stream) {
    credit(self.stream, bytes.count)
    guard fault == nil else { return }
    do throws(WorkloadFault) {
      for var message in try body.take(bytes) {
        self.message?.wipe()
        self.message = message
        message = []
      }
    } catch {
      note(error.reason)
    }
  }

  override func inputDidEnd(_ stream: Stream) { isOver = true }
  override func streamDidClose(_ stream: Stream, code: UInt32) { isOver = true }
  override func peerDidGoAway(lastStream: Int32, code: UInt32) { isOver = true }

  override func output(of stream: Stream, room: Int) -> HTTP2Output {
    room >= request.count ? .last(request.count, hasTrailers: false) : .none
  }

  override func send(_ count: Int, of stream: Stream, after frameHeader: UnsafeRawBufferPointer) {
    output.append(contentsOf: frameHeader)
    output += request.prefix(count)
    request.removeFirst(min(count, request.count))
  }

  private func note(_ reason: String) { if fault == nil { fault = WorkloadFault(reason) } }

  /// gRPC escapes bytes of the message as `%20`; they stay so, and others become `?`.
  private static func words(_ value: UnsafeRawBufferPointer) -> String {
    String(
      decoding: value.prefix(wordsLimit).map { (0x20...0x7E).contains($0) ? $0 : UInt8(ascii: "?") }, as: UTF8.self)
  }
}

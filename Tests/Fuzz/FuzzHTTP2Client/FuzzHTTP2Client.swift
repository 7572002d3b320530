import Bytes
import FuzzSupport
import HTTP

/// What a client sends after its preface, in pieces whose size the first byte chooses. Every request is answered.
///
/// Holds: whatever arrives, the session ends or goes on; a head that is accepted is one that HTTP/1.1 can carry, and only
/// whole lines are in it.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
  guard count > 1 else { return 0 }
  let frames = Frames(limits: HeadLimits(lineBytes: 512, headBytes: 2048, fields: 40, underscores: start[0] & 1 == 0))
  guard frames.start(.server, HTTP2Announcement()) else { return 0 }
  let bytes =
    Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + Array(UnsafeBufferPointer(start: start + 1, count: count - 1))
  let step = 1 + Int(start[0] >> 1) * 8
  var at = 0
  while at < bytes.count {
    let end = min(bytes.count, at + step)
    guard bytes[at..<end].withUnsafeBytes({ frames.receive($0) }) != nil else { break }
    guard frames.pull({ _ in true }) else { break }
    at = end
  }
  return 0
}

private final class Request {
  let id: Int32
  let head = RequestHead()
  var isComplete = false, waiting = 0
  init(_ id: Int32) { self.id = id }
}

private final class Frames: HTTP2Frames {
  private let limits: HeadLimits
  private var builder = HTTP2HeadBuilder(), trailers = TrailerSection()
  private var streams: [Int32: Request] = [:]
  private var reading: Request?
  private var isInTrailers = false, now: UInt64 = 0

  init(limits: HeadLimits) { self.limits = limits }

  private func stream(_ pointer: Stream) -> Request {
    Unmanaged<Request>.fromOpaque(pointer).takeUnretainedValue()
  }

  override func frameDidBegin(_ frame: HTTP2FrameHeader) -> Bool {
    now += 1
    return bounds.take(frame.kind, length: frame.length, endsStream: frame.endsStream, now: now) == nil
  }

  override func headersDidBegin(_ id: Int32, _ stream: Stream?, isNew: Bool) {
    isInTrailers = !isNew
    guard isNew else { return trailers.begin() }
    require(stream == nil && streams[id] == nil)
    let begun = Request(id)
    streams[id] = begun
    reading = begun
    builder.begin(begun.head, limits: limits)
    attach(Unmanaged.passUnretained(begun).toOpaque(), to: id)
  }

  override func header(_ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer, _ stream: Stream?) -> Bool {
    if isInTrailers {
      trailers.add(name, value)
    } else if let reading {
      builder.add(name, value, to: reading.head)
    }
    return true
  }

  override func headersDidEnd(_ pointer: Stream, endsStream: Bool) {
    let stream = stream(pointer)
    if isInTrailers {
      if let trailers = (try? trailers.take()) ?? nil { check(trailers) }
      return
    }
    require(stream === reading)
    reading = nil
    let response = OutgoingResponseHead()
    response.add("Server", "fuzz")
    do throws(HeadError) {
      try builder.finish(stream.head, endsStream: endsStream)
      check(stream.head, endsStream)
      response.status = 200
      response.body = .stream
    } catch {
      response.status = error.status
      response.body = .length(3)
      require(stream.head.fields.isEmpty)
    }
    stream.waiting = 3
    _ = HTTP2Encoder.respond(response, self, stream.id, pointer, hasBody: true)
  }

  private func check(_ head: RequestHead, _ endsStream: Bool) {
    let known = head.bytes.readable
    require(known.count <= limits.headBytes + 200)
    require(!head.host.isEmpty && head.version == .http2)
    require(known[head.target.raw].allSatisfy { $0 > 0x20 && $0 != 0x7F })
    require(!head.methodRange.isEmpty && head.method != .connect && head.method != .trace)
    if endsStream { require(head.framing == .none || head.framing == .length(0) || head.isExtendedConnect) }
    for field in head.fields {
      require(field.name.count > 0 && FieldValue.isValid(known[field.value]))
      require(!known[field.name].contains { $0 <= 0x20 || $0 == 0x3A || $0 == 0x7F })
      require(known[field.value.end] == 0x0D && known[field.value.end + 1] == 0x0A)
      if !head.isExtendedConnect { require(field.id != .connection && field.id != .upgrade) }
      require(field.id != .transferEncoding)
    }
    // What goes on to an HTTP/1.1 upstream is read there as the same request.
    var text = ByteBuffer()
    text.append(known[head.methodRange])
    text.append(0x20)
    text.append(known[head.target.raw])
    text.append(" HTTP/1.1\r\n")
    for field in head.fields { HeadWriter.forward(field, of: known, to: &text) }
    text.append("\r\n")
    var parser = HeadParser()
    let again = RequestHead(), generous = HeadLimits(lineBytes: 65536, headBytes: 65536, underscores: true)
    require(parser.request(text.readable, limits: generous, into: again) == .complete(consumed: text.count))
    require(again.fields.count == head.fields.count && again.method == head.method)
    require(Array(again.bytes.readable[again.host]) == Array(known[head.host]) && again.port == head.port)
  }

  private func check(_ trailers: Trailers) {
    trailers.bytes.withUnsafeBytes { bytes in
      for field in trailers.fields { require(field.name.count > 0 && FieldValue.isValid(bytes[field.value])) }
    }
  }

  override func data(_ bytes: UnsafeRawBufferPointer, _ pointer: Stream) {
    credit(stream(pointer).id, bytes.count)
  }
  override func streamDidClose(_ pointer: Stream, code: UInt32) {
    let closed = stream(pointer)
    if closed === reading { reading = nil }
    streams[closed.id] = nil
  }
  override func output(of pointer: Stream, room: Int) -> HTTP2Output {
    .last(min(stream(pointer).waiting, room), hasTrailers: false)
  }
  override func send(_ count: Int, of pointer: Stream, after frameHeader: UnsafeRawBufferPointer) {
    stream(pointer).waiting -= count
    require(frameHeader.count == 9 && stream(pointer).waiting >= 0)
  }
}

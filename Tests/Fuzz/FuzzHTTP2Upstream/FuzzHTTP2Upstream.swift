import Bytes
import FuzzSupport
import HTTP

/// What an upstream sends on a connection with three requests, in pieces whose size the first byte chooses.
///
/// Holds: whatever arrives, the session ends or goes on; a head that is accepted is one that HTTP/1.1 can carry.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
  guard count > 1 else { return 0 }
  let frames = Frames()
  guard frames.start(.client, HTTP2Announcement()) else { return 0 }
  frames.ask(.get, hasBody: false)
  frames.ask(.head, hasBody: false)
  frames.ask(.post, hasBody: true)
  guard frames.pull({ _ in true }) else { return 0 }
  let bytes = Array(UnsafeBufferPointer(start: start + 1, count: count - 1))
  let step = 1 + Int(start[0]) * 4
  var at = 0
  while at < bytes.count {
    let end = min(bytes.count, at + step)
    guard bytes[at..<end].withUnsafeBytes({ frames.receive($0) }) != nil, frames.pull({ _ in true }) else { break }
    at = end
  }
  return 0
}

private final class Asked {
  var id: Int32 = 0
  let method: Method
  let head = ResponseHead()
  var hasFinalHead = false, received: UInt64 = 0, waiting = 5
  init(_ method: Method) { self.method = method }
}

private final class Frames: HTTP2Frames {
  private var builder = HTTP2ResponseBuilder(), trailers = TrailerSection()
  private var open: [Asked] = []
  private var isInTrailers = false, now: UInt64 = 0

  func ask(_ method: Method, hasBody: Bool) {
    let asked = Asked(method)
    open.append(asked)
    let incoming = RequestHead()
    var parser = HeadParser()
    let text = method == .head ? "HEAD" : method == .post ? "POST" : "GET"
    _ = Array("\(text) /x HTTP/1.1\r\nHost: a\r\n\r\n".utf8).withUnsafeBytes {
      parser.request($0, limits: HeadLimits(), into: incoming)
    }
    let outgoing = OutgoingRequestHead()
    outgoing.reset(over: incoming)
    outgoing.framing = hasBody ? .length(5) : .none
    asked.id =
      HTTP2Encoder.request(
        outgoing, self, Unmanaged.passUnretained(asked).toOpaque(), isTLS: true, hasBody: hasBody) ?? 0
    require(asked.id > 0)
    outgoing.reset(over: nil)
  }

  private func asked(_ pointer: Stream) -> Asked { Unmanaged<Asked>.fromOpaque(pointer).takeUnretainedValue() }

  override func frameDidBegin(_ frame: HTTP2FrameHeader) -> Bool {
    now += 1
    return bounds.take(frame.kind, length: frame.length, endsStream: frame.endsStream, now: now) == nil
  }

  override func headersDidBegin(_ id: Int32, _ stream: Stream?, isNew: Bool) {
    require(!isNew)
    guard let stream else { return }
    let asked = asked(stream)
    isInTrailers = asked.hasFinalHead
    if isInTrailers {
      trailers.begin()
    } else {
      builder.begin(asked.head, limits: HeadLimits(ignoreInvalidNames: false))
    }
  }

  override func header(_ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer, _ stream: Stream?) -> Bool {
    guard let stream else { return true }
    if isInTrailers { trailers.add(name, value) } else { builder.add(name, value, to: asked(stream).head) }
    return true
  }

  override func headersDidEnd(_ stream: Stream, endsStream: Bool) {
    let asked = asked(stream)
    if isInTrailers {
      _ = try? trailers.take()
      return
    }
    do throws(HeadError) {
      try builder.finish(asked.head, endsStream: endsStream, to: asked.method)
    } catch {
      return reset(asked.id, .cancel)
    }
    let head = asked.head, known = head.bytes.readable
    require(head.status >= 100 && head.status <= 999 && head.status != 101)
    require(!(head.isInterim && head.framing != .none))
    if endsStream { require(head.framing == .none || head.framing == .length(0)) }
    for field in head.fields {
      require(field.name.count > 0 && FieldValue.isValid(known[field.value]))
      require(!known[field.name].contains { $0 <= 0x20 || $0 == 0x3A || $0 == 0x7F })
      require(known[field.value.end] == 0x0D && known[field.value.end + 1] == 0x0A)
      require(!field.isHopByHop)
    }
    if !head.isInterim { asked.hasFinalHead = true }
  }

  override func data(_ bytes: UnsafeRawBufferPointer, _ stream: Stream) {
    let asked = asked(stream)
    asked.received += UInt64(bytes.count)
    if case .length(let length) = asked.head.framing, asked.hasFinalHead { require(asked.received <= length) }
    credit(asked.id, bytes.count)
  }

  override func streamDidClose(_ stream: Stream, code: UInt32) {
    let closed = asked(stream)
    open.removeAll { $0 === closed }
  }
  override func output(of stream: Stream, room: Int) -> HTTP2Output {
    .last(min(asked(stream).waiting, room), hasTrailers: false)
  }
  override func send(_ count: Int, of stream: Stream, after frameHeader: UnsafeRawBufferPointer) {
    asked(stream).waiting -= count
  }
}

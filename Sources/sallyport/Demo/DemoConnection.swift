import Bytes
import Crypto
import Glibc
import HTTP
import Observability

/// Answers the requests of one connection, one after another.
struct DemoConnection {
  private let wire: DemoWire
  private static let limits = HeadLimits(
    lineBytes: 32 * 1024, headBytes: 64 * 1024, fields: 200, ignoreInvalidNames: false, underscores: true)
  private static let sizeLimit = 1 << 30
  private static let delayLimit = 60

  init(_ wire: DemoWire) { self.wire = wire }

  func serve() {
    let head = RequestHead()
    while let isHead = readHead(into: head), isHead {
      guard answer(DemoRequest(head)), head.keepsAlive else { return }
    }
  }

  /// Returns nil when the peer closed the connection, and false for a request that can't be parsed.
  private func readHead(into head: RequestHead) -> Bool? {
    var parser = HeadParser()
    while true {
      switch parser.request(wire.input.readable, limits: Self.limits, into: head) {
      case .complete(let consumed):
        wire.consume(consumed)
        return true
      case .incomplete: guard wire.read() else { return nil }
      case .failed: return false
      }
    }
  }

  /// Returns false when the connection must end.
  private func answer(_ request: DemoRequest) -> Bool {
    if request.parts.first == "ws", request.parts.count == 1 {
      guard let key = request.webSocketKey else { return discard(request) != nil && tell(request, status: 426) }
      DemoWebSocket(wire, key: key).serve()
      return false
    }
    guard let received = discard(request) else { return false }
    let number = request.parts.count == 2 ? Int(request.parts[1]) : nil
    switch (request.parts.first, number) {
    case (nil, _): return tell(request, status: 200)
    case ("delay", let seconds?) where (0...Self.delayLimit).contains(seconds):
      sleep(UInt32(seconds))
      return tell(request, status: 200)
    case ("bytes", let count?) where (0...Self.sizeLimit).contains(count): return send(count, request)
    case ("status", let status?) where (200...599).contains(status): return tell(request, status: status)
    case ("upload", nil) where request.parts.count == 1:
      var json = JSONText()
      json.object { $0.member("received", Int64(received)) }
      return respond(request, status: 200, type: "application/json", Array((json.text + "\n").utf8))
    default: return tell(request, status: 404)
    }
  }

  /// Reads the body to its end and returns its size in bytes; nil when the connection ended before.
  private func discard(_ request: DemoRequest) -> Int? {
    var decoder = BodyDecoder(request.framing)
    var received = 0
    if request.expectsContinue { wire.write(Array("HTTP/1.1 100 Continue\r\n\r\n".utf8)) }
    while !decoder.isEnded {
      switch decoder.next(wire.input.readable) {
      case .data(_, let count, let consumed):
        received &+= count
        wire.consume(consumed)
      case .end(let consumed): wire.consume(consumed)
      case .needsMore(let consumed):
        wire.consume(consumed)
        guard wire.read() else { return nil }
      case .failed: return nil
      }
    }
    return received
  }

  // MARK: Answers

  /// Reports what the server saw: as a page for browsers, as JSON for others.
  private func tell(_ request: DemoRequest, status: Int) -> Bool {
    let sight = ClientReport(request)
    guard request.wantsPage else {
      return respond(request, status: status, type: "application/json", Array(sight.json.utf8))
    }
    return respond(request, status: status, type: "text/html; charset=utf-8", Array(DemoPage(sight).text.utf8))
  }

  private func respond(_ request: DemoRequest, status: Int, type: String, _ body: [UInt8]) -> Bool {
    let hasBody = status != 204 && status != 304
    var lines = ["HTTP/1.1 \(status) \(StatusText.reason(UInt16(status)))", "Cache-Control: no-store"]
    if hasBody { lines += ["Content-Type: \(type)", "Content-Length: \(body.count)"] }
    if type.hasPrefix("text/html") {
      lines.append("Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'")
    }
    let head = Array((lines.joined(separator: "\r\n") + "\r\n\r\n").utf8)
    return wire.write(hasBody && !request.isHead ? head + body : head)
  }

  private func send(_ count: Int, _ request: DemoRequest) -> Bool {
    let head =
      "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: \(count)\r\nCache-Control: no-store\r\n\r\n"
    guard wire.write(Array(head.utf8)) else { return false }
    if request.isHead { return true }
    let block = (0..<64 * 1024).map { UInt8(truncatingIfNeeded: $0) }
    var rest = count
    while rest > 0 {
      let part = min(rest, block.count)
      guard wire.write(part == block.count ? block : Array(block.prefix(part))) else { return false }
      rest -= part
    }
    return true
  }
}

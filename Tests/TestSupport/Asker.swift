/// A client of one connection that asks in the scene's version of HTTP, a request at a time: for what curl can't do, such
/// as a body that waits, or a Host that isn't the handshake's name. Over HTTP/2, curl 7.88 can't send a head of more than
/// 64 KiB either, and it loses an answer that comes while it still sends its body, from nginx too.
///
/// For a thread of its own (`Scene.ask`), since it blocks. No read waits longer than the wire's time limit.
package final class Asker {
  /// How the body of a request is announced: `open` has no length, and is chunked in HTTP/1.1.
  package enum Body { case none, length(Int), open }

  private let wire: Wire
  private let scheme: String
  private let frames: FrameClient?
  private var method = "GET"
  private var isChunked = false
  private var stream: UInt32 = 0

  fileprivate init(_ wire: Wire, _ speech: Speech, scheme: String) throws {
    self.wire = wire
    self.scheme = scheme
    frames = speech == .http2 ? FrameClient(wire) : nil
    // Windows in which every answer has room.
    try frames?.begin([4: 1 << 24])
    frames?.send(.windowUpdate(0, 1 << 24))
  }

  /// Sends the head of a request.
  package func begin(
    _ method: String, _ path: String, host: String = "localhost", _ fields: [HPACK.Field] = [], body: Body = .none
  ) throws {
    self.method = method
    var fields = fields
    isChunked = false
    switch body {
    case .none: break
    case .length(let count): fields.append(("Content-Length", "\(count)"))
    case .open: isChunked = true
    }
    guard let frames else {
      if isChunked { fields.append(("Transfer-Encoding", "chunked")) }
      let lines = ["\(method) \(path) HTTP/1.1", "Host: \(host)"] + fields.map { "\($0.name): \($0.value)" }
      return try wire.write(lines.joined(separator: "\r\n") + "\r\n\r\n")
    }
    stream += stream == 0 ? 1 : 2
    let pseudo = [(":method", method), (":scheme", scheme), (":path", path), (":authority", host)]
    let block = HPACK.block(pseudo + fields.map { ($0.name.lowercased(), $0.value) })
    // What a frame holds at most unless the peer says otherwise.
    let blocks = stride(from: 0, to: block.count, by: 16_384).map { Array(block[$0..<min($0 + 16_384, block.count)]) }
    var flags = blocks.count == 1 ? HTTP2Frame.endHeaders : 0
    if case .none = body { flags |= HTTP2Frame.endStream }
    frames.send(
      blocks.enumerated().map { index, block in
        index == 0
          ? .headers(stream, block, flags: flags)
          : .continuation(stream, block, ends: index == blocks.count - 1)
      })
  }

  /// Sends a part of the body, which `ends` with it. In HTTP/2 it must fit the window of a new stream, 65,535 bytes.
  package func send(_ bytes: [UInt8], ends: Bool = false) throws {
    guard let frames else {
      let chunk = Array("\(String(bytes.count, radix: 16))\r\n".utf8) + bytes + [13, 10]
      if !bytes.isEmpty { try wire.write(isChunked ? chunk : bytes) }
      return ends && isChunked ? try wire.write("0\r\n\r\n") : ()
    }
    frames.send(HTTP2Frame(.data, flags: ends ? HTTP2Frame.endStream : 0, stream: stream, bytes))
  }

  package func send(_ text: String, ends: Bool = false) throws { try send(Array(text.utf8), ends: ends) }

  /// Ends an open body with trailers.
  package func end(trailers: [HPACK.Field]) throws {
    guard let frames else {
      return try wire.write("0\r\n" + trailers.map { "\($0.name): \($0.value)\r\n" }.joined() + "\r\n")
    }
    frames.send(.headers(stream, HPACK.block(trailers.map { ($0.name.lowercased(), $0.value) })))
  }

  /// The status of the next head, which is an interim response's.
  package func interim() throws -> Int {
    guard let frames else { return try wire.response().status }
    while let frame = try frames.next() {
      guard frame.kind == .headers, frame.stream == stream else { continue }
      return try HPACK.fields(of: frame.payload).first { $0.name == ":status" }.flatMap { Int($0.value) } ?? 0
    }
    throw WireError.truncated(got: 0)
  }

  /// The response to the last request; an answer that breaks off is an error.
  package func response() throws -> HTTPMessage {
    guard let frames else { return try wire.response(to: method) }
    let response = try frames.response(on: stream)
    guard response.isComplete else { throw WireError.truncated(got: response.body.count) }
    var message = HTTPMessage(head: Array("HTTP/2 \(response.status)".utf8))
    message.fields = response.fields.filter { !$0.name.hasPrefix(":") }
    message.body = response.body
    message.trailers = response.trailers
    return message
  }

  /// Sends a body whose answer may come before its end.
  package func post(_ path: String, _ body: [UInt8], isOpen: Bool = false) throws -> HTTPMessage {
    try begin("POST", path, body: isOpen ? .open : .length(body.count))
    for start in stride(from: 0, to: body.count, by: 16_384) {
      let end = min(start + 16_384, body.count)
      try send(Array(body[start..<end]), ends: end == body.count)
    }
    return try response()
  }

  /// Asks without a body.
  package func get(_ path: String, host: String = "localhost", _ fields: [HPACK.Field] = []) throws -> HTTPMessage {
    try begin("GET", path, host: host, fields)
    return try response()
  }
}

extension Scene {
  /// Asks a plain listener, on a thread of its own.
  package func ask<R: Sendable>(_ port: UInt16, _ body: @escaping @Sendable (Asker) throws -> R) async throws -> R {
    let speech = speech
    didSpeak()
    return try await talk(port) { try body(Asker($0, speech, scheme: "http")) }
  }

  /// Asks over TLS, on a thread of its own. `name`: in the handshake.
  package func ask<R: Sendable>(
    tls port: UInt16, name: String = "localhost", identity: IdentityFiles? = nil,
    _ body: @escaping @Sendable (Asker) throws -> R
  ) async throws -> R {
    let speech = speech
    let protocols = ["-alpn", speech == .http2 ? "h2" : "http/1.1"]
    didSpeak()
    return try await talk(tls: port, name: name, identity: identity, protocols) {
      try body(Asker($0, speech, scheme: "https"))
    }
  }
}

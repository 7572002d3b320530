import Bytes
@testable import Features
@testable import Forward
import HTTP
@testable import Traffic
import Transport

/// A client in memory. It delivers a request body on demand, and records the response.
final class MemoryStream: ClientStream {
  /// Pieces of the request's body that the exchange has not requested yet.
  private var pieces: [[UInt8]]
  private var isPaused = true, isWhole: Bool
  private(set) var interim: [UInt16] = []
  /// Interim responses with fields, in HTTP/1 form.
  private(set) var hints = ""
  private(set) var status: UInt16?
  /// The head in HTTP/1 form.
  private(set) var head = ""
  private(set) var body = ""
  /// The same as they came: they may be no UTF-8.
  private(set) var bytes: [UInt8] = []
  private(set) var trailers: Trailers?
  /// The request's location and captures at the time of the response.
  private(set) var location: LiveLocation?, captures: [[UInt8]] = []
  private(set) var hasEnded = false, isReleased = false, isTunnel = false, closesAfterResponse = false
  private(set) var cutReason: EndReason?
  private(set) var watchedFor: Int?
  /// The number of bytes that the simulated client has not taken yet.
  var held = 0
  /// Whether the client takes no byte of the body.
  var takesNothing = false
  var isGone = false

  init(_ session: ClientSession, body pieces: [String] = [], isWhole: Bool = true) {
    self.pieces = pieces.map { Array($0.utf8) }
    self.isWhole = isWhole
    super.init(session)
  }

  // MARK: The request

  override var isBodyRead: Bool { pieces.isEmpty && isWhole }
  override var hasClientLeft: Bool { isGone }
  override func pauseBody() { isPaused = true }
  override func discardBody() {
    isPaused = true
    pieces = []
  }

  override func resumeBody() {
    isPaused = false
    deliver()
  }

  private func deliver() {
    while !isPaused, let exchange {
      guard !pieces.isEmpty else {
        guard isWhole, !isTunnel else { return }
        isPaused = true
        return exchange.requestBodyDidEnd(trailers: nil)
      }
      let piece = pieces.removeFirst()
      piece.withUnsafeBytes { isTunnel ? exchange.tunnelBytes($0) : exchange.requestBody($0) }
    }
  }

  /// Delivers more of the body, or bytes of a tunnel.
  func more(_ text: String, isLast: Bool = false) {
    pieces.append(Array(text.utf8))
    isWhole = isLast
    deliver()
  }

  /// Ends the body, with no more of it.
  func endBody() {
    isWhole = true
    deliver()
  }

  // MARK: The response

  override var waitingBytes: Int { takesNothing ? body.utf8.count : held }
  override var sentBytes: UInt64 { UInt64(head.utf8.count + body.utf8.count) }
  override var takesTrailers: Bool { true }
  override func sendInterim(_ status: UInt16) { interim.append(status) }
  override func sendInterim(head: OutgoingResponseHead) {
    var text = ByteBuffer()
    HTTP1Encoder.interim(head, to: &text)
    interim.append(head.status)
    hints += text.readable.text
  }
  override func closeAfterResponse() { closesAfterResponse = true }
  override func becomeTunnel() { isTunnel = true }
  override func watchSending(_ timeout: Int) { watchedFor = timeout }

  override func send(head: OutgoingResponseHead) {
    status = head.status
    head.framing =
      switch head.body {
      case .none: .none
      case .length(let length): .length(length)
      case .stream: .chunked
      }
    var text = ByteBuffer()
    HTTP1Encoder.response(head, to: &text)
    self.head = text.readable.text
    location = exchange?.location
    captures = exchange?.variables.captures ?? []
  }

  override func send(body bytes: UnsafeRawBufferPointer) {
    body += bytes.text
    self.bytes += bytes
  }

  override func end(_ trailers: Trailers?) {
    hasEnded = true
    self.trailers = trailers
  }

  override func release() {
    isReleased = true
    exchange = nil
  }

  override func cut(_ reason: EndReason) {
    cutReason = reason
    exchange = nil
  }
}

/// The peer's end of a transport in memory: an upstream, or a client that speaks HTTP/1.
final class ScriptedUpstream: ByteStream {
  /// The index of the group's server that the proxy connected to.
  let server: Int
  private(set) var bytesSent: [UInt8] = []
  var sent: String { String(decoding: bytesSent, as: UTF8.self) }
  private var input: [UInt8] = []
  private var hasEnded = false
  /// The proxy has ended its side in good order.
  private(set) var hasProxyEnded = false

  init(_ server: Int, _ loop: EventLoop) {
    self.server = server
    super.init(inMemory: loop)
  }

  /// Whether the peer takes no bytes.
  var isBlocked = false

  override func deliver(_ bytes: UnsafeRawBufferPointer) -> Int {
    if isBlocked { return 0 }
    bytesSent += bytes
    return bytes.count
  }

  override func writeEnd() { hasProxyEnded = true }

  override var hasBufferedInput: Bool { !input.isEmpty || hasEnded }

  override func read(into target: UnsafeMutableRawBufferPointer) -> ReadOutcome {
    guard !input.isEmpty else { return hasEnded ? .end : .wouldBlock }
    let count = min(target.count, input.count)
    target.copyBytes(from: input.prefix(count))
    input.removeFirst(count)
    return .bytes(count)
  }

  /// Completes the connection, so that the proxy sends the request.
  func open() {
    begin()
    loop.cork.flush()
  }

  /// Takes the bytes that wait for the peer.
  func unblock() {
    isBlocked = false
    ready([.output])
    loop.cork.flush()
  }

  /// Clears the recorded bytes, and responds with `text`.
  func answer(_ text: String, ends: Bool = false) { answer(Array(text.utf8), ends: ends) }

  func answer(_ bytes: [UInt8], ends: Bool = false) {
    bytesSent = []
    input += bytes
    hasEnded = ends
    if ends { ready([.input, .peerEnd]) } else { owner?.streamIsReadable() }
    loop.cork.flush()
  }

  /// Makes the connection fail, or breaks it.
  func refuse() {
    fail(.socket(SocketError("connect", 111)))
    loop.cork.flush()
  }
}

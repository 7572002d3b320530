import Bytes
import Forward
import HTTP
import Observability
import Traffic

/// The status codes of gRPC that sallyport's own errors become.
enum GRPCStatus: UInt8 {
  case cancelled = 1, unknown = 2, deadlineExceeded = 4, permissionDenied = 7, resourceExhausted = 8
  case unimplemented = 12, internalError = 13, unavailable = 14, unauthenticated = 16

  /// By gRPC's own table for clients that get no `grpc-status` (doc/http-grpc-status-mapping.md), and for what that table
  /// leaves unknown, the nearest status if there is one.
  init(_ error: ErrorResponse) {
    switch error.code {
    case 401, 495, 496: self = .unauthenticated
    case 403: self = .permissionDenied
    case 404: self = .unimplemented
    case 408: self = .deadlineExceeded
    case 413, 494: self = .resourceExhausted
    case 421, 429, 502, 503, 504: self = .unavailable
    case 499: self = .cancelled
    case 400, 500: self = .internalError
    default: self = .unknown
    }
  }
}

/// An exchange whose client makes a gRPC call: over HTTP/2, with a type of `application/grpc`.
struct GRPCCall {
  let exchange: Exchange

  /// nil for other requests.
  init?(_ exchange: Exchange) {
    // The status of a subrequest decides, so an error of its own must not become a 200 with a `grpc-status`.
    guard !exchange.isSubrequest, exchange.head.version == .http2, let type = exchange.head.first(.contentType) else {
      return nil
    }
    let bytes = exchange.head.bytes.readable[type.value]
    guard bytes.count >= 16, UnsafeRawBufferPointer(rebasing: bytes[..<16]).equalsIgnoringCase("application/grpc"),
      bytes.count == 16 || bytes[16] == UInt8(ascii: "+") || bytes[16] == UInt8(ascii: ";")
    else { return nil }
    self.exchange = exchange
  }

  /// Responds with an error: trailers only, as gRPC has it. The access log has the error's own status.
  func answer(_ error: ErrorResponse, _ status: GRPCStatus? = nil) {
    guard let stream = exchange.stream else { return }
    if !stream.isBodyRead { stream.discardBody() }
    let response = exchange.response
    response.reset()
    response.status = 200
    exchange.worker.ownFields.add(tokens: exchange.location.settings.redirects.serverTokens, to: response)
    response.add("Content-Type", "application/grpc")
    var text = ByteBuffer()
    text.append(decimal: UInt64((status ?? GRPCStatus(error)).rawValue))
    _ = response.add("grpc-status", text.readable)
    text.removeAll()
    text.append(decimal: UInt64(error.status))
    text.append(0x20)
    text.append(StatusText.reason(error.status))
    _ = response.add("grpc-message", text.readable)
    if let own = exchange.progress.ownFields { response.add(own) }
    exchange.setStatus(Int(error.status))
    exchange.changeHead()
    exchange.sendHead()
    exchange.setStatus(Int(error.status))
    exchange.complete()
  }

  /// The time that the client gives the call (`grpc-timeout`), in milliseconds; nil if it gives none, or one that can't be
  /// read.
  var timeout: Int? {
    let head = exchange.head
    return bytes("grpc-timeout") { head.value(named: $0) }.flatMap { Self.timeout(head.bytes.readable[$0]) }
  }

  /// Reads at most eight digits and a unit: `H`, `M`, `S`, `m`, `u` or `n`.
  static func timeout(_ text: UnsafeRawBufferPointer) -> Int? {
    guard (2...9).contains(text.count), let unit = text.last else { return nil }
    var value = 0
    for byte in text.dropLast() {
      guard ASCII.isDigit(byte) else { return nil }
      value = value * 10 + Int(byte &- 48)
    }
    return switch unit {
    case UInt8(ascii: "H"): value * 3_600_000
    case UInt8(ascii: "M"): value * 60_000
    case UInt8(ascii: "S"): value * 1000
    case UInt8(ascii: "m"): value
    case UInt8(ascii: "u"): (value + 999) / 1000
    case UInt8(ascii: "n"): (value + 999_999) / 1_000_000
    default: nil
    }
  }

  /// The client's `grpc-timeout` has passed.
  func deadlinePassed() {
    exchange.log(.info, "the client's grpc-timeout has passed")
    switch exchange.progress.state {
    case .waiting:
      exchange.handler?.cancel()
      answer(ErrorResponse(504), .deadlineExceeded)
    case .streaming(hasBody: true):
      // The client has messages, so the status goes into the trailers.
      exchange.handler?.cancel()
      var trailers = TrailerSection()
      bytes("grpc-status") { name in bytes("4") { trailers.add(name, $0) } }
      exchange.complete(try? trailers.take())
    case .streaming(hasBody: false), .tunnel, .whole: exchange.end(.upstreamBroke)
    }
  }
}

private func bytes<Value>(_ text: StaticString, _ body: (UnsafeRawBufferPointer) -> Value) -> Value {
  body(UnsafeRawBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
}

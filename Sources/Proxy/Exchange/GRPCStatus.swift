import Bytes
import HTTP
import Observability

/// The status codes of gRPC that sallyport's own errors become.
enum GRPCStatus: UInt8 {
  case cancelled = 1, invalidArgument = 3, deadlineExceeded = 4, permissionDenied = 7, resourceExhausted = 8
  case unimplemented = 12, internalError = 13, unavailable = 14, unauthenticated = 16

  /// By gRPC's own table for clients that get no `grpc-status` (doc/http-grpc-status-mapping.md), and for the statuses that
  /// it has not, the nearest.
  init(_ error: ErrorResponse) {
    switch error.code {
    case 401, 495, 496: self = .unauthenticated
    case 403: self = .permissionDenied
    case 404, 405: self = .unimplemented
    case 408, 504: self = .deadlineExceeded
    case 413, 494: self = .resourceExhausted
    case 421, 429, 502, 503: self = .unavailable
    case 499: self = .cancelled
    default: self = .internalError
    }
  }
}

extension Exchange {
  /// Whether the client makes a gRPC call: over HTTP/2, with a type of `application/grpc`.
  var speaksGRPC: Bool {
    guard head.version == .http2, let type = head.first(.contentType) else { return false }
    let bytes = head.bytes.readable[type.value]
    guard bytes.count >= 16, UnsafeRawBufferPointer(rebasing: bytes[..<16]).equalsIgnoringCase("application/grpc")
    else {
      return false
    }
    return bytes.count == 16 || bytes[16] == 0x2B || bytes[16] == 0x3B
  }

  /// Responds to a gRPC call with an error: trailers only, as gRPC has it. The access log has the error's own status.
  func answerGRPC(_ error: ErrorResponse) {
    guard let stream else { return }
    if !stream.isBodyRead { stream.discardBody() }
    response.reset()
    response.status = 200
    worker.ownFields.add(tokens: location.settings.redirects.serverTokens, to: response)
    response.add("Content-Type", "application/grpc")
    var text = ByteBuffer()
    text.append(decimal: UInt64(GRPCStatus(error).rawValue))
    _ = response.add("grpc-status", text.readable)
    text.removeAll()
    text.append(decimal: UInt64(error.status))
    text.append(0x20)
    text.append(StatusText.reason(error.status))
    _ = response.add("grpc-message", text.readable)
    if let own = progress.ownFields { response.add(own) }
    setStatus(Int(error.status))
    addConfiguredFields()
    sendHead()
    setStatus(Int(error.status))
    complete()
  }

  /// The time that the client gives the call (`grpc-timeout`), in milliseconds; nil if it gives none, or one that can't be
  /// read.
  var grpcTimeout: Int? {
    guard speaksGRPC,
      let range = bytes("grpc-timeout", { head.value(named: $0) })
    else { return nil }
    return Self.grpcTimeout(head.bytes.readable[range])
  }

  /// Reads at most eight digits and a unit: `H`, `M`, `S`, `m`, `u` or `n`.
  static func grpcTimeout(_ text: UnsafeRawBufferPointer) -> Int? {
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
  func grpcDeadlinePassed() {
    log(.info, "the client's grpc-timeout has passed")
    switch progress.state {
    case .waiting: fail(ErrorResponse(504))
    case .streaming(hasBody: true):
      // The client has messages, so the status goes into the trailers.
      handler?.cancel()
      var trailers = TrailerSection()
      bytes("grpc-status") { name in bytes("4") { trailers.add(name, $0) } }
      complete(try? trailers.take())
    case .streaming(hasBody: false), .tunnel, .whole: end(.upstreamBroke)
    }
  }
}

private func bytes<Value>(_ text: StaticString, _ body: (UnsafeRawBufferPointer) -> Value) -> Value {
  body(UnsafeRawBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
}

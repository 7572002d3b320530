/// A frame of HTTP/2 as a test writes or reads it: any bytes, also those that RFC 9113 forbids.
package struct HTTP2Frame: Sendable, Equatable {
  package enum Kind: UInt8, Sendable {
    case data = 0, headers, priority, reset, settings, pushPromise, ping, goAway, windowUpdate, continuation
  }

  /// RFC 9113 §7.
  package enum ErrorCode: UInt32, Sendable {
    case noError = 0, protocolError, internalError, flowControlError, settingsTimeout, streamClosed, frameSizeError
    case refusedStream, cancel, compressionError, connectError, enhanceYourCalm, inadequateSecurity, http11Required
  }

  package var type: UInt8
  package var flags: UInt8
  package var stream: UInt32
  package var payload: [UInt8]

  package static let endStream: UInt8 = 1, acknowledged: UInt8 = 1, endHeaders: UInt8 = 4, padded: UInt8 = 8
  package static let hasPriority: UInt8 = 0x20

  package init(type: UInt8, flags: UInt8 = 0, stream: UInt32 = 0, payload: [UInt8] = []) {
    self.type = type
    self.flags = flags
    self.stream = stream
    self.payload = payload
  }

  package init(_ kind: Kind, flags: UInt8 = 0, stream: UInt32 = 0, _ payload: [UInt8] = []) {
    self.init(type: kind.rawValue, flags: flags, stream: stream, payload: payload)
  }

  /// nil for an extension.
  package var kind: Kind? { Kind(rawValue: type) }
  package func has(_ flag: UInt8) -> Bool { flags & flag != 0 }
  package var endsStream: Bool { (kind == .data || kind == .headers) && has(Self.endStream) }

  package var bytes: [UInt8] {
    let count = UInt32(payload.count)
    return [UInt8(truncatingIfNeeded: count >> 16), UInt8(truncatingIfNeeded: count >> 8)]
      + [UInt8(truncatingIfNeeded: count), type, flags] + Self.word(stream) + payload
  }

  /// The four bytes from `offset` on; 0 where there are fewer.
  package func word(at offset: Int) -> UInt32 {
    guard payload.count >= offset + 4 else { return 0 }
    return payload[offset..<offset + 4].reduce(0) { $0 << 8 | UInt32($1) }
  }

  /// The error code of a RST_STREAM or GOAWAY, if it is one of RFC 9113.
  package var errorCode: ErrorCode? {
    switch kind {
    case .reset: ErrorCode(rawValue: word(at: 0))
    case .goAway: ErrorCode(rawValue: word(at: 4))
    default: nil
    }
  }

  package static func word(_ value: UInt32) -> [UInt8] {
    (0..<4).map { UInt8(truncatingIfNeeded: value >> (24 - 8 * $0)) }
  }
}

extension HTTP2Frame {
  package static func data(_ stream: UInt32, _ text: String = "", ends: Bool = true) -> Self {
    Self(.data, flags: ends ? endStream : 0, stream: stream, Array(text.utf8))
  }

  /// A whole header block that ends the stream.
  package static func headers(_ stream: UInt32, _ block: [UInt8], flags: UInt8 = endStream | endHeaders) -> Self {
    Self(.headers, flags: flags, stream: stream, block)
  }

  /// A request without a body.
  package static func get(_ stream: UInt32, _ path: String = "/", _ more: [HPACK.Field] = []) -> Self {
    headers(stream, HPACK.block(HPACK.request("GET", path) + more))
  }

  /// A request whose body follows.
  package static func post(_ stream: UInt32, _ path: String = "/", _ more: [HPACK.Field] = []) -> Self {
    headers(stream, HPACK.block(HPACK.request("POST", path) + more), flags: endHeaders)
  }

  package static func continuation(_ stream: UInt32, _ block: [UInt8], ends: Bool = true) -> Self {
    Self(.continuation, flags: ends ? endHeaders : 0, stream: stream, block)
  }

  package static func priority(_ stream: UInt32, on other: UInt32 = 0) -> Self {
    Self(.priority, stream: stream, word(other) + [15])
  }

  package static func reset(_ stream: UInt32, _ code: UInt32 = 8) -> Self { Self(.reset, stream: stream, word(code)) }

  package static func settings(_ settings: KeyValuePairs<UInt16, UInt32> = [:]) -> Self {
    Self(.settings, settings.flatMap { [UInt8($0.key >> 8), UInt8($0.key & 0xff)] + word($0.value) })
  }

  package static var settingsTaken: Self { Self(.settings, flags: acknowledged) }

  package static func ping(_ number: UInt32 = 0, flags: UInt8 = 0) -> Self {
    Self(.ping, flags: flags, word(number) + word(number))
  }

  package static func goAway(_ code: UInt32 = 0) -> Self { Self(.goAway, word(0) + word(code)) }

  package static func windowUpdate(_ stream: UInt32, _ increment: UInt32) -> Self {
    Self(.windowUpdate, stream: stream, word(increment))
  }
}

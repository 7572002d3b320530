internal import Bytes
internal import CNGHTTP2

/// Hands heads and trailers to libnghttp2, which writes their names in lower case (RFC 9113 §8.2.1) and copies them.
public enum HTTP2Encoder {
  /// Submits a response head: of the stream `id`, which is `stream` in `HTTP2Frames.output`. `hasBody`: DATA follows.
  /// Returns the head's bytes before compression, or nil if memory is lacking.
  public static func respond(
    _ head: OutgoingResponseHead, _ frames: HTTP2Frames, _ id: Int32, _ stream: HTTP2Frames.Stream, hasBody: Bool
  ) -> Int? {
    guard let session = frames.session else { return nil }
    return withFields(of: head) { fields, bytes in
      guard hasBody else {
        return nghttp2_submit_response(session, id, fields.baseAddress, fields.count, nil) == 0 ? bytes : nil
      }
      var provider = nghttp2_data_provider(source: nghttp2_data_source(ptr: stream), read_callback: HTTP2Callbacks.read)
      return nghttp2_submit_response(session, id, fields.baseAddress, fields.count, &provider) == 0 ? bytes : nil
    }
  }

  /// Submits a request. `stream`: the pointer under which its events come. `isTLS`: whether the scheme is https.
  /// `hasBody`: DATA follows. Returns the stream's number, or nil if the connection takes no more streams.
  public static func request(
    _ head: OutgoingRequestHead, _ frames: HTTP2Frames, _ stream: HTTP2Frames.Stream, isTLS: Bool, hasBody: Bool
  ) -> Int32? {
    guard let session = frames.session else { return nil }
    let entries = head.fields.entries.elements
    let own = head.fields.text.readable, incoming = head.incomingBytes
    return withUnsafeTemporaryAllocation(of: nghttp2_nv.self, capacity: entries.count &+ 5) { fields in
      withUnsafeTemporaryAllocation(byteCount: 20, alignment: 1) { room in
        var count = 0
        func add(_ field: nghttp2_nv) {
          fields.initializeElement(at: count, to: field)
          count &+= 1
        }
        add(nv(":method", head.method))
        add(nv(":scheme", isTLS ? "https" : "http"))
        // The authority comes before the path in what upstreams log; the order says nothing else.
        for entry in entries where isHost((entry.isOwn ? own : incoming)[entry.name]) {
          add(nv(":authority", (entry.isOwn ? own : incoming)[entry.value]))
          break
        }
        add(nv(":path", head.target))
        for entry in entries {
          let bytes = entry.isOwn ? own : incoming
          let name = bytes[entry.name]
          if isOfHTTP1(name) || isHost(name) { continue }
          if FieldName.known(name) == .te, !bytes[entry.value].equalsIgnoringCase("trailers") { continue }
          add(nv(name, trimmed(bytes[entry.value])))
        }
        if case .length(let length) = head.framing { add(nv("content-length", decimal(length, in: room))) }
        var provider = nghttp2_data_provider(
          source: nghttp2_data_source(ptr: stream), read_callback: HTTP2Callbacks.read)
        let id =
          hasBody
          ? nghttp2_submit_request(session, nil, fields.baseAddress, count, &provider, stream)
          : nghttp2_submit_request(session, nil, fields.baseAddress, count, nil, stream)
        return id > 0 ? id : nil
      }
    }
  }

  /// A value without whitespace around it, which HTTP/1 allows and HTTP/2 does not (RFC 9113 §8.2.1).
  @inline(__always)
  private static func trimmed(_ value: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
    var start = 0, end = value.count
    while start < end, value[start] == 0x20 || value[start] == 0x09 { start &+= 1 }
    while end > start, value[end &- 1] == 0x20 || value[end &- 1] == 0x09 { end &-= 1 }
    return UnsafeRawBufferPointer(rebasing: value[start..<end])
  }

  private static func isHost(_ name: UnsafeRawBufferPointer) -> Bool { FieldName.known(name) == .host }

  /// Submits an interim response without fields.
  public static func interim(_ status: UInt16, _ frames: HTTP2Frames, _ id: Int32) {
    guard let session = frames.session else { return }
    withDigits(of: status) { digits in
      var field = nv(":status", digits)
      _ = nghttp2_submit_headers(session, 0, id, nil, &field, 1, nil)
    }
  }

  /// Submits an interim response with its fields.
  public static func interim(_ head: OutgoingResponseHead, _ frames: HTTP2Frames, _ id: Int32) {
    guard let session = frames.session else { return }
    withFields(of: head) { fields, _ in
      _ = nghttp2_submit_headers(session, 0, id, nil, fields.baseAddress, fields.count, nil)
    }
  }

  static func submit(_ trailers: Trailers, _ session: OpaquePointer?, _ id: Int32) -> Bool {
    trailers.bytes.withUnsafeBytes { bytes in
      withUnsafeTemporaryAllocation(of: nghttp2_nv.self, capacity: trailers.fields.count) { fields in
        var count = 0
        for field in trailers.fields {
          fields.initializeElement(at: count, to: nv(bytes[field.name], bytes[field.value]))
          count += 1
        }
        return nghttp2_submit_trailer(session, id, fields.baseAddress, count) == 0
      }
    }
  }

  private static func withFields<Value>(
    of head: OutgoingResponseHead, _ body: (UnsafeMutableBufferPointer<nghttp2_nv>, Int) -> Value
  ) -> Value {
    let entries = head.fields.entries.elements
    let own = head.fields.text.readable, incoming = head.incomingBytes
    return withUnsafeTemporaryAllocation(of: nghttp2_nv.self, capacity: entries.count &+ 2) { fields in
      withDigits(of: head.status == 101 ? 200 : head.status) { digits in
        withUnsafeTemporaryAllocation(byteCount: 20, alignment: 1) { room in
          fields.initializeElement(at: 0, to: nv(":status", digits))
          var count = 1, size = 10
          for entry in entries {
            let bytes = entry.isOwn ? own : incoming
            let name = bytes[entry.name]
            if isOfHTTP1(name) { continue }
            fields.initializeElement(at: count, to: nv(name, trimmed(bytes[entry.value])))
            count &+= 1
            size &+= name.count &+ Int(entry.value.count)
          }
          if let length = announcedLength(head) {
            fields.initializeElement(at: count, to: nv("content-length", decimal(length, in: room)))
            count &+= 1
          }
          return body(UnsafeMutableBufferPointer(rebasing: fields[..<count]), size)
        }
      }
    }
  }

  /// Whether the field describes a connection of HTTP/1; HTTP/2 forbids it (RFC 9113 §8.2.2).
  private static func isOfHTTP1(_ name: UnsafeRawBufferPointer) -> Bool {
    switch FieldName.known(name) {
    case .connection, .proxyConnection, .keepAlive, .transferEncoding, .upgrade: true
    default: false
    }
  }

  private static func announcedLength(_ head: OutgoingResponseHead) -> UInt64? {
    guard head.status != 101 else { return nil }
    return switch head.body {
    case .length(let length), .none(announced: .some(let length)): length
    case .none(announced: nil), .stream: nil
    }
  }

  private static func withDigits<Value>(of status: UInt16, _ body: (UnsafeRawBufferPointer) -> Value) -> Value {
    withUnsafeTemporaryAllocation(byteCount: 20, alignment: 1) { body(decimal(UInt64(status), in: $0)) }
  }

  /// Writes the digits at the end of `room`, of 20 bytes.
  private static func decimal(_ value: UInt64, in room: UnsafeMutableRawBufferPointer) -> UnsafeRawBufferPointer {
    var rest = value, at = room.count
    repeat {
      at &-= 1
      room[at] = UInt8(truncatingIfNeeded: 48 &+ rest % 10)
      rest /= 10
    } while rest > 0 && at > 0
    return UnsafeRawBufferPointer(rebasing: room[at...])
  }

  @inline(__always)
  private static func nv(_ name: StaticString, _ value: StaticString) -> nghttp2_nv {
    nv(name, UnsafeRawBufferPointer(start: value.utf8Start, count: value.utf8CodeUnitCount))
  }

  @inline(__always)
  private static func nv(_ name: StaticString, _ value: UnsafeRawBufferPointer) -> nghttp2_nv {
    nv(UnsafeRawBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount), value)
  }

  /// libnghttp2 only reads what it gets here, though its type says otherwise.
  @inline(__always)
  private static func nv(_ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) -> nghttp2_nv {
    nghttp2_nv(
      name: UnsafeMutablePointer(mutating: name.baseAddress?.assumingMemoryBound(to: UInt8.self)),
      value: UnsafeMutablePointer(mutating: value.baseAddress?.assumingMemoryBound(to: UInt8.self)),
      namelen: name.count, valuelen: value.count, flags: 0)
  }
}

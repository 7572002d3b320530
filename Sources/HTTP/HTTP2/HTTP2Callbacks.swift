internal import CNGHTTP2
internal import Glibc

/// The C functions by which libnghttp2 calls an `HTTP2Frames`, and the session's options.
enum HTTP2Callbacks {
  /// Returns a session whose events go to `owner`, an `HTTP2Frames` that outlives it; nil if memory is lacking.
  static func makeSession(_ role: HTTP2Frames.Role, _ owner: UnsafeMutableRawPointer) -> OpaquePointer? {
    guard let callbacks, let options else { return nil }
    var session: OpaquePointer?
    let result =
      switch role {
      case .server: nghttp2_session_server_new2(&session, callbacks, owner, options)
      case .client: nghttp2_session_client_new2(&session, callbacks, owner, options)
      }
    return result == 0 ? session : nil
  }

  // Each session copies it, and nobody changes it after this.
  private nonisolated(unsafe) static let callbacks: OpaquePointer? = {
    var callbacks: OpaquePointer?
    guard nghttp2_session_callbacks_new(&callbacks) == 0 else { return nil }
    set(callbacks)
    return callbacks
  }()

  // Each session copies it, and nobody changes it after this.
  private nonisolated(unsafe) static let options: OpaquePointer? = {
    var option: OpaquePointer?
    guard nghttp2_option_new(&option) == 0 else { return nil }
    nghttp2_option_set_no_auto_window_update(option, 1)
    nghttp2_option_set_no_closed_streams(option, 1)
    nghttp2_option_set_max_settings(option, 32)
    // A head that is too large for libnghttp2 would leave its stream without an answer.
    nghttp2_option_set_max_send_header_block_length(option, 32 << 20)
    // `HTTP2Bounds` limits the frames that are answered, and resets, so that the log and the metrics can tell of them.
    nghttp2_option_set_max_outbound_ack(option, 1 << 20)
    nghttp2_option_set_stream_reset_rate_limit(option, 1 << 20, 1 << 20)
    return option
  }()

  private static func set(_ callbacks: OpaquePointer?) {
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks) { session, frame, owner in
      guard let frame else { return 0 }
      let id = frame.pointee.hd.stream_id, isNew = frame.pointee.headers.cat == NGHTTP2_HCAT_REQUEST
      withFrames(owner) { $0.headersDidBegin(id, streamPointer(session, id), isNew: isNew) }
      return 0
    }
    nghttp2_session_callbacks_set_on_header_callback(callbacks) {
      session, frame, name, nameCount, value, valueCount, _, owner in
      guard let frame else { return 0 }
      return withFrames(owner) {
        $0.header(
          UnsafeRawBufferPointer(start: name, count: nameCount),
          UnsafeRawBufferPointer(start: value, count: valueCount),
          streamPointer(session, frame.pointee.hd.stream_id))
      } ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE.rawValue
    }
    // Otherwise libnghttp2 would leave the field out, and pass the rest on.
    nghttp2_session_callbacks_set_on_invalid_header_callback(callbacks) { _, _, _, _, _, _, _, _ in
      NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue
    }
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks) { session, _, id, bytes, count, owner in
      withFrames(owner) {
        $0.credit(connection: count)
        guard let stream = streamPointer(session, id) else { return }
        $0.data(UnsafeRawBufferPointer(start: bytes, count: count), stream)
      }
      return 0
    }
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks) { session, frame, owner in
      guard let frame else { return 0 }
      withFrames(owner) { received(frame, session, $0) }
      return 0
    }
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks) { session, frame, code, owner in
      guard let frame else { return 0 }
      let header = frame.pointee.hd
      withFrames(owner) {
        $0.frameWasInvalid(
          HTTP2FrameKind(UInt32(header.type)), streamPointer(session, header.stream_id),
          reason: String(cString: nghttp2_strerror(code)))
      }
      return 0
    }
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks) { session, id, code, owner in
      guard let stream = streamPointer(session, id) else { return 0 }
      withFrames(owner) { $0.streamDidClose(stream, code: code) }
      return 0
    }
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks) { session, frame, owner in
      guard let frame else { return 0 }
      let header = frame.pointee.hd
      if UInt32(header.type) == NGHTTP2_GOAWAY.rawValue, frame.pointee.goaway.error_code != 0 {
        let reason = String(cString: nghttp2_http2_strerror(frame.pointee.goaway.error_code))
        withFrames(owner) { $0.connectionDidBreak(reason: reason) }
      } else if UInt32(header.type) == NGHTTP2_RST_STREAM.rawValue {
        withFrames(owner) { $0.resetDidGo(code: frame.pointee.rst_stream.error_code) }
      }
      guard let stream = streamPointer(session, header.stream_id) else { return 0 }
      let ends = UInt32(header.flags) & NGHTTP2_FLAG_END_STREAM.rawValue != 0
      withFrames(owner) { $0.frameDidGo(HTTP2FrameKind(UInt32(header.type)), stream, id: header.stream_id, ends: ends) }
      return 0
    }
    nghttp2_session_callbacks_set_send_data_callback(callbacks) { _, _, header, count, source, owner in
      guard let stream = source?.pointee.ptr else { return 0 }
      withFrames(owner) { $0.send(count, of: stream, after: UnsafeRawBufferPointer(start: header, count: 9)) }
      return 0
    }
  }

  /// nghttp2_data_source_read_callback: asks the stream what it has, and has `send_data_callback` write it.
  static let read:
    @convention(c) (
      OpaquePointer?, Int32, UnsafeMutablePointer<UInt8>?, Int, UnsafeMutablePointer<UInt32>?,
      UnsafeMutablePointer<nghttp2_data_source>?, UnsafeMutableRawPointer?
    ) -> Int = { session, id, _, room, flags, source, owner in
      guard let stream = source?.pointee.ptr else { return Int(NGHTTP2_ERR_CALLBACK_FAILURE.rawValue) }
      return withFrames(owner) { frames in
        switch frames.output(of: stream, room: room) {
        case .none: return Int(NGHTTP2_ERR_DEFERRED.rawValue)
        case .bytes(let count):
          flags?.pointee = NGHTTP2_DATA_FLAG_NO_COPY.rawValue
          return count
        case .last(let count, let hasTrailers):
          var marks = NGHTTP2_DATA_FLAG_NO_COPY.rawValue | NGHTTP2_DATA_FLAG_EOF.rawValue
          if hasTrailers, let trailers = frames.trailers(of: stream), HTTP2Encoder.submit(trailers, session, id) {
            marks |= NGHTTP2_DATA_FLAG_NO_END_STREAM.rawValue
          }
          flags?.pointee = marks
          return count
        }
      }
    }
}

// At file level, since a C function can't capture a type.

@inline(__always)
private func withFrames<Value>(_ owner: UnsafeMutableRawPointer?, _ body: (HTTP2Frames) -> Value) -> Value {
  // libnghttp2 passes back the pointer with which the session was made.
  guard let owner else { abort() }
  return Unmanaged<HTTP2Frames>.fromOpaque(owner)._withUnsafeGuaranteedRef { body($0) }
}

@inline(__always)
private func streamPointer(_ session: OpaquePointer?, _ id: Int32) -> UnsafeMutableRawPointer? {
  nghttp2_session_get_stream_user_data(session, id)
}

private func received(_ frame: UnsafePointer<nghttp2_frame>, _ session: OpaquePointer?, _ frames: HTTP2Frames) {
  let header = frame.pointee.hd
  let ends = UInt32(header.flags) & NGHTTP2_FLAG_END_STREAM.rawValue != 0
  switch HTTP2FrameKind(UInt32(header.type)) {
  case .headers:
    if let stream = streamPointer(session, header.stream_id) { frames.headersDidEnd(stream, endsStream: ends) }
  case .data: if ends, let stream = streamPointer(session, header.stream_id) { frames.inputDidEnd(stream) }
  case .ping: if UInt32(header.flags) & NGHTTP2_FLAG_ACK.rawValue != 0 { frames.pingWasAnswered() }
  case .goAway:
    frames.peerDidGoAway(lastStream: frame.pointee.goaway.last_stream_id, code: frame.pointee.goaway.error_code)
  default: break
  }
}

/// How a receiver finds the end of a message's body (RFC 9112 §6). Only this file decides that.
public enum BodyFraming: Sendable, Equatable {
  /// No body.
  case none
  /// So many bytes.
  case length(UInt64)
  /// Chunks and trailers (RFC 9112 §7.1).
  case chunked
  /// Everything until the upstream closes: responses only.
  case untilClose
}

/// The values of the two framing fields. A malformed value was refused before.
struct AnnouncedFraming {
  /// Content-Length, when there was one.
  var length: UInt64?
  /// Transfer-Encoding was there, and was `chunked`.
  var isChunked = false

  /// The rules for both requests and responses.
  private func decide(_ version: HTTPVersion) throws(HeadError) -> BodyFraming? {
    if isChunked {
      if length != nil { throw .lengthAndTransferEncoding }
      if version == .http10 { throw .transferEncodingInOldVersion }
      return .chunked
    }
    if let length { return .length(length) }
    return nil
  }

  /// RFC 9112 §6.3 for a request: no announcement, no body.
  func request(_ version: HTTPVersion) throws(HeadError) -> BodyFraming {
    try decide(version) ?? .none
  }

  /// RFC 9112 §6.3 for a response to `method`.
  ///
  /// `isTrusted` is false when the status forbids a body that the fields announce: what follows on that connection
  /// may be body or message, so that nothing more is read from it.
  func response(
    _ version: HTTPVersion, status: UInt16, to method: Method
  ) throws(HeadError) -> (framing: BodyFraming, isTrusted: Bool) {
    let announced = try decide(version)
    let announcesBody = announced != nil && announced != .length(0)
    if status < 200 {
      if announcesBody { throw .bodyInInterimResponse }
      return (.none, true)
    }
    if status == 204 { return (.none, !announcesBody) }
    if status == 304 || method == .head { return (.none, true) }
    return (announced ?? .untilClose, true)
  }
}

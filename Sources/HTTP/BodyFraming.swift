internal import Bytes

/// How a receiver finds the end of a message's body (RFC 9112 §6). Only this file decides that.
public enum BodyFraming: Sendable, Equatable {
  /// No body.
  case none
  /// The body has this many bytes.
  case length(UInt64)
  /// The body is a sequence of chunks, with trailers after the last chunk (RFC 9112 §7.1).
  case chunked
  /// The body lasts until the upstream closes the connection; only a response may use this framing.
  case untilClose
}

/// The values of the two framing fields. The parser has already refused malformed values.
struct AnnouncedFraming {
  /// The value of Content-Length, if the message has one.
  var length: UInt64?
  /// The value of the field that says so; of two fields, which a request may not have, the last.
  var value = ByteRange.absent
  enum Coding { case none, chunked, unknown }
  /// What the Transfer-Encoding field announces, if there is one.
  var coding = Coding.none

  /// Applies the rules that hold for both requests and responses.
  private func decide(_ version: HTTPVersion) throws(HeadError) -> BodyFraming? {
    if coding != .none {
      // Last, so that a malformed head gets 400 and not 501.
      if coding == .unknown { throw .unknownTransferCoding }
      if length != nil { throw .lengthAndTransferEncoding }
      if version == .http10 { throw .transferEncodingInOldVersion }
      return .chunked
    }
    if let length { return .length(length) }
    return nil
  }

  /// Applies RFC 9112 §6.3 to a request: without a framing field, the request has no body. The method doesn't matter.
  func request(_ version: HTTPVersion) throws(HeadError) -> BodyFraming {
    try decide(version) ?? .none
  }

  /// Applies RFC 9112 §6.3 to a response to `method`.
  ///
  /// `isTrusted` is false when the status forbids a body that the fields announce. The bytes that follow may then be
  /// body or another message, so the caller must read nothing more from that connection.
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

public import Bytes

/// Encodes heads for HTTP/1 (RFC 9112 §2.1). The output depends only on the arguments.
public enum HTTP1Encoder {
  /// Writes the request line, the fields, the framing and the empty line.
  public static func request(_ head: OutgoingRequestHead, _ version: HTTP1Version, to output: inout ByteBuffer) {
    output.append(head.method)
    output.append(0x20)
    output.append(head.target)
    switch version {
    case .http10: output.append(" HTTP/1.0\r\n")
    case .http11: output.append(" HTTP/1.1\r\n")
    }
    head.fields.encode(over: head.incomingBytes, to: &output)
    HeadWriter.framing(head.framing, to: &output)
    output.append("\r\n")
  }

  /// Writes the status line, the fields, the framing, the connection fields and the empty line.
  public static func response(_ head: OutgoingResponseHead, to output: inout ByteBuffer) {
    statusLine(head, to: &output)
    head.fields.encode(over: head.incomingBytes, to: &output)
    switch (head.framing, head.body) {
    case (.none, .none(announced: .some(let length))): HeadWriter.framing(.length(length), to: &output)
    case (let framing, _): HeadWriter.framing(framing, to: &output)
    }
    switch head.persistence {
    case .close: output.append("Connection: close\r\n")
    case .upgrade: output.append("Connection: upgrade\r\n")
    case .keepAlive(let announced):
      output.append("Connection: keep-alive\r\n")
      guard let announced else { break }
      output.append("Keep-Alive: timeout=")
      output.append(decimal: UInt64(max(0, announced)))
      output.append("\r\n")
    }
    output.append("\r\n")
  }

  /// Writes an interim response: the status line, the fields and the empty line.
  public static func interim(_ head: OutgoingResponseHead, to output: inout ByteBuffer) {
    statusLine(head, to: &output)
    head.fields.encode(over: head.incomingBytes, to: &output)
    output.append("\r\n")
  }

  private static func statusLine(_ head: OutgoingResponseHead, to output: inout ByteBuffer) {
    guard let reason = head.reason else { return HeadWriter.statusLine(head.status, to: &output) }
    if head.status == 200, reason.equals("OK") { return output.append("HTTP/1.1 200 OK\r\n") }
    output.append("HTTP/1.1 ")
    output.append(decimal: UInt64(head.status))
    output.append(0x20)
    output.append(reason)
    output.append("\r\n")
  }
}

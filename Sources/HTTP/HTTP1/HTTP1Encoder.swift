public import Bytes

/// Heads as HTTP/1 writes them (RFC 9112 §2.1). Pure: what is written depends on the values alone.
public enum HTTP1Encoder {
  /// The request line, the fields, the framing and the empty line.
  public static func request(_ head: OutgoingRequestHead, _ version: HTTPVersion, to output: inout ByteBuffer) {
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
}

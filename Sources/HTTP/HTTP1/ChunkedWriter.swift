public import Bytes

/// Writes a body in chunks (RFC 9112 §7.1).
public enum ChunkedWriter {
  /// The line before a chunk's data. `size` is above zero: a chunk of none would end the body.
  public static func append(size: Int, to output: inout ByteBuffer) {
    precondition(size > 0)
    output.append(hexadecimal: UInt64(size))
    output.append("\r\n")
  }

  /// The line end after a chunk's data.
  public static func endChunk(to output: inout ByteBuffer) {
    output.append("\r\n")
  }

  /// A whole chunk; nothing for no data.
  public static func append(chunk data: UnsafeRawBufferPointer, to output: inout ByteBuffer) {
    guard data.count > 0 else { return }
    output.reserve(data.count + 20)
    append(size: data.count, to: &output)
    output.append(data)
    output.append("\r\n")
  }

  /// The last chunk, and the trailers when there are some.
  public static func lastChunk(_ trailers: Trailers? = nil, to output: inout ByteBuffer) {
    output.append("0\r\n")
    if let trailers {
      trailers.bytes.withUnsafeBytes { bytes in
        for field in trailers.fields { HeadWriter.forward(field, of: bytes, to: &output) }
      }
    }
    output.append("\r\n")
  }
}

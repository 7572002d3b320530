public import Bytes

/// Writes a body in chunks (RFC 9112 §7.1).
public enum ChunkedWriter {
  /// Writes the line before a chunk's data. `size` must be above zero, because a chunk of size zero ends the body.
  public static func append(size: Int, to output: inout ByteBuffer) {
    precondition(size > 0)
    output.append(hexadecimal: UInt64(size))
    output.append("\r\n")
  }

  /// Writes the line end after a chunk's data.
  public static func endChunk(to output: inout ByteBuffer) {
    output.append("\r\n")
  }

  /// Writes a whole chunk; writes nothing for empty data.
  public static func append(chunk data: UnsafeRawBufferPointer, to output: inout ByteBuffer) {
    guard data.count > 0 else { return }
    output.reserve(data.count + 20)
    append(size: data.count, to: &output)
    output.append(data)
    output.append("\r\n")
  }

  /// Writes the last chunk, and the trailers if there are any.
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

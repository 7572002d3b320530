import Bytes
import Compression
import Observability

/// The compression of `access_log … gzip`.
enum LogCompression {
  /// As in nginx, each buffer of lines is a gzip member, and the file a series of them.
  static let gzip: LogCompressor = { lines, level in
    guard let stream = GzipStream(level: level, length: UInt64(lines.count)) else { return nil }
    var output = ByteBuffer()
    return stream.compress(lines, .finish, to: &output) ? Array(output.readable) : nil
  }
}

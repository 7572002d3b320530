import COpenSSL
import Transport

/// The BIO between an SSL and its stream's socket: reads call recv directly, writes collect in the worker's output
/// cork.
///
/// OpenSSL's socket BIO lacks three properties of this one. A read shorter than asked for means that the socket is
/// drained. All records of a pump leave in one send. What a peer sends at once in a handshake is read at once.
enum SessionBIO {
  nonisolated(unsafe) private static let method: OpaquePointer? = {
    guard let method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "sallyport stream") else { return nil }
    BIO_meth_set_create(method) { bio in
      BIO_set_init(bio, 1)
      return 1
    }
    BIO_meth_set_read(method) { bio, bytes, count in
      guard let bio, let bytes, count > 0 else { return 0 }
      copenssl_bio_clear_retry(bio)
      guard let stream = SessionBIO.stream(bio) else { return -1 }
      // OpenSSL would read on as long as such messages come.
      if stream._withUnsafeGuaranteedRef({ $0.isFlooding }) { return -1 }
      let outcome = stream._withUnsafeGuaranteedRef { $0.receiveRecords(into: .init(start: bytes, count: Int(count))) }
      switch outcome {
      case .bytes(let count): return Int32(truncatingIfNeeded: count)
      case .wouldBlock:
        copenssl_bio_set_retry_read(bio)
        return -1
      case .end: return 0
      case .failed: return -1
      }
    }
    BIO_meth_set_write(method) { bio, bytes, count in
      guard let bio, let bytes, count > 0, let stream = SessionBIO.stream(bio) else { return 0 }
      copenssl_bio_clear_retry(bio)
      stream._withUnsafeGuaranteedRef {
        $0.transmitLater(UnsafeRawBufferPointer(start: bytes, count: Int(count)))
      }
      return count
    }
    BIO_meth_set_ctrl(method) { _, command, _, _ in command == copenssl_bio_ctrl_flush() ? 1 : 0 }
    return method
  }()

  /// Returns the stream without retaining it. OpenSSL calls the BIO only during a call of the stream, so the stream is
  /// alive.
  private static func stream(_ bio: OpaquePointer) -> Unmanaged<TLSStream>? {
    BIO_get_data(bio).map { Unmanaged.fromOpaque($0) }
  }

  /// Makes a BIO that the SSL will own. The stream outlives its SSL, so the back pointer is not retained.
  static func make(for stream: TLSStream) -> OpaquePointer? {
    guard let method, let bio = BIO_new(method) else { return nil }
    BIO_set_data(bio, Unmanaged.passUnretained(stream).toOpaque())
    return bio
  }
}

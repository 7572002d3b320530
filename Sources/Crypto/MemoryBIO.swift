import COpenSSL

/// Owns an OpenSSL memory BIO, into which OpenSSL's writers write.
struct MemoryBIO: ~Copyable {
  let handle: OpaquePointer

  init() throws(OpenSSLError) {
    guard let bio = BIO_new(BIO_s_mem()) else { throw OpenSSLError.drain() }
    handle = bio
  }

  deinit { BIO_free(handle) }

  /// The bytes written so far.
  var bytes: [UInt8] {
    var data: UnsafeMutablePointer<CChar>?
    let count = copenssl_bio_get_mem_data(handle, &data)
    guard count > 0, let data else { return [] }
    return Array(UnsafeRawBufferPointer(start: data, count: count))
  }

  /// Returns what `write` wrote, as text; empty when it failed.
  static func text(_ write: (OpaquePointer) -> CInt) -> String {
    guard let bio = try? MemoryBIO() else { return "" }
    guard write(bio.handle) >= 0 else {
      OpenSSLError.discard()
      return ""
    }
    return String(decoding: bio.bytes, as: UTF8.self)
  }
}

/// Returns the bytes that an OpenSSL `i2d_` function writes; nil when the object can't be encoded.
func encoded(_ encode: (UnsafeMutablePointer<UnsafeMutablePointer<UInt8>?>?) -> CInt) -> [UInt8]? {
  var output: UnsafeMutablePointer<UInt8>?
  let count = encode(&output)
  defer { copenssl_free(output) }
  guard count > 0, let output else {
    OpenSSLError.discard()
    return nil
  }
  return Array(UnsafeBufferPointer(start: output, count: Int(count)))
}

/// Returns the object that an OpenSSL `d2i_` function reads; nil unless the object takes every byte.
func decoded<Object>(
  _ bytes: UnsafeRawBufferPointer, free: (Object) -> Void,
  _ decode: (UnsafeMutablePointer<UnsafePointer<UInt8>?>, Int) -> Object?
) -> Object? {
  let start = bytes.baseAddress?.assumingMemoryBound(to: UInt8.self)
  var cursor = start
  guard let object = decode(&cursor, bytes.count) else { return nil }
  guard let start, let cursor, cursor - start == bytes.count else {
    free(object)
    return nil
  }
  return object
}

extension Array where Element == UInt8 {
  /// Calls withUnsafeBytes and keeps the type of what `body` throws.
  func withBytes<R, E: Error>(_ body: (UnsafeRawBufferPointer) throws(E) -> R) throws(E) -> R {
    try withUnsafeBytes { bytes in Result { () throws(E) in try body(bytes) } }.get()
  }
}

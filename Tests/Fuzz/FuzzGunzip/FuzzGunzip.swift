import Bytes
import Compression
import FuzzSupport

/// A compressed body: the first byte says in what pieces it comes, and how much may come out of one call.
///
/// Holds: a call takes no more bytes than it gets, and gives out no more than it may; the stream comes to an end; what comes
/// out, and whether the body is whole, doesn't depend on the pieces.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
  let bytes = UnsafeRawBufferPointer(start: start, count: count)
  guard let kind = bytes.first else { return 0 }
  let rest = UnsafeRawBufferPointer(rebasing: bytes.dropFirst())
  let whole = decompressed(rest, pieces: max(1, rest.count), limit: 1 << 16)
  let parts = decompressed(rest, pieces: Int(kind & 15) + 1, limit: Int(kind >> 4) * 100 + 1)
  require(whole.isComplete == parts.isComplete && whole.isDamaged == parts.isDamaged)
  require(whole.output == parts.output)
  // RFC 1951 has codes that stand for 1032 times as many bytes.
  require(whole.output.count <= rest.count * 1032 + 1032)
  return 0
}

private func decompressed(
  _ bytes: UnsafeRawBufferPointer, pieces: Int, limit: Int
) -> (output: [UInt8], isComplete: Bool, isDamaged: Bool) {
  guard let stream = GunzipStream() else { return ([], false, false) }
  var output: [UInt8] = [], at = 0
  while at < bytes.count || stream.hasOutput {
    var made = ByteBuffer()
    let piece = UnsafeRawBufferPointer(rebasing: bytes[at...].prefix(pieces))
    let had = stream.hasOutput
    do throws(GunzipStream.Fault) {
      let used = try stream.decompress(piece, upTo: limit, to: &made)
      require(used <= piece.count && made.count <= limit)
      require(used > 0 || !made.isEmpty || had)
      at += used
      output += made.readable
    } catch {
      require(made.count <= limit && !stream.isComplete)
      return (output + made.readable, false, true)
    }
  }
  return (output, stream.isComplete, false)
}

import Bytes
import FuzzSupport
import HTTP

/// The first byte says where the rest is cut; the rest is a chunked body and what follows it.
///
/// Holds: bytes in pieces read as bytes at once; no more is consumed than was given; a body that is written again, in
/// chunks of our own, reads as the same body.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
  guard count > 1 else { return 0 }
  let bytes = [UInt8](UnsafeBufferPointer(start: start + 1, count: count - 1))
  let whole = read(bytes, [bytes.count])
  var cuts = stride(from: 0, to: bytes.count, by: 1 + Int(start[0] >> 4)).map { $0 }
  cuts.append(bytes.count)
  let pieces = read(bytes, cuts)
  require(whole.data == pieces.data && whole.fault == pieces.fault && whole.isEnded == pieces.isEnded)
  if whole.isEnded { require(whole.consumed == pieces.consumed && fields(whole.trailers) == fields(pieces.trailers)) }
  require(whole.consumed <= bytes.count && pieces.consumed <= bytes.count)
  guard whole.isEnded else { return 0 }

  var written = ByteBuffer()
  whole.data.withUnsafeBytes { data in
    let half = data.count / 2
    ChunkedWriter.append(chunk: UnsafeRawBufferPointer(rebasing: data[..<half]), to: &written)
    ChunkedWriter.append(chunk: UnsafeRawBufferPointer(rebasing: data[half...]), to: &written)
  }
  ChunkedWriter.lastChunk(whole.trailers, to: &written)
  let again = read(Array(written.readable), [written.count])
  require(again.isEnded && again.data == whole.data && again.consumed == written.count)
  require(fields(again.trailers) == fields(whole.trailers))
  return 0
}

struct Read {
  var data: [UInt8] = []
  var consumed = 0
  var isEnded = false
  var fault: BodyError?
  var trailers: Trailers?
}

func read(_ bytes: [UInt8], _ cuts: [Int]) -> Read {
  var decoder = BodyDecoder(.chunked)
  var read = Read()
  for end in cuts {
    piece: while true {
      let window = Array(bytes[read.consumed..<end])
      switch window.withUnsafeBytes({ decoder.next($0) }) {
      case .needsMore(let consumed):
        read.consumed += consumed
        require(read.consumed == end)
        break piece
      case .data(let start, let count, let consumed):
        require(count > 0 && start + count == consumed)
        read.data += window[start..<start + count]
        read.consumed += consumed
      case .end(let consumed):
        read.consumed += consumed
        read.isEnded = true
        read.trailers = decoder.trailers
        require(decoder.atEndOfStream() == .complete)
        return read
      case .failed(let error):
        read.fault = error
        return read
      }
    }
    require(decoder.atEndOfStream() == .truncated)
  }
  return read
}

func fields(_ trailers: Trailers?) -> [String] {
  guard let trailers else { return [] }
  return trailers.bytes.withUnsafeBytes { bytes in
    trailers.fields.map { "\(Array(bytes[$0.name])) \(Array(bytes[$0.value])) \($0.id)" }
  }
}

import FuzzSupport
import TLS

/// The bytes are what a server of HTTP/2 sends to `sallyport probe`.
///
/// Holds: a status has three digits, only an answer has a status, and what more bytes say never
/// takes an answer back.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
  let bytes = Array(UnsafeBufferPointer(start: start, count: count))
  let whole = ProbeHTTP2.Answer(bytes)
  require(whole.status.map { (100...999).contains($0) } ?? true)
  require(whole.isAnswered || whole.status == nil)
  let half = ProbeHTTP2.Answer(Array(bytes.prefix(count / 2)))
  require(whole.isAnswered || !half.isAnswered)
  require(!half.isComplete || half == whole)
  return 0
}

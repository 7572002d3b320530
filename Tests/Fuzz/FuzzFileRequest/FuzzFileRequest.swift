import Files
import FuzzSupport
import HTTP

/// What a client says about a file: the first byte chooses what the rest is.
///
/// Holds: ranges lie within the length, are not empty and together not longer than it; a date is one of a year with four
/// digits; a path below a folder has neither a segment of two dots nor a NUL byte.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
  let bytes = UnsafeRawBufferPointer(start: start, count: count)
  guard let kind = bytes.first else { return 0 }
  let rest = UnsafeRawBufferPointer(rebasing: bytes.dropFirst())
  switch kind & 3 {
  case 0:
    for length in [0, 1, 36, UInt64(kind) << 12, .max >> 1] {
      guard case .parts(let parts) = RangeRequest(rest, length: length, limit: Int(kind)) else { continue }
      require(!parts.isEmpty && parts.count <= Int(kind))
      require(parts.allSatisfy { !$0.isEmpty && $0.upperBound <= length })
      require(parts.reduce(0) { $0 &+ ($1.upperBound - $1.lowerBound) } <= length)
    }
  case 1:
    if let time = HTTPDate.parse(rest) { require(time > -62_200_000_000 && time < 253_402_300_800) }
  case 2: _ = GzipAcceptance.accepts(rest)
  default:
    guard let path = ServedPath(folder: Array("/srv".utf8), below: Array(rest)) else { return 0 }
    require(path.below.first != 0x2F && !path.below.contains(0))
    require(!path.below.split(separator: 0x2F).contains { Array($0) == [0x2E, 0x2E] })
    require(path.text.starts(with: Array("/srv".utf8)))
  }
  return 0
}

import FuzzSupport
import TLS

/// The first byte is left out, as in the other targets; the rest is the server_name extension of a ClientHello.
///
/// Holds: a name that is taken could be a host's, is in lower case, and names the same host when it is read again.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
  guard count > 1 else { return 0 }
  guard let name = ServerNameExtension.parse(UnsafeBufferPointer(start: start + 1, count: count - 1)) else { return 0 }
  require(name.count <= 255)
  require(name.allSatisfy { $0 > 0x20 && $0 < 0x7F && $0 != 0x2F && !(0x41...0x5A).contains($0) })
  let length = name.count
  let again = [UInt8((length + 3) >> 8), UInt8((length + 3) & 255), 0, 0, UInt8(length)] + name
  guard length > 0, name.last != 0x2E else { return 0 }
  require(again.withUnsafeBufferPointer { ServerNameExtension.parse($0) } == name)
  return 0
}

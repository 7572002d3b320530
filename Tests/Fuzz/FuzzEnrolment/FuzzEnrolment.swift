import Bytes
import Enrolment
import FuzzSupport

/// The first byte says which reader has the rest: of a request (J), of one of EST (E), an index (I), a file of users (U),
/// credentials (A).
///
/// Holds: a request that is taken has a device's name and a pass phrase within their bounds; an index that is read is
/// written as one that reads the same.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
  guard count > 1 else { return 0 }
  let bytes = UnsafeRawBufferPointer(start: start + 1, count: count - 1)
  switch start[0] {
  case UInt8(ascii: "J"):
    guard let request = try? EnrolmentRequest(parsing: bytes) else { return 0 }
    require((1...EnrolmentRequest.deviceLimit).contains(request.device.utf8.count))
    require(request.device.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && $0 != 0x2F })
    require(
      (EnrolmentRequest.shortestPassphrase...EnrolmentRequest.longestPassphrase).contains(request.passphrase.count))
  case UInt8(ascii: "I"):
    guard let index = try? AuthorityIndex(parsing: bytes) else { return 0 }
    let again = try? Array(index.text.utf8).withUnsafeBytes { try AuthorityIndex(parsing: $0) }
    require(again == index)
    require(index.revoked.count <= index.entries.count)
  case UInt8(ascii: "E"):
    guard let asked = try? ESTRequest(parsing: bytes).request else { return 0 }
    _ = try? RequestedCertificate(asked, .client)
  case UInt8(ascii: "U"): _ = AccountFile(bytes)
  default: _ = ShownCredentials(bytes)
  }
  return 0
}

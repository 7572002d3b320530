import Bytes
import Crypto
import Enrolment
import FuzzSupport

/// A file that somebody hands to `ca inspect` or `ca sign`.
///
/// Holds: whatever is told of it has no control character, and whatever the authority would certify is signed by its own
/// key and has names that it can write.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
  let bytes = SecretBytes(copying: UnsafeRawBufferPointer(start: start, count: count))
  if let objects = try? InspectedObject.all(in: bytes, passwords: []) {
    let inspection = Inspection(objects, at: 1_800_000_000)
    require(!inspection.text.utf8.contains { $0 < 0x20 && $0 != 0x0A || $0 == 0x7F })
    require(!inspection.json.isEmpty)
  }
  if let request = try? SigningRequest.parse(bytes),
    let wanted = try? RequestedCertificate(request, .client)
  {
    require(request.isSigned && wanted.key.kind.isIssuable)
    require(wanted.profile.names.count <= RequestedCertificate.nameLimit)
    require(wanted.profile.names.allSatisfy { $0.spelling.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F } })
  }
  return 0
}

import CertificateFacts

/// A certificate that anybody may show, its fields broken one by one: Tests/CertificateFacts says what holds of it.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
  let input = Array(UnsafeBufferPointer(start: start, count: count))
  do throws(CertificateFacts.Violation) {
    try CertificateFacts(input)?.check()
  } catch {
    fatalError(error.description)
  }
  return 0
}

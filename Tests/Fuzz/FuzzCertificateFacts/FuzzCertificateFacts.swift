import CertificateFacts

@_silgen_name("__lsan_disable") private func ignoreAllocations()
@_silgen_name("__lsan_enable") private func watchAllocations()

/// What the checks share lasts as long as the process. Swift keeps tags in the pointers to it, so the leak sanitizer would
/// take it for lost.
private let isPrepared: Bool = {
  ignoreAllocations()
  defer { watchAllocations() }
  CertificateFacts.prepare()
  return true
}()

/// A certificate that anybody may show, its fields broken one by one: Tests/CertificateFacts says what holds of it.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
  guard isPrepared else { return 0 }
  let input = Array(UnsafeBufferPointer(start: start, count: count))
  do throws(CertificateFacts.Violation) {
    try CertificateFacts(input)?.check()
  } catch {
    fatalError(error.description)
  }
  return 0
}

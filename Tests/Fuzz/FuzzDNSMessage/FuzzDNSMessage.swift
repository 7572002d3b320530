import DNS
import FuzzSupport
import Transport

/// A message of a DNS server about www.example.com, read as an answer for each type of record.
///
/// Holds: at most so many records, each without a port of its own; every shorter beginning gives no records that the
/// whole doesn't give; the same bytes read the same.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
  let bytes = Array(UnsafeBufferPointer(start: start, count: count))
  guard let name = DNSName("www.example.com") else { fatalError("no name") }
  for type in [DNSMessage.RecordType.ipv4, .ipv6, .service] {
    let answer = DNSMessage.answer(in: bytes, about: name, type)
    require(answer == DNSMessage.answer(in: bytes, about: name, type))
    switch answer {
    case .records(let records):
      require(records.addresses.count + records.services.count <= DNSMessage.recordLimit)
      require(!records.addresses.isEmpty || !records.services.isEmpty)
      require(records.addresses.allSatisfy { $0.port == 0 })
      require(records.services.allSatisfy { $0.port != 0 && DNSName($0.target.text) == $0.target })
    case .alias(let other, _): require(DNSName(other.text) == other)
    case .failure(let reason): require(!reason.description.utf8.contains { $0 < 0x20 || $0 > 0x7E })
    }
  }
  return 0
}

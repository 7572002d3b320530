import Features
import FuzzSupport

/// A record of clients, as a file of another machine might have it.
///
/// Holds: what is read can be written, and is then read as the same; a record joined with itself has the same clients; a
/// bounded record stays within its bounds. A record that is cut anywhere is one, too, or refused.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
  let bytes = Array(UnsafeBufferPointer(start: start, count: count))
  guard let record = try? RecordedClients(reading: bytes) else { return 0 }
  require((try? RecordedClients(reading: record.text)) == record)
  if let part = try? RecordedClients(reading: Array(bytes.prefix(count / 2))) {
    require(part.chains <= record.chains)
  }
  var double = record
  double.add(record)
  require(double.chains == record.chains && double.visits.count == record.visits.count)
  double.prune(before: 1000, limit: 2)
  require(double.chains <= 2 && double.visits.values.allSatisfy { $0.last >= 1000 })
  for key in double.visits.keys { require(double.chain(key).count == key.chain.count) }
  return 0
}

import FuzzSupport
import SPIFFE

/// Messages of the Workload API, as frames of gRPC in pieces: the first byte is the size of a piece.
///
/// Holds: frames give the same messages in any pieces, or fail in any; a message is read within its bounds; an ID that is
/// read is written the same.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
  let bytes = Array(UnsafeBufferPointer(start: start, count: count))
  _ = try? WorkloadMaterial(bytes)
  if let response = try? X509SVIDResponse(bytes) {
    require(response.svids.count <= X509SVIDResponse.Limits.svids)
    require(response.federated.count <= X509SVIDResponse.Limits.federated)
    require(response.revocationLists.count <= X509SVIDResponse.Limits.revocationLists)
    for svid in response.svids {
      require(svid.id.count <= SPIFFEID.longest)
      let parts = (try? ConcatenatedDER.split(svid.chain, limit: 16, of: "it")) ?? []
      require(parts.isEmpty || parts.reduce(0) { $0 + $1.count } == svid.chain.count)
    }
  }
  if let id = try? SPIFFEID(bytes) {
    require(Array(id.description.utf8) == bytes)
    require((try? SPIFFEIDPattern(parsing: id.description))?.matches(id) ?? id.path.isEmpty)
  }
  guard let size = bytes.first, size > 0 else { return 0 }
  let body = Array(bytes.dropFirst())
  require(cut(body, size: Int(size)) == cut(body, size: max(1, body.count)))
  return 0
}

/// nil: refused.
private func cut(_ bytes: [UInt8], size: Int) -> [[UInt8]]? {
  var frames = GRPCFrames()
  var messages: [[UInt8]] = []
  var rest = bytes[...]
  while !rest.isEmpty {
    let part = Array(rest.prefix(size))
    guard let more = part.withUnsafeBytes({ try? frames.take($0) }) else { return nil }
    messages += more
    rest = rest.dropFirst(size)
    require(frames.count <= GRPCFrames.longest + 5)
  }
  return messages
}

import Features
import Forward
import FuzzSupport
import Traffic

/// The body of an upstream's answer to a health check of gRPC.
///
/// Holds: any bytes give a status or a fault; what our own request says is a message of the same form.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
  let bytes = [UInt8](UnsafeBufferPointer(start: start, count: count))
  do throws(GRPCHealthMessage.Fault) {
    let status = try GRPCHealthMessage.status(of: bytes)
    // Whatever else stands in it, the last status counts.
    if bytes.count < 1 << 16 {
      let longer = bytes.dropFirst(5) + [0x08, 0x01]
      let length = [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: longer.count >> $0) }
      require(try GRPCHealthMessage.status(of: [0] + length + longer) == .serving)
    }
    require(!status.name.isEmpty)
  } catch {
    require(!error.reason.isEmpty)
  }
  let name = String(decoding: bytes, as: UTF8.self)
  // A name is a field of bytes, which a reader of the answer skips but for its number.
  let request = GRPCHealthMessage.request(service: name)
  require(request.count >= 5 && (name.isEmpty || request.count > name.utf8.count))
  return 0
}

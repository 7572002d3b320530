import FuzzSupport
import Transport

/// The first bytes of a connection of `listen … proxy_protocol`; with a first byte of 0xFF, text of X-Forwarded-For.
///
/// Holds: a header lies within the bytes and the bound; its own bytes alone read the same; every shorter beginning is
/// incomplete; TLVs lie within the header; an address reads as itself again.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
  let bytes = UnsafeRawBufferPointer(start: start, count: count)
  if bytes.first == 0xFF {
    let text = UnsafeRawBufferPointer(rebasing: bytes.dropFirst())
    if let address = SocketAddress(forwarded: text) {
      let again = Array(address.host.utf8).withUnsafeBytes { SocketAddress(forwarded: $0) }
      require(again == address.withPort(0))
    }
    return 0
  }
  switch ProxyHeaderParser.parse(bytes) {
  case .incomplete: require(count < ProxyHeaderParser.most)
  case .broken(let fault): require(!fault.description.utf8.contains { $0 < 0x20 || $0 > 0x7E })
  case .header(let header, let length):
    require(length > 0 && length <= min(count, ProxyHeaderParser.most))
    for cut in stride(from: 0, to: length, by: max(1, length / 16)) {
      guard case .incomplete = ProxyHeaderParser.parse(UnsafeRawBufferPointer(rebasing: bytes[..<cut])) else {
        fatalError("a beginning is not incomplete")
      }
    }
    guard case .header(let same, length) = ProxyHeaderParser.parse(UnsafeRawBufferPointer(rebasing: bytes[..<length]))
    else { fatalError("the header alone reads otherwise") }
    require((same == nil) == (header == nil) && same?.source == header?.source)
    guard let header else { return 0 }
    for type in UInt8.min...UInt8.max {
      require((header.value(of: .outer(type))?.count ?? 0) < length)
      require((header.value(of: .inner(type))?.count ?? 0) < length)
    }
    _ = header.value(of: .verification)
    for written in [
      ProxyHeaderWriter.version1(source: header.source, destination: header.destination),
      ProxyHeaderWriter.version2(source: header.source, destination: header.destination, tls: nil),
    ] {
      guard case .header(let again?, written.count) = written.withUnsafeBytes({ ProxyHeaderParser.parse($0) }) else {
        fatalError("sallyport's own header reads otherwise")
      }
      require(again.source == header.source && again.destination == header.destination)
    }
  }
  return 0
}

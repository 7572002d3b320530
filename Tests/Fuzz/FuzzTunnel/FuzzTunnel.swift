import FuzzSupport
import Negotiation

/// The first byte is the size of pieces, and whether credentials were sent; the rest is what a proxy sends.
///
/// Holds: no more is consumed than there is, and nothing once it has ended; what waits is within the bound; reasons are
/// printable; a tunnel opens only behind a response of 2xx; bytes that come at once and in pieces lead to the same end,
/// and the tunnel begins with the same byte.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
  guard count > 0 else { return 0 }
  let bytes = UnsafeRawBufferPointer(start: start, count: count)
  let rest = Array(bytes.dropFirst())
  let authorization: [UInt8] = bytes[0] & 1 == 1 ? Array("Basic YTpi".utf8) : []
  let whole = run(rest, .max, authorization)
  for size in [1, Int(bytes[0] >> 1) + 1] {
    let pieces = run(rest, size, authorization)
    require(pieces.next == whole.next)
    if whole.next == .done { require(pieces.consumed == whole.consumed) }
  }
  return 0
}

private func run(
  _ bytes: [UInt8], _ size: Int, _ authorization: [UInt8]
) -> (next: UpstreamNegotiation.Next, consumed: Int) {
  var machine = TunnelNegotiation(authority: "a.example:443", authorization: authorization)
  var next = UpstreamNegotiation.Next.more
  var socket: [UInt8] = []
  var rest = bytes[...]
  var consumed = 0
  while !rest.isEmpty {
    socket += rest.prefix(size)
    rest = rest.dropFirst(min(size, rest.count))
    let step = socket.withUnsafeBytes { machine.take($0) }
    require(step.consumed >= 0 && step.consumed <= socket.count && step.reply.isEmpty)
    if next != .more {
      require(step.consumed == 0 && step.next == next)
      continue
    }
    next = step.next
    consumed += step.consumed
    socket.removeFirst(step.consumed)
    require(next != .more || socket.count < TunnelNegotiation.most)
  }
  switch next {
  case .more: break
  case .beginTLS: require(false)
  case .done:
    let head = bytes.prefix(consumed)
    require(head.suffix(4).elementsEqual("\r\n\r\n".utf8) && head.count <= TunnelNegotiation.most)
    require(head.starts(with: "HTTP/1.".utf8))
  case .end(let reason):
    require(!reason.isEmpty && reason.utf8.count < 1100 && reason.utf8.allSatisfy { $0 >= 0x20 && $0 < 0x7F })
  }
  return (next, consumed)
}

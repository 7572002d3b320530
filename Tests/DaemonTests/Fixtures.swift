import Testing
import Transport

/// A listener that others hold, on a port of the system's choice.
func occupied() throws -> (descriptor: Int32, port: UInt16) {
  let descriptor = try Sockets.listen(
    on: .ipv4(address: 0x7F00_0001, port: 0), backlog: 8, reuseport: false, ipv6only: true)
  return (descriptor, try #require(Sockets.localAddress(of: descriptor)?.port))
}

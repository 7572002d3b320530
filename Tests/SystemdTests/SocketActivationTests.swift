import Glibc
import Testing

@testable import Systemd

@Suite struct `An inherited socket` {
  @Test func `is taken when it listens, and becomes non-blocking and closed on exec`() throws {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    defer { close(descriptor) }
    try #require(listen(descriptor, 1) == 0)
    #expect(fcntl(descriptor, F_GETFL) & O_NONBLOCK == 0)
    let adopted = try SocketActivation.adopt(name: "https", descriptor: descriptor)
    #expect(adopted == InheritedSocket(name: "https", descriptor: descriptor))
    #expect(fcntl(descriptor, F_GETFL) & O_NONBLOCK != 0)
    #expect(fcntl(descriptor, F_GETFD) & FD_CLOEXEC != 0)
  }

  @Test(arguments: [Int32(SOCK_STREAM.rawValue), Int32(SOCK_DGRAM.rawValue)])
  func `is refused by name when it doesn't listen, or is no stream socket`(kind: Int32) {
    let descriptor = socket(AF_INET, kind, 0)
    defer { close(descriptor) }
    let error = #expect(throws: SocketActivationError.self) {
      try SocketActivation.adopt(name: "https", descriptor: descriptor)
    }
    #expect(error?.message.contains("\"https\"") == true)
    #expect(error?.message.contains("ListenStream=") == true)
  }

  @Test func `is refused when it is a file, or nothing at all`() {
    let descriptor = open("/dev/null", O_RDONLY)
    defer { close(descriptor) }
    #expect(throws: SocketActivationError.self) { try SocketActivation.adopt(name: "x", descriptor: descriptor) }
    #expect(throws: SocketActivationError.self) { try SocketActivation.adopt(name: "x", descriptor: 1 << 20) }
  }
}

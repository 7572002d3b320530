package import Glibc

/// A socket for datagrams between sidecars and the keeper of the identities.
package final class JoinSocket {
  private let descriptor: Int32
  private var buffer = [UInt8](repeating: 0, count: JoinMessage.mostBytes + 1)

  private init() throws(AuthorityError) {
    descriptor = socket(AF_INET, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    guard descriptor >= 0 else { throw .system("socket", "of datagrams") }
  }

  deinit { close(descriptor) }

  /// `place`: `ADDRESS:PORT` with an IPv4 address.
  package static func listening(on place: String) throws(AuthorityError) -> JoinSocket {
    var address = try address(place)
    let made = try JoinSocket()
    guard withSocketAddress(&address, { bind(made.descriptor, $0, $1) }) == 0 else { throw .system("bind", place) }
    return made
  }

  package static func to(_ place: String) throws(AuthorityError) -> JoinSocket {
    var address = try address(place)
    let made = try JoinSocket()
    guard withSocketAddress(&address, { connect(made.descriptor, $0, $1) }) == 0 else {
      throw .system("connect", place)
    }
    return made
  }

  private static func address(_ place: String) throws(AuthorityError) -> sockaddr_in {
    let parts = place.split(separator: ":", omittingEmptySubsequences: false)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    guard parts.count == 2, let port = UInt16(parts[1]), port > 0,
      inet_pton(AF_INET, String(parts[0]), &address.sin_addr) == 1
    else {
      throw AuthorityError("\"\(place)\" is no address", hint: "expected an IPv4 address and a port: 10.213.0.254:7613")
    }
    address.sin_port = port.bigEndian
    return address
  }

  /// Waits for a datagram. nil: none came in time, or it was too long.
  package func receive(within milliseconds: Int32) -> (bytes: [UInt8], from: sockaddr_in)? {
    var state = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
    guard poll(&state, 1, milliseconds) > 0 else { return nil }
    var sender = sockaddr_in()
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let count = withUnsafeMutablePointer(to: &sender) { sender in
      sender.withMemoryRebound(to: sockaddr.self, capacity: 1) { sender in
        recvfrom(descriptor, &buffer, buffer.count, Int32(MSG_DONTWAIT), sender, &length)
      }
    }
    // The system tells an earlier datagram's fate as an error: nobody listens yet.
    guard count > 0, count < buffer.count else { return nil }
    return (Array(buffer[..<count]), sender)
  }

  /// What isn't sent is asked for again a second later.
  package func send(_ bytes: [UInt8]) { _ = Glibc.send(descriptor, bytes, bytes.count, 0) }

  package func send(_ bytes: [UInt8], to receiver: sockaddr_in) {
    var receiver = receiver
    _ = withSocketAddress(&receiver) { sendto(descriptor, bytes, bytes.count, 0, $0, $1) }
  }
}

private func withSocketAddress<Result>(
  _ address: inout sockaddr_in, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Result
) -> Result {
  withUnsafePointer(to: &address) { pointer in
    pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
      body($0, socklen_t(MemoryLayout<sockaddr_in>.size))
    }
  }
}

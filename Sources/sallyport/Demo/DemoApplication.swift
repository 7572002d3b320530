import Bytes
import CLinux
import Glibc
import HTTP
import Transport

/// The application behind the demo's upstream: HTTP/1.1 over a unix socket, with one thread for each connection.
///
/// It is simple and blocking, because only the demo's own upstream reaches it: only the owner can enter the socket's
/// folder.
final class DemoApplication: Sendable {
  private let listener: Int32
  private static let connectionLimit = 256

  init(at path: String) throws(DemoFailure) {
    unlink(path)
    do throws(SocketError) {
      listener = try Sockets.listen(on: .unix(path: path), backlog: 64, reuseport: false, ipv6only: false)
    } catch {
      throw DemoFailure(text: "can't listen on \(path): \(error)")
    }
    setBlocking(listener)
  }

  func start() {
    DemoThread.start { [self] in
      let places = ConnectionLimit(Self.connectionLimit)
      while true {
        let descriptor = linux_accept4(listener, nil, nil)
        guard descriptor >= 0 else {
          // No client error ends the loop. Without free descriptors it waits a second.
          if errno != EINTR && errno != ECONNABORTED { sleep(1) }
          continue
        }
        setBlocking(descriptor)
        guard places.take() else {
          close(descriptor)
          continue
        }
        let serves = DemoThread.start {
          let wire = DemoWire(descriptor)
          DemoConnection(wire).serve()
          wire.close()
          places.giveBack()
        }
        if !serves {
          close(descriptor)
          places.giveBack()
        }
      }
    }
  }
}

private func setBlocking(_ descriptor: Int32) {
  _ = fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) & ~O_NONBLOCK)
}

/// The bytes of one connection. Blocks.
final class DemoWire {
  private let descriptor: Int32
  private(set) var input = ByteBuffer()
  private static let readSize = 64 * 1024

  init(_ descriptor: Int32) { self.descriptor = descriptor }

  /// Waits for more bytes. Returns false at the end.
  func read() -> Bool {
    input.reserve(Self.readSize)
    while true {
      let count = recv(descriptor, input.writable.baseAddress, input.writable.count, 0)
      if count > 0 {
        input.didWrite(count)
        return true
      }
      if count == 0 || errno != EINTR { return false }
    }
  }

  func consume(_ count: Int) { input.consume(count) }

  /// Returns false when the peer has closed the connection.
  @discardableResult
  func write(_ bytes: [UInt8]) -> Bool {
    bytes.withUnsafeBytes { bytes in
      var done = 0
      while done < bytes.count {
        let count = linux_send(descriptor, bytes.baseAddress.map { $0 + done }, bytes.count - done)
        if count > 0 {
          done += count
        } else if errno != EINTR {
          return false
        }
      }
      return true
    }
  }

  func close() { Glibc.close(descriptor) }
}

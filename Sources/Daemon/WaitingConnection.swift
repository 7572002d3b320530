import Glibc
import Transport

/// A client that had connected to a socket which closes, and whom nobody serves yet.
struct WaitingConnection: Sendable {
  let descriptor: Int32
  let peer: SocketAddress

  /// Accepts whoever waits in the queue of a socket, at most so many.
  static func all(of listener: Int32, atMost bound: Int) -> [WaitingConnection] {
    var found: [WaitingConnection] = []
    while found.count < bound {
      do throws(SocketError) {
        guard let (descriptor, peer) = try Sockets.accept(listener) else { break }
        found.append(WaitingConnection(descriptor: descriptor, peer: peer))
      } catch {
        // No descriptor is free: the others are lost with the socket.
        break
      }
    }
    return found
  }
}

extension WorkerFleet {
  /// Gives clients to the workers, in turn: to the listener of this generation that has the address they connected to.
  /// Closes the connections of addresses that no listener has any more.
  func take(_ waiting: [WaitingConnection], for sockets: ListeningSockets?) {
    for (index, client) in waiting.enumerated() {
      guard let local = Sockets.localAddress(of: client.descriptor), let listener = sockets?.listener(taking: local)
      else {
        close(client.descriptor)
        continue
      }
      hand(client, to: index % count, listener)
    }
  }
}

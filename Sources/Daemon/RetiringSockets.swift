import Dispatch
import Glibc
import Transport

/// Sockets in place of which this process listens on an overlapping address: of the former configuration, or of the process
/// that it has replaced.
///
/// They take no new connection from now on. Whoever waits in their queues, or has begun a handshake, is accepted for a while
/// longer, and would be lost if they closed at once.
@MainActor
final class RetiringSockets {
  private var sources: [any DispatchSourceRead] = []
  private static let seconds = 2
  /// At one event, so that other work of the main queue comes between.
  private static let batch = 64

  /// Owns the descriptors. Lives until they are closed. `take` gets whoever was accepted. Call this when the sockets in
  /// their place listen.
  @discardableResult
  init(_ descriptors: [Int32], take: @escaping @MainActor ([WaitingConnection]) -> Void) {
    for descriptor in descriptors {
      Sockets.takeNoMore(descriptor)
      let source = DispatchSource.makeReadSource(fileDescriptor: descriptor, queue: .main)
      source.setEventHandler {
        MainActor.assumeIsolated { take(WaitingConnection.all(of: descriptor, atMost: Self.batch)) }
      }
      source.setCancelHandler {
        MainActor.assumeIsolated { take(WaitingConnection.all(of: descriptor, atMost: OpenFileLimit.quarter)) }
        close(descriptor)
      }
      source.activate()
      sources.append(source)
    }
    DispatchQueue.main.asyncAfter(deadline: .now() + .seconds(Self.seconds)) { [self] in
      MainActor.assumeIsolated { for source in sources { source.cancel() } }
    }
  }
}

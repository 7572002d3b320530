import Dispatch
import Glibc

/// Sockets of a process that this one has replaced, where this one listens on an overlapping address in their place.
///
/// The other process, and systemd's store, close them some time after this process serves. Whoever connects until then
/// would be lost with the queue of the last one. So this process accepts from them, and closes them last.
@MainActor
final class RetiringSockets {
  private var sources: [any DispatchSourceRead] = []
  private static let seconds = 2
  /// At one event, so that other work of the main queue comes between.
  private static let batch = 64

  /// Owns the descriptors. Lives until they are closed. `take` gets whoever was accepted.
  init(_ descriptors: [Int32], take: @escaping @MainActor ([WaitingConnection]) -> Void) {
    for descriptor in descriptors {
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

import Dispatch

/// The signals that the supervisor hears on the main queue.
@MainActor
final class SignalSources {
  private var sources: [any DispatchSourceSignal] = []

  func heed(_ number: Int32, _ heard: @escaping @MainActor () -> Void) {
    let source = DispatchSource.makeSignalSource(signal: number, queue: .main)
    source.setEventHandler { MainActor.assumeIsolated { heard() } }
    source.activate()
    sources.append(source)
  }
}

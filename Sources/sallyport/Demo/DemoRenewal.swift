import Glibc
import Observability

/// A thread that checks the demo's certificates periodically and renews those that are about to expire.
final class DemoRenewal: Sendable {
  private let files: DemoFiles
  private let seconds: UInt32
  private let bad: DemoBadServers?
  /// In turns: the certificates of the bad servers are valid for weeks.
  private static let turnsOfBad = 24

  init(_ files: DemoFiles, every seconds: UInt32, _ bad: DemoBadServers? = nil) {
    self.files = files
    self.bad = bad
    self.seconds = seconds
  }

  func start() {
    DemoThread.start { [self] in
      var turn = 0
      while true {
        sleep(seconds)
        turn &+= 1
        do throws(DemoFailure) {
          let made = try files.refresh()
          if made.contains("ca") || made.contains("server") || turn % Self.turnsOfBad == 0 { try bad?.refresh(files) }
          if !made.isEmpty {
            LogFile.standardError.write(string: "renewed: \(made.joined(separator: ", "))\n")
          }
        } catch {
          error.tell()
        }
      }
    }
  }
}

/// Starts the demo's own threads. Their work blocks, so it can't run on an event loop.
enum DemoThread {
  /// Returns false when no thread can be started now.
  @discardableResult
  static func start(_ body: @escaping @Sendable () -> Void) -> Bool {
    final class Box {
      let body: @Sendable () -> Void
      init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    }
    var attributes = pthread_attr_t()
    guard pthread_attr_init(&attributes) == 0 else { return false }
    defer { pthread_attr_destroy(&attributes) }
    pthread_attr_setdetachstate(&attributes, Int32(PTHREAD_CREATE_DETACHED))
    let box = Unmanaged.passRetained(Box(body))
    var thread = pthread_t()
    let result = pthread_create(
      &thread, &attributes,
      { argument in
        guard let argument else { return nil }
        Unmanaged<Box>.fromOpaque(argument).takeRetainedValue().body()
        return nil
      }, box.toOpaque())
    if result != 0 { box.release() }
    return result == 0
  }
}

import Glibc
import Synchronization
package import Transport

/// Decides when the allocator gives memory back to the system: when half of a worker's connections and streams of HTTP/2, or
/// more, have ended since there were most of them. Pure: the caller brings the time (milliseconds of one monotonic clock).
struct MemoryReturn {
  private var most = 0
  private var returnedAt: UInt64?
  /// Calls in a row in which it was due.
  private var calm = 0
  /// Fewer of them leave too little memory behind.
  static let fewest = 256
  static let pause: UInt64 = 10_000
  /// A worker that needs memory waits while the allocator works, so this is not done amid a flood.
  static let calmCalls = 3

  /// `count`: connections and streams of now; `peak`: the most at a time since the last call. Called once a second.
  mutating func isDue(count: Int, peak: Int, now: UInt64) -> Bool {
    most = max(most, peak)
    guard most >= Self.fewest, count <= most / 2 else {
      calm = 0
      return false
    }
    calm += 1
    if calm < Self.calmCalls { return false }
    if let returnedAt, now &- returnedAt < Self.pause { return false }
    returnedAt = now
    calm = 0
    most = count
    return true
  }
}

/// How many there are of something, and the most that there were at a time.
package struct PeakCount {
  package private(set) var count = 0
  private var most = 0

  package mutating func add(_ number: Int) {
    count += number
    most = max(most, count)
  }

  package mutating func remove(_ number: Int) { count = max(0, count - number) }

  /// How many there were at most since the last call.
  mutating func takeMost() -> Int {
    defer { most = count }
    return most
  }
}

/// Gives unused memory back. The allocator looks at all of it, so this runs on a thread that may wait; a worker that needs
/// memory meanwhile waits for one arena at most.
enum MemoryTrimmer {
  static func trim() {
    // Swift's module of glibc lacks malloc_trim(3), and another C library may.
    guard let function = dlsym(nil, "malloc_trim") else { return }
    _ = unsafeBitCast(function, to: (@convention(c) (Int) -> Int32).self)(0)
  }
}

/// Gives memory back after a generation has ended: its certificates, keys and settings are freed, but glibc keeps the pages,
/// since what the process keeps lies between them. Four reloads with 2,000 certificates left 270 MB resident, of which 66
/// were in use.
package final class GenerationMemory: Sendable {
  private let hasEnded = Atomic<Bool>(false)
  private let isDue = Atomic<Bool>(false)

  package init() {}

  /// A generation has been let go, or has not come to serve.
  package func generationEnded() { hasEnded.store(true, ordering: .relaxed) }

  /// Gives back what generations have left, on a thread of the pool. Call it every few seconds: all workers let a generation go
  /// before, and many reloads in a row cost one turn a call.
  ///
  /// It is done a call later: thousands of contexts take a while to free, and a worker's spares hold them for a turn.
  package func returnIfDue(_ pool: BlockingPool) {
    guard turn() else { return }
    // If the thread is busy, the next turn does it.
    if !pool.run(.memory, for: "", MemoryTrimmer.trim).isTaken { isDue.store(true, ordering: .relaxed) }
  }

  /// Whether it is time now.
  func turn() -> Bool { isDue.exchange(hasEnded.exchange(false, ordering: .relaxed), ordering: .relaxed) }
}

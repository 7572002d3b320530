import Dispatch
import Synchronization

/// Work that waits (files, responders), done beside the loops: on a few threads, with a bound on what stands in line.
public final class BlockingWork: Sendable {
  private struct State {
    var waiting = 0
    var next = 0
  }

  private let queues: [DispatchQueue]
  private let limit: Int
  private let state = Mutex(State())

  /// `lanes`: what is done at the same time. `limit`: what may wait, or is done.
  public init(_ label: String, lanes: Int, limit: Int) {
    queues = (0..<max(1, lanes)).map { DispatchQueue(label: "sallyport.\(label).\($0)") }
    self.limit = limit
  }

  /// False, and nothing happens, when too much waits already.
  public func run(_ body: @escaping @Sendable () -> Void) -> Bool {
    let lane = state.withLock { state -> Int? in
      guard state.waiting < limit else { return nil }
      state.waiting += 1
      state.next = (state.next + 1) % queues.count
      return state.next
    }
    guard let lane else { return false }
    queues[lane].async { [self] in
      body()
      state.withLock { $0.waiting -= 1 }
    }
    return true
  }
}

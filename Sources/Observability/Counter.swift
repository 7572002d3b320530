import Synchronization

/// Counts events by label, for metrics. All workers share it. Use it for events that happen at most once a connection,
/// not once a request.
public final class Counter<Label>: Sendable
where Label: CaseIterable & Hashable & Sendable & RawRepresentable, Label.RawValue == String {
  private let counts = Mutex<[Label: UInt64]>([:])

  public init() {}

  public func count(_ label: Label) { counts.withLock { $0[label, default: 0] &+= 1 } }

  /// The counts of every label since the start, in the order of the label's cases.
  public var all: [(label: Label, count: UInt64)] {
    let counts = counts.withLock { $0 }
    return Label.allCases.map { ($0, counts[$0] ?? 0) }
  }
}

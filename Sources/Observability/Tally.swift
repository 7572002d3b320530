import Synchronization

/// Counts what happens, by label, for metrics. Shared by all workers; for what happens once a connection or less, not
/// for every request.
public final class Tally<Label>: Sendable
where Label: CaseIterable & Hashable & Sendable & RawRepresentable, Label.RawValue == String {
  private let counts = Mutex<[Label: UInt64]>([:])

  public init() {}

  public func count(_ label: Label) { counts.withLock { $0[label, default: 0] &+= 1 } }

  /// Since the start, every label; in the order of its cases.
  public var all: [(label: Label, count: UInt64)] {
    let counts = counts.withLock { $0 }
    return Label.allCases.map { ($0, counts[$0] ?? 0) }
  }
}

/// Counts events by label, for metrics. Each worker has its own, and only the worker writes it. Use it for events that
/// happen at most once a connection, because a count looks for the label among all of them. It keeps no dictionary, and the
/// class asks nothing of its labels: for each type of label and each requirement, the Swift runtime would search all
/// conformances of the program at the start.
public final class Counter<Label: Sendable>: Sendable {
  @usableFromInline let row: CountRow
  @usableFromInline let labels: [Label]

  public init() where Label: CaseIterable {
    labels = Array(Label.allCases)
    row = CountRow(labels.count)
  }

  // Inlined: where the type of the labels is known, the search is a few comparisons.
  @inlinable
  public func count(_ label: Label) where Label: Equatable {
    for place in labels.indices where labels[place] == label { return row.add(at: place) }
  }

  /// The counts of every label since the start, in the order of the label's cases.
  public var all: [(label: Label, count: UInt64)] {
    labels.enumerated().map { ($1, row.value(at: $0)) }
  }
}

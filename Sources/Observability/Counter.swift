/// Counts events by label, for metrics. Each worker has its own, and only the worker writes it. Use it for events that
/// happen at most once a connection, because a count looks the label up.
public final class Counter<Label>: Sendable
where Label: CaseIterable & Hashable & Sendable & RawRepresentable, Label.RawValue == String {
  private let row: CountRow
  private let places: [Label: Int]

  public init() {
    let labels = Array(Label.allCases)
    row = CountRow(labels.count)
    places = Dictionary(labels.enumerated().map { ($1, $0) }) { first, _ in first }
  }

  public func count(_ label: Label) {
    if let place = places[label] { row.add(at: place) }
  }

  /// The counts of every label since the start, in the order of the label's cases.
  public var all: [(label: Label, count: UInt64)] {
    Label.allCases.enumerated().map { ($1, row.value(at: $0)) }
  }
}

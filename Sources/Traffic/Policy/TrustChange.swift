/// One sentence of `sallyport check --diff`.
package struct TrustChange: Sendable, Hashable {
  /// What a change does to whom sallyport lets in and to whom it sends requests.
  package enum Direction: Int, Sendable, Hashable, CaseIterable, Comparable {
    /// Somebody gets in, or gets data, who did not.
    case opens
    case closes
    /// Another one than before, or a matter that words can't order.
    case other

    package static func < (one: Direction, other: Direction) -> Bool { one.rawValue < other.rawValue }
  }

  package var direction: Direction
  package var sentence: String

  package init(direction: Direction, sentence: String) {
    self.direction = direction
    self.sentence = sentence
  }
}

/// The names of variables by slot, before and after a change: `set` numbers its variables anew in each configuration.
package struct ComparedNames: Sendable {
  package let old: [Int: String]
  package let new: [Int: String]
  /// What the level that is compared serves.
  package let traffic: TrafficKind

  package init(old: [Int: String], new: [Int: String], traffic: TrafficKind = .http) {
    self.old = old
    self.new = new
    self.traffic = traffic
  }

  /// What the level has many of.
  package var things: String { traffic == .http ? "requests" : "connections" }
}

/// Collects the changes of one level: a server block or a location.
package struct TrustChanges {
  package private(set) var all: [TrustChange] = []

  package init() {}

  package mutating func opens(_ sentence: String) { all.append(TrustChange(direction: .opens, sentence: sentence)) }
  package mutating func closes(_ sentence: String) { all.append(TrustChange(direction: .closes, sentence: sentence)) }
  package mutating func other(_ sentence: String) { all.append(TrustChange(direction: .other, sentence: sentence)) }

  /// A switch that opens when it is set.
  package mutating func flag(_ old: Bool, _ new: Bool, opens: String, closes: String) {
    if new && !old { self.opens(opens) }
    if old && !new { self.closes(closes) }
  }

  /// What was added opens, and what was removed closes; in the order of their texts.
  package mutating func set(
    _ old: Set<String>, _ new: Set<String>, added: (String) -> String, removed: (String) -> String
  ) {
    for one in new.subtracting(old).sorted() { opens(added(one)) }
    for one in old.subtracting(new).sorted() { closes(removed(one)) }
  }

  /// What was added closes, and what was removed opens.
  package mutating func guards(
    _ old: Set<String>, _ new: Set<String>, added: (String) -> String, removed: (String) -> String
  ) {
    for one in old.subtracting(new).sorted() { opens(removed(one)) }
    for one in new.subtracting(old).sorted() { closes(added(one)) }
  }

  /// A limit: nil is none. A higher one opens.
  package mutating func limit(_ name: String, _ old: Int?, _ new: Int?, unit: String = "") {
    switch (old, new) {
    case (let old?, nil): opens("\(name) is no longer limited (was \(old)\(unit))")
    case (nil, let new?): closes("\(name) is limited to \(new)\(unit)")
    case (let old?, let new?) where new > old: opens("\(name) may be \(new)\(unit) (was \(old)\(unit))")
    case (let old?, let new?) where new < old: closes("\(name) may be only \(new)\(unit) (was \(old)\(unit))")
    default: break
    }
  }

  package mutating func append(_ changes: some Sequence<TrustChange>) { all += changes }
}

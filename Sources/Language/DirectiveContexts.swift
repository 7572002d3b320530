/// What lines may stand in: the file itself, or a kind of block. Each is declared once, by whoever has the directive that
/// opens the block.
private final class Context: Sendable {
  /// As messages and the manual name it.
  let name: String
  /// The directive that opens the block; empty: the file itself.
  let block: String
  /// The contexts in which that directive opens this kind of block.
  let outer: DirectiveContexts
  /// Whether such a block may stand in one of its own kind.
  let nests: Bool
  let isOfStream: Bool

  /// How many blocks are around it.
  var depth: Int { outer.all.map { $0.depth + 1 }.max() ?? 0 }

  init(_ name: String, _ block: String, _ outer: DirectiveContexts, _ nests: Bool, _ isOfStream: Bool) {
    self.name = name
    self.block = block
    self.outer = outer
    self.nests = nests
    self.isOfStream = isOfStream
  }
}

/// The contexts in which a directive may stand.
package struct DirectiveContexts: SetAlgebra, Sendable {
  /// Without duplicates, in the order in which they were named: a handful, so that looking through them is quicker than a
  /// set.
  fileprivate private(set) var all: [Context] = []

  package init() {}

  private init(_ all: [Context]) { self.all = all }

  /// Declares a kind of block. `name`: as messages name it; nil: as the directive `block` that opens it in `outer`.
  /// `nests`: such a block may stand in one of its own kind.
  package init(
    block: String, in outer: DirectiveContexts, named name: String? = nil, nests: Bool = false, isOfStream: Bool = false
  ) {
    all = [Context(name ?? block, block, outer, nests, isOfStream)]
  }

  /// The file itself, outside all blocks.
  package static let main = DirectiveContexts(block: "", in: [], named: "main")

  package var isEmpty: Bool { all.isEmpty }
  /// As messages and the manual name them: those of `stream` last, and outer blocks before inner ones.
  package var names: [String] {
    all.enumerated().sorted { one, other in
      let (left, right) = (one.element, other.element)
      if left.isOfStream != right.isOfStream { return right.isOfStream }
      return (left.depth, one.offset) < (right.depth, other.offset)
    }.map(\.element.name)
  }
  /// Whether any of them is of `stream`.
  package var isOfStream: Bool { all.contains(where: \.isOfStream) }
  /// Each alone.
  package var each: [DirectiveContexts] { all.map { DirectiveContexts([$0]) } }

  /// The context of the lines of a block that a directive opens in `outer`; nil: none of these is.
  package func inside(block name: String, in outer: DirectiveContexts) -> DirectiveContexts? {
    all.first { context in
      context.block == name && (context.outer.contains(outer) || context.nests && outer.all.contains { $0 === context })
    }.map { DirectiveContexts([$0]) }
  }

  // MARK: A set

  package func contains(_ other: DirectiveContexts) -> Bool {
    other.all.allSatisfy { one in all.contains { $0 === one } }
  }
  package func union(_ other: DirectiveContexts) -> DirectiveContexts {
    DirectiveContexts(all + other.all.filter { one in !all.contains { $0 === one } })
  }
  package func intersection(_ other: DirectiveContexts) -> DirectiveContexts {
    DirectiveContexts(all.filter { one in other.all.contains { $0 === one } })
  }
  package func symmetricDifference(_ other: DirectiveContexts) -> DirectiveContexts {
    DirectiveContexts(
      all.filter { one in !other.all.contains { $0 === one } }
        + other.all.filter { one in !all.contains { $0 === one } })
  }
  package mutating func formUnion(_ other: DirectiveContexts) { self = union(other) }
  package mutating func formIntersection(_ other: DirectiveContexts) { self = intersection(other) }
  package mutating func formSymmetricDifference(_ other: DirectiveContexts) { self = symmetricDifference(other) }

  @discardableResult
  package mutating func insert(
    _ other: DirectiveContexts
  ) -> (inserted: Bool, memberAfterInsert: DirectiveContexts) {
    let isNew = !contains(other)
    formUnion(other)
    return (isNew, other)
  }
  @discardableResult
  package mutating func remove(_ other: DirectiveContexts) -> DirectiveContexts? {
    let removed = intersection(other)
    self = DirectiveContexts(all.filter { one in !other.all.contains { $0 === one } })
    return removed.isEmpty ? nil : removed
  }
  @discardableResult
  package mutating func update(with other: DirectiveContexts) -> DirectiveContexts? {
    defer { formUnion(other) }
    return contains(other) ? other : nil
  }
}

extension DirectiveContexts: Hashable {
  package static func == (one: DirectiveContexts, other: DirectiveContexts) -> Bool {
    one.all.count == other.all.count && one.contains(other)
  }
  package func hash(into hasher: inout Hasher) { hasher.combine(Set(all.map { ObjectIdentifier($0) })) }
}

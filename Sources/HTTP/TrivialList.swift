/// A list of trivial values that keeps its storage, so that one head after another can reuse it.
///
/// Why not an array: appending to an array and iterating over it cost reference counting per field and per iteration,
/// which is a measurable part of the time to parse a head.
@usableFromInline struct TrivialList<Element: BitwiseCopyable>: ~Copyable {
  @usableFromInline var base: UnsafeMutablePointer<Element>?
  private var capacity = 0
  private(set) var count = 0

  init() {}

  // Inlinable: a type that contains a list is inlinable too, and optimised builds of other modules then need this.
  @inlinable deinit { base?.deallocate() }

  /// The elements. The pointer is valid until the next mutating call.
  var elements: UnsafeBufferPointer<Element> { UnsafeBufferPointer(start: base, count: count) }

  var mutableElements: UnsafeMutableBufferPointer<Element> { UnsafeMutableBufferPointer(start: base, count: count) }

  @inline(__always)
  mutating func append(_ element: Element) {
    if count == capacity { grow() }
    guard let base else { return }
    (base + count).initialize(to: element)
    count &+= 1
  }

  /// Removes the last elements until `n` are left.
  mutating func truncate(to n: Int) {
    precondition(n >= 0 && n <= count)
    count = n
  }

  /// Removes all elements and keeps the storage.
  mutating func removeAll() { count = 0 }

  /// Removes all elements and frees the storage.
  mutating func release() {
    base?.deallocate()
    base = nil
    capacity = 0
    count = 0
  }

  @inline(never)
  private mutating func grow() {
    let wanted = max(16, capacity * 2)
    let grown = UnsafeMutablePointer<Element>.allocate(capacity: wanted)
    if let base {
      grown.moveInitialize(from: base, count: count)
      base.deallocate()
    }
    base = grown
    capacity = wanted
  }
}

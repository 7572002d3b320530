/// Plain values one after another, in storage that is kept: the fields of one head after another.
///
/// Why not an array: appending to one and walking it cost reference counting per field and per walk, which is a
/// measurable part of a parsed head.
@usableFromInline struct TrivialList<Element: BitwiseCopyable>: ~Copyable {
  @usableFromInline var base: UnsafeMutablePointer<Element>?
  private var capacity = 0
  private(set) var count = 0

  init() {}

  // Inlinable, as whatever holds a list is: an optimised build of a head that other modules read into needs it.
  @inlinable deinit { base?.deallocate() }

  /// Valid until the next mutating call.
  var elements: UnsafeBufferPointer<Element> { UnsafeBufferPointer(start: base, count: count) }

  var mutableElements: UnsafeMutableBufferPointer<Element> { UnsafeMutableBufferPointer(start: base, count: count) }

  @inline(__always)
  mutating func append(_ element: Element) {
    if count == capacity { grow() }
    guard let base else { return }
    (base + count).initialize(to: element)
    count &+= 1
  }

  /// Drops the last elements until `n` are left.
  mutating func truncate(to n: Int) {
    precondition(n >= 0 && n <= count)
    count = n
  }

  /// Forgets the elements, keeps the storage.
  mutating func removeAll() { count = 0 }

  /// Forgets the elements and gives the storage back.
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

import HeapModule

/// Targets with their deadlines, in milliseconds of one monotonic clock that the caller brings.
///
/// A connection moves its deadline with every request. Moving a deadline later only writes a number; the heap changes
/// when the earlier entry comes up. An entry of a freed slot is 16 stale bytes and keeps no object. The slots aren't an
/// array, because six calls of `set` for each request then took 450 instructions instead of 120.
struct Deadlines<Target: AnyObject>: ~Copyable {
  static var never: UInt64 { .max }

  private struct Entry: Comparable {
    var time: UInt64
    var slot: UInt32
    var generation: UInt32
    static func < (left: Entry, right: Entry) -> Bool { left.time < right.time }
  }

  private struct Slot {
    var target: Target?
    var generation: UInt32
    var deadline: UInt64
    var scheduled: UInt64
  }

  private var heap = Heap<Entry>()
  private var slots = UnsafeMutablePointer<Slot>.allocate(capacity: 16)
  private var capacity = 16
  private var count = 0
  private var unused: [UInt32] = []

  deinit {
    slots.deinitialize(count: count)
    slots.deallocate()
  }

  /// Adds a slot for a target, which stays until `remove`.
  mutating func add(_ target: Target) -> Int {
    if let slot = unused.popLast() {
      slots[Int(slot)].target = target
      return Int(slot)
    }
    if count == capacity { grow() }
    (slots + count).initialize(to: Slot(target: target, generation: 0, deadline: Self.never, scheduled: Self.never))
    count += 1
    return count - 1
  }

  private mutating func grow() {
    let grown = UnsafeMutablePointer<Slot>.allocate(capacity: capacity * 2)
    grown.moveInitialize(from: slots, count: count)
    slots.deallocate()
    slots = grown
    capacity *= 2
  }

  /// Slots with a target.
  var targets: Int { count - unused.count }

  @inline(__always)
  private func isSlot(_ slot: Int) -> Bool { UInt(bitPattern: slot) < UInt(bitPattern: count) }

  mutating func remove(_ slot: Int) {
    guard isSlot(slot), slots[slot].target != nil else { return }
    slots[slot].target = nil
    slots[slot].generation &+= 1
    slots[slot].deadline = Self.never
    slots[slot].scheduled = Self.never
    unused.append(UInt32(truncatingIfNeeded: slot))
  }

  /// Removes all slots. Returns their targets.
  mutating func removeAll() -> [Target] {
    (0..<count).compactMap { slot in
      defer { remove(slot) }
      return slots[slot].target
    }
  }

  /// Moves a slot's deadline; `never` takes it back.
  @inline(__always)
  mutating func set(_ slot: Int, to time: UInt64) {
    guard isSlot(slot) else { return }
    slots[slot].deadline = time
    if time < slots[slot].scheduled { schedule(slot, at: time) }
  }

  @inline(never)
  private mutating func schedule(_ slot: Int, at time: UInt64) {
    slots[slot].scheduled = time
    heap.insert(Entry(time: time, slot: UInt32(truncatingIfNeeded: slot), generation: slots[slot].generation))
  }

  /// Whether a slot has a deadline.
  func isSet(_ slot: Int) -> Bool { isSlot(slot) && slots[slot].deadline != Self.never }

  /// The earliest time at which `pop` may return a target; the entry can be stale.
  var next: UInt64 { heap.min?.time ?? Self.never }

  /// The next target whose deadline has passed; its deadline is taken back.
  mutating func pop(now: UInt64) -> Target? {
    while let entry = heap.min, entry.time <= now {
      heap.removeMin()
      let index = Int(entry.slot)
      guard slots[index].generation == entry.generation, slots[index].scheduled == entry.time else { continue }
      slots[index].scheduled = Self.never
      if slots[index].deadline <= now {
        slots[index].deadline = Self.never
        return slots[index].target
      }
      if slots[index].deadline != Self.never { set(index, to: slots[index].deadline) }
    }
    return nil
  }
}

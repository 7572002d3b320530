/// A table whose entries stand in the order of their use, so that the one that was used least recently can leave first.
/// Each operation takes constant time, but for those that say otherwise.
///
/// A value without a clock. It sets no bound itself: its owner knows what a full table is, by entries or by bytes, and
/// which entries may not leave.
@frozen
public struct LRUTable<Key: Hashable, Value> {
  /// Where an entry stands, until it is removed. The place of a removed entry may be that of another one later.
  @frozen
  public struct Place: Hashable, Sendable {
    @usableFromInline let index: Int
    @inlinable init(_ index: Int) { self.index = index }
  }

  @usableFromInline
  struct Entry {
    @usableFromInline var key: Key
    /// nil: the place is free.
    @usableFromInline var value: Value?
    /// Towards the entry used more recently, and less recently; -1 at the ends.
    @usableFromInline var newer = -1
    @usableFromInline var older = -1

    @inlinable
    init(_ key: Key, _ value: Value) {
      self.key = key
      self.value = value
    }
  }

  @usableFromInline var entries: [Entry] = []
  @usableFromInline var places: [Key: Int] = [:]
  @usableFromInline var free: [Int] = []
  @usableFromInline var newestIndex = -1
  @usableFromInline var oldestIndex = -1

  @inlinable
  public init() {}

  @inlinable public var count: Int { places.count }
  @inlinable public var isEmpty: Bool { places.isEmpty }

  /// Doesn't count as a use.
  @inlinable
  public func place(of key: Key) -> Place? { places[key].map { Place($0) } }

  /// nil: nothing stands there. Doesn't count as a use. Only `remove` empties a place: setting nil changes nothing, and
  /// neither does setting a value where nothing stands.
  @inlinable
  public subscript(place: Place) -> Value? {
    get { entries[place.index].value }
    set { if let newValue, entries[place.index].value != nil { entries[place.index].value = newValue } }
  }

  /// The key of an entry.
  @inlinable
  public func key(at place: Place) -> Key { entries[place.index].key }

  /// nil: the table is empty.
  @inlinable public var oldest: Place? { oldestIndex < 0 ? nil : Place(oldestIndex) }

  /// The entry that was used after this one; nil: there is none.
  @inlinable
  public func newer(than place: Place) -> Place? {
    let index = entries[place.index].newer
    return index < 0 ? nil : Place(index)
  }

  /// Counts as a use: the entry becomes the newest.
  @inlinable
  public mutating func use(_ place: Place) {
    guard place.index != newestIndex else { return }
    unlink(place.index)
    link(place.index)
  }

  /// Adds an entry as the newest, in place of that of the same key.
  @discardableResult
  @inlinable
  public mutating func insert(_ value: Value, for key: Key) -> Place {
    if let index = places[key] {
      entries[index].value = value
      use(Place(index))
      return Place(index)
    }
    let index: Int
    if let spare = free.popLast() {
      entries[spare] = Entry(key, value)
      index = spare
    } else {
      index = entries.count
      entries.append(Entry(key, value))
    }
    places[key] = index
    link(index)
    return Place(index)
  }

  /// Frees the value at once: it may be a private key.
  @discardableResult
  @inlinable
  public mutating func remove(_ place: Place) -> Value? {
    guard let value = entries[place.index].value else { return nil }
    unlink(place.index)
    places[entries[place.index].key] = nil
    entries[place.index].value = nil
    free.append(place.index)
    return value
  }

  @discardableResult
  @inlinable
  public mutating func remove(_ key: Key) -> Value? { place(of: key).flatMap { remove($0) } }

  /// Removes the entry used least recently of those that may leave, if there are `limit` entries or more. It looks past
  /// each that may not, one by one. Returns what left, or whether there is room without that.
  @inlinable
  public mutating func makeRoom(limit: Int, where mayLeave: (Value) -> Bool = { _ in true }) -> Room {
    guard count >= limit else { return .free }
    var place = oldest
    while let each = place {
      if let value = self[each], mayLeave(value) {
        remove(each)
        return .made(value)
      }
      place = newer(than: each)
    }
    return .none
  }

  /// What `makeRoom` found.
  @frozen
  public enum Room {
    case free
    /// After this value has left.
    case made(Value)
    /// No entry may leave.
    case none
  }

  /// All entries, the one used least recently first. In time by their number.
  @inlinable public var all: [(place: Place, key: Key, value: Value)] {
    var all: [(place: Place, key: Key, value: Value)] = []
    all.reserveCapacity(count)
    var place = oldest
    while let each = place {
      if let value = self[each] { all.append((each, key(at: each), value)) }
      place = newer(than: each)
    }
    return all
  }

  @inlinable
  mutating func unlink(_ index: Int) {
    let (newer, older) = (entries[index].newer, entries[index].older)
    if newer >= 0 { entries[newer].older = older } else { newestIndex = older }
    if older >= 0 { entries[older].newer = newer } else { oldestIndex = newer }
  }

  @inlinable
  mutating func link(_ index: Int) {
    entries[index].newer = -1
    entries[index].older = newestIndex
    if newestIndex >= 0 { entries[newestIndex].newer = index } else { oldestIndex = index }
    newestIndex = index
  }
}

extension LRUTable: Sendable where Key: Sendable, Value: Sendable {}
extension LRUTable.Entry: Sendable where Key: Sendable, Value: Sendable {}
extension LRUTable.Room: Sendable where Value: Sendable {}

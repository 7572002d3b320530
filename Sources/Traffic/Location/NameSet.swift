public import Bytes
public import HTTP

/// Field names, looked up per field: known ones by a bit, others by comparison.
// Each field of a message asks in another module, so what answers for most fields is inlined there.
@usableFromInline
package struct NameSet {
  @usableFromInline var known = FieldNameSet()
  /// In lower case.
  @usableFromInline var exact: [[UInt8]] = []
  /// As `FieldName.fold` makes them.
  @usableFromInline var folded: [[UInt8]] = []

  package init() {}

  /// `withAliases`: also every name that a server may read as this one, as `X_Client_DN`, `x.client.dn` and `X+Client+DN`
  /// for `X-Client-DN` (CVE-2026-39858, GHSA-f59h-q822-g45g), whichever of them the configuration has.
  package mutating func insert(_ name: [UInt8], withAliases: Bool) {
    let id = name.withUnsafeBytes { withAliases ? FieldName.folded($0) : FieldName.known($0) }
    if id != .other { known.insert(id) }
    if withAliases {
      let canonical = name.map { FieldName.fold($0) }
      // A name of one word has no other spelling than that of its letters.
      if id == .other || canonical.contains(0x2D), !folded.contains(canonical) { folded.append(canonical) }
    } else if id == .other {
      let lowercase = name.map { ASCII.lower($0) }
      if !exact.contains(lowercase) { exact.append(lowercase) }
    }
  }

  package mutating func formUnion(_ other: NameSet) {
    known = known.union(other.known)
    for name in other.exact where !exact.contains(name) { exact.append(name) }
    for name in other.folded where !folded.contains(name) { folded.append(name) }
  }

  @inlinable @inline(__always)
  package func contains(_ id: FieldName) -> Bool { known.contains(id) }

  /// For load time.
  package func contains(name: String) -> Bool { Array(name.utf8).withUnsafeBytes { containsOther($0) } }

  @inlinable @inline(__always)
  package func contains(_ field: Field, in bytes: UnsafeRawBufferPointer) -> Bool {
    if field.id != .other { return known.contains(field.id) }
    if exact.isEmpty && folded.isEmpty { return false }
    return containsOther(bytes[field.name])
  }

  @usableFromInline
  func containsOther(_ name: UnsafeRawBufferPointer) -> Bool {
    for other in exact where other.count == name.count {
      if other.withUnsafeBytes({ name.equalsIgnoringCase($0) }) { return true }
    }
    for other in folded where other.count == name.count {
      var index = 0
      while index < name.count, FieldName.fold(name[index]) == other[index] { index += 1 }
      if index == name.count { return true }
    }
    return false
  }
}

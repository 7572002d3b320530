internal import Bytes

/// The field names that the Connection fields of one message nominate as hop-by-hop (RFC 9110 §7.6.1).
///
/// Why fingerprints, computed once: comparing each field with each element of the list would make a head of 30 KB cost
/// as much as a thousand other heads. With fingerprints, the work grows only with the size of the head.
struct Nominations {
  /// The most elements in all Connection fields of one message, empty and known elements included. RFC 9110 §5.6.1.2
  /// requires recipients to accept a reasonable number of empty elements.
  private static var elementLimit: UInt8 { 64 }

  private var known = FieldNameSet()
  private var elements: UInt8 = 0
  private var unknownCount = 0
  /// Fingerprints of names that `FieldName` does not know. No legitimate peer needs more than 16.
  private var unknown = InlineArray<16, UInt64>(repeating: 0)

  /// Counts one element of a Connection field, whatever its text; throws above the limit.
  mutating func countElement() throws(HeadError) {
    guard elements < Self.elementLimit else { throw .tooManyConnectionOptions }
    elements += 1
  }

  /// Records an element that is not a connection option.
  mutating func add(_ name: UnsafeRawBufferPointer) throws(HeadError) {
    let id = FieldName.known(name)
    if id != .other { return known.insert(id) }
    let fingerprint = Self.fingerprint(name)
    if holds(fingerprint) { return }
    guard unknownCount < unknown.count else { throw .tooManyConnectionOptions }
    unknown[unknownCount] = fingerprint
    unknownCount += 1
  }

  var isEmpty: Bool { known.isEmpty && unknownCount == 0 }

  /// Marks the nominated fields as hop-by-hop, except fields that an attacker would gain by removing.
  func mark(_ fields: UnsafeMutableBufferPointer<Field>, _ base: UnsafeRawPointer) {
    let known = known.subtracting(.neverNominated)
    for index in fields.indices {
      let id = fields[index].id
      if id == .other ? unknownCount > 0 && holds(Self.fingerprint(at(base, fields[index].name))) : known.contains(id) {
        fields[index].isHopByHop = true
      }
    }
  }

  private func holds(_ fingerprint: UInt64) -> Bool {
    for index in 0..<unknownCount where unknown[index] == fingerprint { return true }
    return false
  }

  /// Hashes the name without case. Equal fingerprints count as equal names: a peer that can make two names collide
  /// could as well nominate both names.
  private static func fingerprint(_ name: UnsafeRawBufferPointer) -> UInt64 {
    // FNV-1a, 64 bits.
    var hash: UInt64 = 0xCBF2_9CE4_8422_2325
    for byte in name {
      hash = (hash ^ UInt64(ASCII.lower(byte))) &* 0x0000_0100_0000_01B3
    }
    return hash
  }
}

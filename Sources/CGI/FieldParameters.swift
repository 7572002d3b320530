internal import Bytes
public import HTTP

/// How the fields of a request become parameters (RFC 3875 §4.1.18).
public enum FieldParameters {
  static let prefix: StaticString = "HTTP_"

  /// The parameter that a field of this name becomes: `HTTP_X_CLIENT_DN` for `X-Client-DN`, and also for `X_Client_DN`
  /// and `x.client.dn`.
  ///
  /// Why every byte but a letter or digit becomes `_`, where nginx does that with `-` only: programs do it too (PHP
  /// with the dot), so they would read a client's field as the one that sallyport sets (CVE-2026-39858).
  public static func parameterName(ofField name: UnsafeRawBufferPointer) -> [UInt8] {
    Array("HTTP_".utf8) + name.map(byte)
  }

  static func byte(_ byte: UInt8) -> UInt8 {
    let folded = FieldName.fold(byte)
    return folded == 0x2D ? 0x5F : ASCII.upper(folded)
  }

  /// Whether programs get this field at all.
  ///
  /// They get none of those that belong to the connection to the client, and none that a parameter of another name has
  /// (CONTENT_LENGTH, CONTENT_TYPE). They never get Proxy: HTTP_PROXY in the environment of a program names the proxy
  /// for the program's own requests, and a client could so redirect them (httpoxy, CVE-2016-5385).
  public static func isPassed(_ field: Field, in bytes: UnsafeRawBufferPointer) -> Bool {
    if field.isHopByHop { return false }
    let name = bytes[field.name]
    // An ordinary name is its own only spelling.
    let id = field.id == .other && !isOrdinary(name) ? FieldName.folded(name) : field.id
    return !id.isHopByHop && id != .contentLength && id != .contentType && !name.equalsIgnoringCase("proxy")
  }

  /// FNV-1a of a name, the same for all spellings of one parameter. Equal names are compared nevertheless.
  static func fingerprint(_ name: some Sequence<UInt8>) -> UInt64 {
    var hash: UInt64 = 0xCBF2_9CE4_8422_2325
    for byte in name { hash = (hash ^ UInt64(FieldName.fold(byte))) &* 0x0000_0100_0000_01B3 }
    return hash
  }

  static func areOneParameter(_ left: UnsafeRawBufferPointer, _ right: UnsafeRawBufferPointer) -> Bool {
    guard left.count == right.count else { return false }
    for index in 0..<left.count where FieldName.fold(left[index]) != FieldName.fold(right[index]) { return false }
    return true
  }

  /// Whether a name has letters, digits and hyphens only, so that no other such name becomes the same parameter.
  static func isOrdinary(_ name: UnsafeRawBufferPointer) -> Bool {
    name.allSatisfy { $0 == 0x2D || FieldName.fold($0) != 0x2D }
  }
}

/// The parameters that a configuration sets and clients' fields must not set, for `addFields`. Made at load.
public struct ReservedParameters: Sendable {
  /// The names behind `HTTP_`, folded.
  private var names: [(fingerprint: UInt64, name: [UInt8])] = []

  public init() {}

  /// Reserves the name of a parameter. One without `HTTP_` is no field's anyway.
  public mutating func insert(_ parameter: [UInt8]) {
    let prefix = Array("http-".utf8)
    let folded = parameter.map { FieldName.fold($0) }
    guard folded.starts(with: prefix) else { return }
    let name = Array(folded.dropFirst(prefix.count))
    names.append((FieldParameters.fingerprint(name), name))
  }

  func contains(_ field: UnsafeRawBufferPointer, _ fingerprint: UInt64) -> Bool {
    for reserved in names where reserved.fingerprint == fingerprint {
      if reserved.name.withUnsafeBytes({ FieldParameters.areOneParameter($0, field) }) { return true }
    }
    return false
  }
}

/// Fields of one fingerprint, in their order: those of one parameter, and rarely of another one too.
///
/// Why groups: with 1000 fields, comparing each with each takes two milliseconds.
private struct FieldGroup {
  /// Numbers of fields have 16 bits of a key.
  static var mostFields: Int { 1 << 16 }

  let keys: UnsafeMutableBufferPointer<UInt64>
  let fields: UnsafeBufferPointer<Field>
  let bytes: UnsafeRawBufferPointer

  static func key(_ fingerprint: UInt64, _ index: Int) -> UInt64 { fingerprint << 16 | UInt64(index) }
  static func index(_ key: UInt64) -> Int { Int(key & 0xFFFF) }
  static func isSame(_ left: UInt64, _ right: UInt64) -> Bool { left >> 16 == right >> 16 }

  var count: Int { keys.count }
  func index(_ position: Int) -> Int { Self.index(keys[position]) }
  func name(_ index: Int) -> UnsafeRawBufferPointer { bytes[fields[index].name] }
}

extension ParameterBlock {
  /// Adds the fields of a request as `HTTP_…` parameters, except those that are reserved or not passed.
  ///
  /// Several fields of one name become one parameter, with their values joined as nginx joins them. Of several names
  /// that become one parameter, the name of letters, digits and hyphens is taken, or the first one: what a server in
  /// front of sallyport sets in `X-User`, a client's `X_User` neither replaces nor extends.
  public mutating func addFields(
    of head: RequestHead, except reserved: borrowing ReservedParameters
  ) throws(ParameterFault) {
    let fields = head.fields, bytes = head.bytes.readable
    guard fields.count <= FieldGroup.mostFields else { throw .tooLarge(limit: kind.parameterBytes) }
    let fault: ParameterFault? = withUnsafeTemporaryAllocation(of: UInt64.self, capacity: 2 * fields.count) { memory in
      // The fields that are sent, by fingerprint: those that may be one parameter stand together, in their order.
      var count = 0
      for index in 0..<fields.count {
        let name = bytes[fields[index].name]
        let fingerprint = FieldParameters.fingerprint(name)
        guard FieldParameters.isPassed(fields[index], in: bytes), !reserved.contains(name, fingerprint) else {
          continue
        }
        memory.initializeElement(at: count, to: FieldGroup.key(fingerprint, index))
        count += 1
      }
      var keys = UnsafeMutableBufferPointer(rebasing: memory[..<count])
      keys.sort()
      // Where the group of each field begins.
      let starts = UnsafeMutableBufferPointer(rebasing: memory[fields.count...])
      starts.initialize(repeating: UInt64(fields.count))
      var start = 0
      for position in 0..<count {
        if !FieldGroup.isSame(keys[position], keys[start]) { start = position }
        starts[FieldGroup.index(keys[position])] = UInt64(start)
      }
      do throws(ParameterFault) {
        for index in 0..<fields.count where starts[index] < UInt64(fields.count) {
          let first = Int(starts[index])
          let leader = FieldGroup.index(keys[first])
          if leader < index, FieldParameters.areOneParameter(bytes[fields[leader].name], bytes[fields[index].name]) {
            continue
          }
          var end = first + 1
          while end < count, FieldGroup.isSame(keys[first], keys[end]) { end += 1 }
          let group = FieldGroup(
            keys: UnsafeMutableBufferPointer(rebasing: keys[first..<end]), fields: fields, bytes: bytes)
          try addParameter(of: index, group)
        }
        return nil
      } catch {
        return error
      }
    }
    if let fault { throw fault }
  }

  /// Adds the parameter of which this field is the first, with the values of all fields of the name that is taken.
  private mutating func addParameter(of first: Int, _ group: FieldGroup) throws(ParameterFault) {
    var taken = group.name(first)
    if group.count > 1 {
      var ordinary: UnsafeRawBufferPointer?
      for position in 0..<group.count {
        let index = group.index(position), name = group.name(index)
        guard FieldParameters.areOneParameter(name, taken) else { continue }
        if index < first { return }
        if ordinary == nil, FieldParameters.isOrdinary(name) { ordinary = name }
      }
      taken = ordinary ?? taken
    }
    var valueCount = -2
    for position in 0..<group.count {
      let index = group.index(position)
      if group.name(index).equalsIgnoringCase(taken) { valueCount += Int(group.fields[index].value.count) + 2 }
    }
    try beginName(FieldParameters.prefix.utf8CodeUnitCount + taken.count, value: valueCount)
    append(fieldName: taken)
    beginValue(valueCount)
    var isFirst = true
    for position in 0..<group.count {
      let field = group.fields[group.index(position)]
      guard group.bytes[field.name].equalsIgnoringCase(taken) else { continue }
      if !isFirst { append(separator: field.id == .cookie ? 0x3B : 0x2C) }
      isFirst = false
      append(part: group.bytes[field.value])
    }
    endValue()
  }

  /// Adds CONTENT_LENGTH and CONTENT_TYPE. `bodyLength`: what is sent, which the head need not have said; nil: the
  /// request has no body, or none whose length is known, and programs get no CONTENT_LENGTH.
  public mutating func addContent(of head: RequestHead, bodyLength: UInt64?) throws(ParameterFault) {
    if let bodyLength { try add("CONTENT_LENGTH", decimal: bodyLength) }
    if let type = head.first(.contentType) { try add("CONTENT_TYPE", head.bytes.readable[type.value]) }
  }
}

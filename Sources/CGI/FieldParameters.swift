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

  /// Whether programs get a field of this name at all.
  ///
  /// They get none of those that belong to the connection to the client, and none that a parameter of another name has
  /// (CONTENT_LENGTH, CONTENT_TYPE). They never get Proxy: HTTP_PROXY in the environment of a program names the proxy
  /// for the program's own requests, and a client could so redirect them (httpoxy, CVE-2016-5385).
  public static func isPassed(_ name: UnsafeRawBufferPointer) -> Bool {
    let id = FieldName.folded(name)
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

/// A field of a request as it goes to a server of programs. The bytes belong to the request's head.
private struct SentField {
  let name: UnsafeRawBufferPointer
  let value: UnsafeRawBufferPointer
  /// The fingerprint of the name, and below it the number of the field, in 16 bits.
  let key: UInt64

  static var mostFields: Int { 1 << 16 }
}

extension ParameterBlock {
  /// Adds the fields of a request as `HTTP_…` parameters, except those that are reserved or not passed.
  ///
  /// Several fields of one name become one parameter, with their values joined as nginx joins them. Of several names
  /// that become one parameter, the name of letters, digits and hyphens is taken, or the first one: what a server in
  /// front of sallyport sets in `X-User`, a client's `X_User` neither replaces nor extends.
  public mutating func addFields(
    of head: OutgoingRequestHead, except reserved: ReservedParameters
  ) throws(ParameterFault) {
    let capacity = head.fieldCount
    guard capacity <= SentField.mostFields else { throw .tooLarge(limit: kind.parameterBytes) }
    let fault: ParameterFault? = withUnsafeTemporaryAllocation(of: SentField.self, capacity: capacity) { memory in
      var count = 0
      head.forEachField { name, value in
        let fingerprint = FieldParameters.fingerprint(name)
        // A field that isn't sent is no other spelling of one that is.
        guard count < capacity, FieldParameters.isPassed(name), !reserved.contains(name, fingerprint) else { return }
        let key = fingerprint << 16 | UInt64(count)
        memory.initializeElement(at: count, to: SentField(name: name, value: value, key: key))
        count += 1
      }
      // With 1000 fields, comparing each with each takes two milliseconds. So those that may be one parameter come to
      // stand together, in their order.
      return withUnsafeTemporaryAllocation(of: UInt64.self, capacity: 2 * count) { numbers in
        let fields = UnsafeBufferPointer(rebasing: memory[..<count])
        for index in 0..<count { numbers.initializeElement(at: index, to: fields[index].key) }
        var keys = UnsafeMutableBufferPointer(rebasing: numbers[..<count])
        keys.sort()
        let starts = UnsafeMutableBufferPointer(rebasing: numbers[count...])
        starts.initialize(repeating: 0)
        var start = 0
        for position in 0..<count {
          if keys[position] >> 16 != keys[start] >> 16 { start = position }
          starts[Int(keys[position] & 0xFFFF)] = UInt64(start)
        }
        do throws(ParameterFault) {
          for index in 0..<count {
            let first = Int(starts[index]), leader = Int(keys[first] & 0xFFFF)
            if leader < index, FieldParameters.areOneParameter(fields[leader].name, fields[index].name) { continue }
            var end = first + 1
            while end < count, keys[end] >> 16 == keys[first] >> 16 { end += 1 }
            try addParameter(of: index, UnsafeBufferPointer(rebasing: UnsafeBufferPointer(keys)[first..<end]), fields)
          }
          return nil
        } catch {
          return error
        }
      }
    }
    if let fault { throw fault }
  }

  /// Adds the parameter of which this field is the first, with the values of all fields of the name that is taken.
  /// `group`: the keys of the fields with the same fingerprint, which are rarely of another parameter too.
  private mutating func addParameter(
    of first: Int, _ group: UnsafeBufferPointer<UInt64>, _ fields: UnsafeBufferPointer<SentField>
  ) throws(ParameterFault) {
    var taken = fields[first].name
    if group.count > 1 {
      var ordinary: UnsafeRawBufferPointer?
      for key in group {
        let index = Int(key & 0xFFFF), name = fields[index].name
        guard FieldParameters.areOneParameter(name, taken) else { continue }
        if index < first { return }
        if ordinary == nil, FieldParameters.isOrdinary(name) { ordinary = name }
      }
      taken = ordinary ?? taken
    }
    var valueCount = -2
    for key in group {
      let field = fields[Int(key & 0xFFFF)]
      if field.name.equalsIgnoringCase(taken) { valueCount += field.value.count + 2 }
    }
    try beginName(FieldParameters.prefix.utf8CodeUnitCount + taken.count, value: valueCount)
    append(fieldName: taken)
    beginValue(valueCount)
    let separator: UInt8 = FieldName.known(taken) == .cookie ? 0x3B : 0x2C
    var isFirst = true
    for key in group {
      let field = fields[Int(key & 0xFFFF)]
      guard field.name.equalsIgnoringCase(taken) else { continue }
      if !isFirst { append(separator: separator) }
      isFirst = false
      append(part: field.value)
    }
    endValue()
  }
}

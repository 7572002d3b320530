internal import Bytes

/// Properties of a message as a whole that the fields of its head determine.
struct MessageFacts {
  var framing = AnnouncedFraming()
  var present = FieldNameSet()
  var host = ByteRange.absent
  /// The known names that more than one field has.
  var repeated = FieldNameSet()
  var options = ConnectionOptions()
  var nominations = Nominations()
  var acceptsTrailers = false
  var expectsContinue = false
  var upgrade: ByteRange?

  init() {}

  /// Recognises the fields of a head, drops the fields that the limits exclude, and reads the values that matter here.
  init(_ list: inout TrivialList<Field>, _ base: UnsafeRawPointer, _ limits: HeadLimits) throws(HeadError) {
    let fields = list.mutableElements
    var kept = 0
    for index in 0..<fields.count {
      var field = fields[index]
      let id = FieldName.known(base + Int(field.name.start), Int(field.name.count))
      if id == .other {
        guard try Self.keeps(base, field.name, limits) else { continue }
      } else if id.isNoted {
        try note(id, base, field.value)
      }
      let name = FieldNameSet().with(id)
      repeated = repeated.union(present.intersection(name))
      present = present.union(name)
      field.id = id
      field.isHopByHop = id.isHopByHop
      fields[kept] = field
      kept &+= 1
    }
    list.truncate(to: kept)
    if !nominations.isEmpty { nominations.mark(list.mutableElements, base) }
  }

  /// Recognises the fields of a trailer section, and drops those that trailers or the limits do not allow.
  static func trailers(_ list: inout TrivialList<Field>, _ base: UnsafeRawPointer, _ limits: HeadLimits)
    throws(HeadError)
  {
    let fields = list.mutableElements
    var kept = 0
    for index in 0..<fields.count {
      let id = FieldName.known(base + Int(fields[index].name.start), Int(fields[index].name.count))
      let isKept = try id == .other ? keeps(base, fields[index].name, limits) : !FieldNameSet.neverTrailer.contains(id)
      guard isKept else { continue }
      fields[kept] = fields[index]
      fields[kept].id = id
      kept += 1
    }
    list.truncate(to: kept)
  }

  /// Reads the value of one field; `present` does not contain the field's name yet.
  mutating func note(_ id: FieldName, _ base: UnsafeRawPointer, _ value: ByteRange) throws(HeadError) {
    switch id {
    case .host: host = value
    case .connection:
      try connection(base, value)
    case .contentLength:
      if present.contains(.contentLength) { throw .repeatedContentLength }
      framing.length = try Self.contentLength(base, value)
      framing.value = value
    case .transferEncoding:
      if present.contains(.transferEncoding) { throw .badTransferEncoding }
      framing.coding = try Self.coding(base, value)
      framing.value = value
    case .te: te(base, value)
    case .upgrade: if upgrade == nil && !value.isEmpty { upgrade = value }
    case .expect: expectsContinue = at(base, value).equalsIgnoringCase("100-continue")
    default: break
    }
  }

  /// Returns whether the parser keeps a field with an unknown name; refuses a name that is not a token.
  private static func keeps(
    _ base: UnsafeRawPointer, _ name: ByteRange, _ limits: HeadLimits
  ) throws(HeadError) -> Bool {
    let start = Int(name.start), end = name.end
    if ByteSet.ordinaryName.containsAll(base, start, end) {
      if start == end { throw .emptyFieldName }
      return true
    }
    var isOrdinary = true
    for index in start..<end {
      let byte = ByteScan.byte(base, index)
      guard ByteSet.token.contains(byte) else { throw .badFieldName }
      if !(ByteSet.ordinaryName.contains(byte) || byte == 0x5F && limits.underscores) { isOrdinary = false }
    }
    if isOrdinary || !limits.ignoreInvalidNames {
      return !FieldNameSet.neverAliased.contains(FieldName.folded(at(base, name)))
    }
    return false
  }

  /// Returns whether the connection stays open after this message (RFC 9112 §9.3).
  func keepsAlive(_ version: HTTPVersion) -> Bool {
    switch version {
    case .http11: !options.contains(.close)
    case .http2: true
    case .http10: options.contains(.keepAlive) && !options.contains(.close)
    }
  }

  /// Refuses a request with two fields of a name that may stand there once only: sallyport could decide by one of the
  /// values, and the upstream by the other.
  func refuseRepeated() throws(HeadError) {
    guard !repeated.subtracting(.repeatable).isEmpty else { return }
    if repeated.contains(.host) { throw .repeatedHost }
    throw repeated.contains(.authorization) ? .repeatedAuthorization : .repeatedField
  }

  /// Refuses a tab around a value that frames or routes a request of HTTP/1. RFC 9110 §5.6.3 allows it, but some servers,
  /// nginx among them, take the tab for a part of the value.
  func refuseTabs(_ base: UnsafeRawPointer) throws(HeadError) {
    if present.contains(.host), Self.hasTab(around: host, base) { throw .badHost }
    if framing.value.count > 0, Self.hasTab(around: framing.value, base) {
      throw framing.length == nil ? .badTransferEncoding : .badContentLength
    }
  }

  /// `base` has the whole field line, so that its colon and its end stop the search.
  private static func hasTab(around value: ByteRange, _ base: UnsafeRawPointer) -> Bool {
    var before = Int(value.start) &- 1
    while ByteScan.byte(base, before) == 0x20 { before &-= 1 }
    var after = value.end
    while ByteScan.byte(base, after) == 0x20 { after &+= 1 }
    return ByteScan.byte(base, before) == 0x09 || ByteScan.byte(base, after) == 0x09
  }

  /// Returns the valid Upgrade value: Connection nominates it, and the version is not HTTP/1.0 (RFC 9110 §7.8).
  func upgrade(_ version: HTTPVersion) -> ByteRange? {
    version == .http11 && options.contains(.upgrade) ? upgrade : nil
  }

  /// Parses Content-Length (RFC 9110 §8.6): digits only, and a number that fits in 63 bits.
  private static func contentLength(_ base: UnsafeRawPointer, _ value: ByteRange) throws(HeadError) -> UInt64 {
    guard !value.isEmpty else { throw .badContentLength }
    var length: UInt64 = 0
    for index in Int(value.start)..<value.end {
      let digit = ByteScan.byte(base, index) &- 48
      guard digit < 10, length <= (1 << 63 - 1 - UInt64(digit)) / 10 else { throw .badContentLength }
      length = length &* 10 &+ UInt64(digit)
    }
    return length
  }

  /// Accepts only a single `chunked` of the codings in RFC 9112 §6.1. A list of tokens with `chunked` nowhere or last
  /// is well-formed but not supported; any other value is malformed.
  private static func coding(
    _ base: UnsafeRawPointer, _ value: ByteRange
  ) throws(HeadError) -> AnnouncedFraming.Coding {
    if at(base, value).equalsIgnoringCase("chunked") { return .chunked }
    var isFinished = false
    var list = ListElements(base, value)
    while let element = list.next() {
      let coding = at(base, element)
      guard !isFinished, !element.isEmpty, ByteSet.token.containsAll(base, Int(element.start), element.end) else {
        throw .badTransferEncoding
      }
      isFinished = coding.equalsIgnoringCase("chunked")
    }
    return .unknown
  }

  private mutating func connection(_ base: UnsafeRawPointer, _ value: ByteRange) throws(HeadError) {
    if let option = ConnectionOptions(base, value) {
      options.formUnion(option)
      return try nominations.countElement()
    }
    var list = ListElements(base, value)
    while let element = list.next() {
      try nominations.countElement()
      if let option = ConnectionOptions(base, element) {
        options.formUnion(option)
      } else if !element.isEmpty {
        try nominations.add(at(base, element))
      }
    }
  }

  private mutating func te(_ base: UnsafeRawPointer, _ value: ByteRange) {
    var list = ListElements(base, value)
    while let element = list.next() {
      if at(base, element).equalsIgnoringCase("trailers") { acceptsTrailers = true }
    }
  }
}

/// The options of the Connection field that concern the connection itself.
struct ConnectionOptions: OptionSet {
  let rawValue: UInt8
  static var close: ConnectionOptions { ConnectionOptions(rawValue: 1) }
  static var keepAlive: ConnectionOptions { ConnectionOptions(rawValue: 2) }
  static var upgrade: ConnectionOptions { ConnectionOptions(rawValue: 4) }

  init(rawValue: UInt8) { self.rawValue = rawValue }

  /// Creates the option that these bytes spell, without case.
  init?(_ base: UnsafeRawPointer, _ element: ByteRange) {
    let bytes = base + Int(element.start), count = Int(element.count)
    switch count {
    case 5 where FoldedName(bytes, count).spells("close"): self = .close
    case 7 where FoldedName(bytes, count).spells("upgrade"): self = .upgrade
    case 10 where FoldedName(bytes, count).spells("keep-alive"): self = .keepAlive
    default: return nil
    }
  }
}

/// The elements of a comma-separated value, without the whitespace around them. Empty elements are included.
struct ListElements {
  private let base: UnsafeRawPointer
  private var at: Int
  private let end: Int

  init(_ base: UnsafeRawPointer, _ value: ByteRange) {
    self.base = base
    at = Int(value.start)
    end = value.end
  }

  mutating func next() -> ByteRange? {
    guard at <= end else { return nil }
    var start = at
    while start < end && isBlank(start) { start += 1 }
    var stop = start
    while stop < end && ByteScan.byte(base, stop) != 0x2C { stop += 1 }
    at = stop + 1
    while stop > start && isBlank(stop - 1) { stop -= 1 }
    return ByteRange(start: start, count: stop - start)
  }

  private func isBlank(_ index: Int) -> Bool {
    let byte = ByteScan.byte(base, index)
    return byte == 0x20 || byte == 0x09
  }
}

@inline(__always)
func at(_ base: UnsafeRawPointer, _ range: ByteRange) -> UnsafeRawBufferPointer {
  UnsafeRawBufferPointer(start: base + Int(range.start), count: Int(range.count))
}

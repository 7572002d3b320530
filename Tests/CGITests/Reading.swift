import Bytes
import CGI
import HTTP

/// A record of a server.
func record(
  _ type: UInt8, _ content: [UInt8], padding: Int = 0, version: UInt8 = 1, request: UInt16 = 1
) -> [UInt8] {
  [
    version, type, UInt8(request >> 8), UInt8(request & 0xFF), UInt8(content.count >> 8), UInt8(content.count & 0xFF),
    UInt8(padding), 0,
  ] + content + Array(repeating: 0xAA, count: padding)
}

func stdout(_ text: String, padding: Int = 0) -> [UInt8] { record(6, Array(text.utf8), padding: padding) }

func end(_ protocolStatus: UInt8 = 0, appStatus: [UInt8] = [0, 0, 0, 0], padding: Int = 0) -> [UInt8] {
  record(3, appStatus + [protocolStatus, 0, 0, 0], padding: padding)
}

/// The records of a request, read as the specification has them, and nothing beside them.
func requestRecords(_ bytes: [UInt8]) -> [(type: UInt8, content: [UInt8])]? {
  var records: [(type: UInt8, content: [UInt8])] = []
  var at = 0
  while at < bytes.count {
    guard at + 8 <= bytes.count, bytes[at] == 1, bytes[at + 2] == 0, bytes[at + 3] == 1 else { return nil }
    let count = Int(bytes[at + 4]) << 8 | Int(bytes[at + 5]), padding = Int(bytes[at + 6])
    guard at + 8 + count + padding <= bytes.count, (count + padding) % 8 == 0 else { return nil }
    records.append((bytes[at + 1], Array(bytes[at + 8..<at + 8 + count])))
    at += 8 + count + padding
  }
  return records
}

/// Names and values of FastCGI.
func pairs(_ bytes: [UInt8]) -> [String]? {
  var pairs: [String] = []
  var at = 0
  func length() -> Int? {
    guard at < bytes.count else { return nil }
    defer { at += bytes[at] < 128 ? 1 : 4 }
    if bytes[at] < 128 { return Int(bytes[at]) }
    guard at + 4 <= bytes.count else { return nil }
    return bytes[at..<at + 4].reduce(0) { $0 << 8 | Int($1) } & 0x7FFF_FFFF
  }
  while at < bytes.count {
    guard let name = length(), let value = length(), at + name + value <= bytes.count else { return nil }
    let text = { String(decoding: bytes[$0..<$1], as: UTF8.self) }
    pairs.append("\(text(at, at + name))=\(text(at + name, at + name + value))")
    at += name + value
  }
  return pairs
}

func withBytes<Result>(_ text: String, _ body: (UnsafeRawBufferPointer) -> Result) -> Result {
  Array(text.utf8).withUnsafeBytes(body)
}

extension ParameterBlock {
  mutating func add(_ name: String, _ value: String) throws(ParameterFault) {
    let name = Array(name.utf8), value = Array(value.utf8)
    let result = name.withUnsafeBytes { name in
      value.withUnsafeBytes { value in Result { () throws(ParameterFault) in try add(name, value) } }
    }
    try result.get()
  }

  /// All that goes before the body.
  func head(contentLength: UInt64 = 0) -> [UInt8] {
    var output = ByteBuffer()
    kind.appendHead(parameters: bytes, contentLength: contentLength, to: &output)
    return Array(output.readable)
  }
}

extension ParameterBlock {
  /// Adds the fields of a client's head, without those of its connection.
  mutating func addFields(of head: RequestHead, except reserved: ReservedParameters = .init()) throws(ParameterFault) {
    let outgoing = OutgoingRequestHead()
    // It refers to the client's head without retaining it.
    defer { withExtendedLifetime(head) { outgoing.reset(over: nil) } }
    outgoing.reset(over: head)
    for field in head.fields where !field.isHopByHop { outgoing.forward(field) }
    try addFields(of: outgoing, except: reserved)
  }
}

/// A request's head; underscores and dots in names are kept.
func requestHead(_ fields: String) -> RequestHead {
  let head = RequestHead()
  var parser = HeadParser()
  let outcome = withBytes("POST / HTTP/1.1\r\nHost: z\r\n\(fields)\r\n") {
    parser.request($0, limits: HeadLimits(ignoreInvalidNames: false, underscores: true), into: head)
  }
  if case .complete = outcome { return head }
  preconditionFailure("\(outcome)")
}

/// A program's response head as plain values.
struct ReadHead: Equatable {
  var outcome = HeadOutcome.incomplete
  var status: UInt16 = 0
  var reason = ""
  var fields: [String] = []
  var framing = BodyFraming.none
  var announcedLength: UInt64?

  /// Reads `bytes` as they arrive, up to each of `ends` in turn.
  init(
    _ bytes: [UInt8], ends: [Int]? = nil, to method: Method = .get, of start: ResponseStart = .statusLineOrFields,
    limits: HeadLimits = HeadLimits(), into head: ResponseHead = ResponseHead()
  ) {
    var parser = HeadParser()
    for end in ends ?? [bytes.count] {
      // A copy of its own each time: nothing may be kept from one call to the next.
      outcome = Array(bytes[..<end]).withUnsafeBytes {
        parser.response($0, limits: limits, requestMethod: method, startsWith: start, into: head)
      }
      if outcome != .incomplete { break }
    }
    guard case .complete = outcome else { return }
    let known = head.bytes.readable
    status = head.status
    reason = known[head.reason].text
    fields = head.fields.filter { !$0.isHopByHop }.map { "\(known[$0.name].text): \(known[$0.value].text)" }
    framing = head.framing
    announcedLength = head.announcedLength
  }

  init(
    _ text: String, to method: Method = .get, of start: ResponseStart = .statusLineOrFields,
    limits: HeadLimits = HeadLimits(), into head: ResponseHead = ResponseHead()
  ) {
    self.init(Array(text.utf8), to: method, of: start, limits: limits, into: head)
  }

  var error: HeadError? { if case .failed(let error) = outcome { error } else { nil } }
}

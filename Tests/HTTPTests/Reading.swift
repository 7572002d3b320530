import Bytes
import HTTP

/// A request head as plain values, to compare and to print.
struct ReadRequest: Equatable {
  var outcome: HeadOutcome
  var method = ""
  var target = ""
  var path = ""
  var query: String?
  var form = RequestTarget.Form.origin
  var version = HTTPVersion.http11
  var fields: [String] = []
  var hopByHop: [String] = []
  var framing = BodyFraming.none
  var keepsAlive = false
  var expectsContinue = false
  var upgrade: String?
  var host = ""
  var port: UInt16?
  var acceptsTrailers = false

  init(_ outcome: HeadOutcome, _ head: RequestHead) {
    self.outcome = outcome
    guard case .complete = outcome else { return }
    let bytes = head.bytes.readable
    method = bytes[head.methodRange].text
    target = bytes[head.target.raw].text
    path = bytes[head.target.path].text
    query = head.target.query.map { bytes[$0].text }
    form = head.target.form
    version = head.version
    fields = head.fields.map { "\(bytes[$0.name].text): \(bytes[$0.value].text)" }
    hopByHop = head.fields.filter(\.isHopByHop).map { bytes[$0.name].text }
    framing = head.framing
    keepsAlive = head.keepsAlive
    expectsContinue = head.expectsContinue
    upgrade = head.upgrade.map { bytes[$0].text }
    host = bytes[head.host].text
    port = head.port
    acceptsTrailers = head.acceptsTrailers
  }
}

/// A response head as plain values.
struct ReadResponse: Equatable {
  var outcome: HeadOutcome
  var status: UInt16 = 0
  var reason = ""
  var fields: [String] = []
  var framing = BodyFraming.none
  var announcedLength: UInt64?
  var keepsAlive = false
  var upgrade: String?
  var isInterim = false

  init(_ outcome: HeadOutcome, _ head: ResponseHead) {
    self.outcome = outcome
    guard case .complete = outcome else { return }
    let bytes = head.bytes.readable
    status = head.status
    reason = bytes[head.reason].text
    fields = head.fields.map { "\(bytes[$0.name].text): \(bytes[$0.value].text)" }
    framing = head.framing
    announcedLength = head.announcedLength
    keepsAlive = head.keepsAlive
    upgrade = head.upgrade.map { bytes[$0].text }
    isInterim = head.isInterim
  }
}

func request(_ text: String, limits: HeadLimits = HeadLimits(), head: RequestHead = RequestHead()) -> ReadRequest {
  var parser = HeadParser()
  return Array(text.utf8).withUnsafeBytes { bytes in
    ReadRequest(parser.request(bytes, limits: limits, into: head), head)
  }
}

func request(fields: String, version: String = "1.1", limits: HeadLimits = HeadLimits()) -> ReadRequest {
  request("POST / HTTP/\(version)\r\nHost: a\r\n\(fields)\r\n", limits: limits)
}

func response(_ text: String, to method: Method = .get, limits: HeadLimits = HeadLimits()) -> ReadResponse {
  var parser = HeadParser()
  let head = ResponseHead()
  return Array(text.utf8).withUnsafeBytes { bytes in
    ReadResponse(parser.response(bytes, limits: limits, requestMethod: method, into: head), head)
  }
}

/// The kind of refusal, or nil.
func refusal(_ read: ReadRequest) -> HeadError? {
  if case .failed(let error) = read.outcome { error } else { nil }
}

func refusal(_ read: ReadResponse) -> HeadError? {
  if case .failed(let error) = read.outcome { error } else { nil }
}

func isComplete(_ outcome: HeadOutcome) -> Bool {
  if case .complete = outcome { true } else { false }
}

/// Reads a request from pieces: what came of the last call, and the head.
func requestInPieces(_ bytes: [UInt8], ends: [Int], limits: HeadLimits = HeadLimits()) -> ReadRequest {
  var parser = HeadParser()
  let head = RequestHead()
  var outcome = HeadOutcome.incomplete
  for end in ends {
    // A copy of its own each time: nothing may be kept from one call to the next.
    outcome = Array(bytes[..<end]).withUnsafeBytes { parser.request($0, limits: limits, into: head) }
    if outcome != .incomplete { break }
  }
  return ReadRequest(outcome, head)
}

func responseInPieces(_ bytes: [UInt8], ends: [Int], to method: Method = .get) -> ReadResponse {
  var parser = HeadParser()
  let head = ResponseHead()
  var outcome = HeadOutcome.incomplete
  for end in ends {
    outcome = Array(bytes[..<end]).withUnsafeBytes {
      parser.response($0, limits: HeadLimits(), requestMethod: method, into: head)
    }
    if outcome != .incomplete { break }
  }
  return ReadResponse(outcome, head)
}

/// What came of a body.
struct ReadBody: Equatable {
  enum Result: Equatable {
    case ended, incomplete
    case failed(BodyError)
  }
  var data: [UInt8] = []
  var result = Result.incomplete
  /// Bytes that belong to it.
  var consumed = 0
  var trailers: [String] = []
}

/// Reads a body whose bytes arrive up to each of `ends` in turn.
func body(_ bytes: [UInt8], _ framing: BodyFraming = .chunked, ends: [Int]? = nil) -> ReadBody {
  var decoder = BodyDecoder(framing)
  var read = ReadBody()
  for end in ends ?? [bytes.count] {
    piece: while true {
      let window = Array(bytes[read.consumed..<end])
      switch window.withUnsafeBytes({ decoder.next($0) }) {
      case .needsMore(let consumed):
        read.consumed += consumed
        break piece
      case .data(let start, let count, let consumed):
        read.data += window[start..<start + count]
        read.consumed += consumed
      case .end(let consumed):
        read.consumed += consumed
        read.result = .ended
        if let trailers = decoder.trailers {
          trailers.bytes.withUnsafeBytes { bytes in
            read.trailers = trailers.fields.map { "\(bytes[$0.name].text): \(bytes[$0.value].text)" }
          }
        }
        return read
      case .failed(let error):
        read.result = .failed(error)
        return read
      }
    }
  }
  return read
}

func chunked(_ text: String) -> ReadBody { body(Array(text.utf8)) }

func withBytes<Result>(_ text: String, _ body: (UnsafeRawBufferPointer) -> Result) -> Result {
  Array(text.utf8).withUnsafeBytes(body)
}

/// The values that a head's fields give nginx's `$http_NAME`.
func variable(_ name: String, of head: RequestHead) -> String {
  var value = ByteBuffer()
  withBytes(name) { head.append(variableName: $0, to: &value) }
  return value.readable.text
}

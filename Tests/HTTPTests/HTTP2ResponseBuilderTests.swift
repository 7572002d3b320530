import Bytes
import HTTP
import Testing

/// What `HTTP2ResponseBuilder` makes of the fields of one header block.
private struct BuiltResponse: Equatable {
  var status: UInt16 = 0
  var fields: [String] = []
  var framing = BodyFraming.none
  var announced: UInt64?
  var error: HeadError?

  init(
    _ fields: [(String, String)], endsStream: Bool = false, method: HTTP.Method = .get,
    limits: HeadLimits = HeadLimits()
  ) {
    var builder = HTTP2ResponseBuilder()
    let head = ResponseHead()
    builder.begin(head, limits: limits)
    for (name, value) in fields {
      Array(name.utf8).withUnsafeBytes { name in
        Array(value.utf8).withUnsafeBytes { value in builder.add(name, value, to: head) }
      }
    }
    do throws(HeadError) {
      try builder.finish(head, endsStream: endsStream, to: method)
    } catch {
      self.error = error
      return
    }
    let bytes = head.bytes.readable
    status = head.status
    self.fields = head.fields.map {
      "\(String(decoding: bytes[$0.name], as: UTF8.self)): \(String(decoding: bytes[$0.value], as: UTF8.self))"
    }
    framing = head.framing
    announced = head.announcedLength
  }
}

@Suite struct `A response head made of a header block` {
  private static let ok = [(":status", "200")]

  @Test func `has the status and the fields in order`() {
    let built = BuiltResponse(Self.ok + [("x-b", "1"), ("x-a", ""), ("x-b", "\u{e4} \t z"), ("set-cookie", "a=1")])
    #expect(built.error == nil && built.status == 200)
    #expect(built.fields == ["x-b: 1", "x-a: ", "x-b: \u{e4} \t z", "set-cookie: a=1"])
  }

  @Test func `is framed by the end of the stream and the length`() {
    let length = Self.ok + [("content-length", "5")], none = Self.ok + [("content-length", "0")]
    #expect(BuiltResponse(Self.ok).framing == .chunked)
    #expect(BuiltResponse(Self.ok, endsStream: true).framing == .length(0))
    #expect(BuiltResponse(length).framing == .length(5))
    #expect(BuiltResponse(length, endsStream: true).error == .badContentLength)
    #expect(BuiltResponse(none, endsStream: true).framing == .length(0))
    for endsStream in [true, false] {
      let head = BuiltResponse(length, endsStream: endsStream, method: .head)
      #expect(head.framing == .none && head.announced == 5)
      let notModified = BuiltResponse([(":status", "304"), ("content-length", "5")], endsStream: endsStream)
      #expect(notModified.framing == .none && notModified.announced == 5)
      #expect(BuiltResponse([(":status", "204")], endsStream: endsStream).framing == .none)
    }
  }

  @Test func `an interim response may have no field`() {
    for status in ["100", "102", "103", "199"] {
      let built = BuiltResponse([(":status", status)])
      #expect(built.error == nil && built.framing == .none && built.fields.isEmpty)
    }
  }

  @Test(arguments: [
    "", "0", "2", "20", "2000", " 200", "200 ", "2x0", "-20", "+20", "099", "000", "101", "\u{0662}00", "20\0",
  ])
  func `a status that is none is refused`(status: String) {
    #expect(BuiltResponse([(":status", status)]).error == .badStatusLine)
  }

  @Test func `one status comes before all fields, and no other pseudo-field`() {
    #expect(BuiltResponse([]).error == .missingPseudoField)
    #expect(BuiltResponse([("x-a", "b")]).error == .missingPseudoField)
    #expect(BuiltResponse(Self.ok + Self.ok).error == .repeatedPseudoField)
    #expect(BuiltResponse([("x-a", "b")] + Self.ok).error == .badPseudoField)
    for name in [":", ":path", ":Status", ":status2", ":statu"] {
      #expect(BuiltResponse(Self.ok + [(name, "200")]).error == .badPseudoField, "\(name)")
    }
  }

  @Test(arguments: [
    "connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade", "te",
  ])
  func `a field of a connection is refused`(name: String) {
    #expect(BuiltResponse(Self.ok + [(name, "trailers")]).error == .connectionSpecificField)
  }

  @Test func `names are tokens in lower case, and values end no line`() {
    #expect(BuiltResponse(Self.ok + [("", "x")]).error == .emptyFieldName)
    for name in ["X-a", "x-A", "x a", "x:a", "x\r\na", "x\0", "\u{e4}", "x,"] {
      #expect(BuiltResponse(Self.ok + [(name, "x")]).error == .badFieldName, "\(name)")
    }
    for value in ["a\r\nb: c", "a\nb", "a\rb", "a\0b", "a\u{7f}", "\u{1}"] {
      #expect(BuiltResponse(Self.ok + [("x", value)]).error != nil, "\(value)")
    }
    for value in [" a", "a ", "\ta", "a\t"] {
      #expect(BuiltResponse(Self.ok + [("x", value)]).error == .whitespaceAroundValue, "\(value)")
    }
  }

  @Test func `lengths that differ or are none are refused`() {
    for lengths in [["1", "2"], ["x"], ["-1"], ["1,2"], [""], ["18446744073709551616"]] {
      #expect(BuiltResponse(Self.ok + lengths.map { ("content-length", $0) }).error != nil, "\(lengths)")
    }
  }

  @Test func `keeps the limits of a head`() {
    var limits = HeadLimits()
    limits.lineBytes = 100
    limits.headBytes = 250
    limits.fields = 3
    let small = ("x", "y"), large = ("x", String(repeating: "y", count: 95))
    #expect(BuiltResponse(Self.ok + [small, small, small], limits: limits).error == nil)
    #expect(BuiltResponse(Self.ok + [small, small, small, small], limits: limits).error == .tooManyFields)
    #expect(BuiltResponse(Self.ok + [large], limits: limits).error == nil)
    #expect(BuiltResponse(Self.ok + [("xx", large.1)], limits: limits).error == .fieldTooLarge)
    #expect(BuiltResponse(Self.ok + [large, large, large], limits: limits).error == .headTooLarge)
  }

  @Test func `the first error stays, whatever follows`() {
    #expect(BuiltResponse(Self.ok + [("X", "y"), ("connection", "close"), (":path", "/")]).error == .badFieldName)
  }
}

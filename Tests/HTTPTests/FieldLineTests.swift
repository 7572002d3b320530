import Bytes
import HTTP
import Testing

@Suite struct `Field lines` {
  @Test func `whitespace around a value is not part of it`() {
    #expect(
      request(fields: "X-A:  \t b c \t \r\nX-B:\r\nX-C: \t\r\n").fields == ["Host: a", "X-A: b c", "X-B: ", "X-C: "])
  }

  @Test func `a bare CR in a field value is refused`() {
    #expect(refusal(request(fields: "X: a\rb\r\n")) == .bareCarriageReturn)
    #expect(refusal(request(fields: "X: a\r\r\n")) == .bareCarriageReturn)
  }

  @Test func `a bare CR in a field name or in place of the empty line is refused`() {
    #expect(refusal(request(fields: "X\rY: a\r\n")) == .bareCarriageReturn)
    #expect(refusal(request(fields: "\rX: a\r\n")) == .bareCarriageReturn)
  }

  @Test func `a bare CR in the request line is refused`() {
    #expect(refusal(request("GET /\r HTTP/1.1\r\nHost: h\r\n\r\n")) == .bareCarriageReturn)
    #expect(refusal(request("GET / HTTP/1.1\rHost: h\r\n\r\n")) == .bareCarriageReturn)
  }

  @Test(arguments: [
    "GE\0T / HTTP/1.1\r\nHost: h\r\n\r\n", "GET /\0 HTTP/1.1\r\nHost: h\r\n\r\n", "GET / HTTP\0/1.1\r\nHost: h\r\n\r\n",
    "GET / HTTP/1.1\0\r\nHost: h\r\n\r\n", "GET / HTTP/1.1\r\nHo\0st: h\r\n\r\n", "GET / HTTP/1.1\r\nHost: h\0\r\n\r\n",
    "GET / HTTP/1.1\r\n\0Host: h\r\n\r\n", "GET / HTTP/1.1\r\nHost: h\r\n\0\r\n",
  ])
  func `a NUL anywhere in a head is refused`(text: String) {
    #expect(refusal(request(text)) == .nul)
  }

  @Test func `a folded line is refused`() {
    #expect(refusal(request(fields: "X: a\r\n b\r\n")) == .lineFolding)
    #expect(refusal(request(fields: "X: a\r\n\tb\r\n")) == .lineFolding)
    #expect(refusal(request(fields: "X: a\r\n \r\n")) == .lineFolding)
  }

  @Test func `whitespace before the first field is refused`() {
    #expect(refusal(request("GET / HTTP/1.1\r\n Host: h\r\n\r\n")) == .whitespaceBeforeFirstField)
    #expect(refusal(request("GET / HTTP/1.1\r\n\tHost: h\r\n\r\n")) == .whitespaceBeforeFirstField)
  }

  @Test func `whitespace between name and colon is refused`() {
    #expect(refusal(request(fields: "X : a\r\n")) == .whitespaceBeforeColon)
    #expect(refusal(request(fields: "X\t: a\r\n")) == .whitespaceBeforeColon)
  }

  @Test func `an empty field name is refused`() {
    #expect(refusal(request(fields: ": a\r\n")) == .emptyFieldName)
  }

  @Test func `a line without a colon is refused`() {
    #expect(refusal(request(fields: "abc\r\n")) == .missingColon)
    #expect(refusal(request(fields: "abc\n")) == .missingColon)
  }

  @Test(arguments: ["X(", "X\"", "Xé", "X/", "X[", "X@", "X=", "X,", "X;", "X{"])
  func `a field name that is no token is refused`(name: String) {
    for ignoring in [true, false] {
      #expect(
        refusal(request(fields: "\(name): a\r\n", limits: HeadLimits(ignoreInvalidNames: ignoring))) == .badFieldName)
    }
  }

  @Test(arguments: (1...31).filter { $0 != 9 && $0 != 10 && $0 != 13 } + [127])
  func `a control character in a value is refused`(code: Int) throws {
    let character = try #require(Unicode.Scalar(code))
    for padding in ["", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaa"] {
      #expect(refusal(request(fields: "X: \(padding)\(character)b\r\n")) == .controlCharacter)
    }
  }

  @Test func `a tab and bytes above ASCII may stand in a value`() {
    #expect(request(fields: "X: a\tb\u{e9}\r\n").fields.last == "X: a\tb\u{e9}")
  }

  @Test func `a bare LF ends a line of a head`() {
    let read = request("GET / HTTP/1.1\nHost: h\nX: y\n\nrest")
    #expect(read.outcome == .complete(consumed: 29))
    #expect(read.fields == ["Host: h", "X: y"])
  }

  @Test func `an unusual name is dropped, or kept when invalid names are not ignored`() {
    let fields = "X_A: 1\r\nX.B: 2\r\nX-C: 3\r\nX!: 4\r\n"
    #expect(request(fields: fields).fields == ["Host: a", "X-C: 3"])
    #expect(request(fields: fields, limits: HeadLimits(underscores: true)).fields == ["Host: a", "X_A: 1", "X-C: 3"])
    #expect(
      request(fields: fields, limits: HeadLimits(ignoreInvalidNames: false)).fields
        == ["Host: a", "X_A: 1", "X.B: 2", "X-C: 3", "X!: 4"])
  }

  @Test func `a dropped field must be well-formed all the same`() {
    #expect(refusal(request(fields: "X_A: \u{1}\r\n")) == .controlCharacter)
  }

  @Test func `a field line longer than allowed is refused`() {
    let limits = HeadLimits(lineBytes: 40)
    let long = String(repeating: "a", count: 40)
    #expect(refusal(request(fields: "X: \(long)\r\n", limits: limits)) == .fieldTooLarge)
    #expect(refusal(request("GET / HTTP/1.1\r\nX: \(long)", limits: limits)) == .fieldTooLarge)
    #expect(isComplete(request(fields: "X: \(long.prefix(35))\r\n", limits: limits).outcome))
    #expect(refusal(request(fields: "X: \(long.prefix(36))\r\n", limits: limits)) == .fieldTooLarge)
  }

  @Test func `a head larger than allowed is refused`() {
    let fields = String(repeating: "X: aaaaaaaaaaaaaaaaaaa\r\n", count: 10)
    #expect(refusal(request(fields: fields, limits: HeadLimits(headBytes: 200))) == .headTooLarge)
    #expect(refusal(request("GET / HTTP/1.1\r\n\(fields)", limits: HeadLimits(headBytes: 200))) == .headTooLarge)
  }

  @Test func `more fields than allowed are refused, dropped ones counted`() {
    let limits = HeadLimits(fields: 4)
    #expect(isComplete(request(fields: "A: 1\r\nB: 1\r\nC_: 1\r\n", limits: limits).outcome))
    #expect(refusal(request(fields: "A: 1\r\nB: 1\r\nC_: 1\r\nD: 1\r\n", limits: limits)) == .tooManyFields)
    let many = String(repeating: "A: 1\r\n", count: 1000)
    #expect(refusal(request(fields: many)) == .tooManyFields)
  }

  @Test func `known names are found in any letter case, and only whole`() {
    #expect(withBytes("content-length", FieldName.known) == .contentLength)
    #expect(withBytes("CONTENT-LENGTH", FieldName.known) == .contentLength)
    #expect(withBytes("If-Unmodified-Since", FieldName.known) == .ifUnmodifiedSince)
    #expect(withBytes("tE", FieldName.known) == .te)
    #expect(withBytes("Age", FieldName.known) == .age)
    #expect(withBytes("Content_Length", FieldName.known) == .other)
    #expect(withBytes("content\rlength", FieldName.known) == .other)
    #expect(withBytes("Content-Lengt", FieldName.known) == .other)
    #expect(withBytes("", FieldName.known) == .other)
    #expect(withBytes("X-Accel-Limit-Rate", FieldName.known) == .xAccelLimitRate)
    #expect(withBytes("X-Accel-Limit-Rat`", FieldName.known) == .other)
    #expect(withBytes("\u{48}oS\u{14}", FieldName.known) == .other)
  }

  @Test func `fields are found by name and by variable name`() {
    let head = RequestHead()
    _ = request("GET / HTTP/1.1\r\nHost: h\r\nX-Thing-One: 1\r\nAccept: a\r\n\r\n", head: head)
    #expect(head.first(.accept).map { head.bytes.readable[$0.value].text } == "a")
    #expect(head.first(.cookie) == nil)
    #expect(withBytes("x-thing-one", head.value(named:)).map { head.bytes.readable[$0].text } == "1")
    #expect(variable("x_thing_one", of: head) == "1")
    #expect(withBytes("x_thing_one", head.value(named:)) == nil)
    #expect(variable("x_thing", of: head) == "")
  }
}

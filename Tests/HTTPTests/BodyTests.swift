import Bytes
import HTTP
import Testing

@Suite struct `Bodies` {
  @Test func `a body of known length ends there`() {
    let read = body(Array("hello, next".utf8), .length(5))
    #expect(read.data == Array("hello".utf8))
    #expect(read.result == .ended)
    #expect(read.consumed == 5)
    #expect(body(Array("hell".utf8), .length(5)).result == .incomplete)
    #expect(body(Array("x".utf8), .length(0)) == ReadBody(result: .ended))
    #expect(body(Array("x".utf8), .none) == ReadBody(result: .ended))
  }

  @Test func `a body until the close takes all`() {
    let read = body(Array("hello".utf8), .untilClose)
    #expect(read.data == Array("hello".utf8))
    #expect(read.result == .incomplete)
  }

  @Test func `the end of the transport is judged by the framing`() {
    #expect(BodyDecoder(.untilClose).atEndOfStream() == .complete)
    #expect(BodyDecoder(.none).atEndOfStream() == .complete)
    #expect(BodyDecoder(.length(0)).atEndOfStream() == .complete)
    #expect(BodyDecoder(.length(1)).atEndOfStream() == .truncated)
    #expect(BodyDecoder(.chunked).atEndOfStream() == .truncated)
    var decoder = BodyDecoder(.chunked)
    _ = withBytes("0\r\n") { decoder.next($0) }
    #expect(decoder.atEndOfStream() == .truncated)
    _ = withBytes("\r\n") { decoder.next($0) }
    #expect(decoder.atEndOfStream() == .complete)
  }

  @Test func `chunks are joined and the next message is left`() {
    let read = chunked("5\r\nhello\r\n00a\r\n, chunked \r\n0\r\n\r\nGET /")
    #expect(read.data == Array("hello, chunked ".utf8))
    #expect(read.result == .ended)
    #expect(read.consumed == 32)
  }

  @Test func `extensions are dropped`() {
    let read = chunked("5;a=b;c=\"d;e\"\r\nhello\r\n0 \t;x\r\n\r\n")
    #expect(read.data == Array("hello".utf8))
    #expect(read.result == .ended)
  }

  @Test func `extensions are bounded`() {
    let long = String(repeating: "x", count: 255)
    #expect(chunked("0;\(long)\r\n\r\n").result == .ended)
    #expect(chunked("0;\(long)x\r\n\r\n").result == .failed(.chunkExtensionTooLong))
    #expect(chunked("0\(String(repeating: " ", count: 300))").result == .failed(.chunkExtensionTooLong))
  }

  @Test(arguments: [
    "\r\n", ";x\r\n", "g\r\n", "-1\r\n", "+1\r\n", "0x1\r\n", " 1\r\n", "\t1\r\n", "1 \r\n", "1\t\r\n", "1 1\r\n",
    "1 a\r\n", "8000000000000000\r\n", "ffffffffffffffff\r\n", "00000000000000001\r\n", "1\u{b}\r\n", "1\0\r\n",
    "1,\r\n",
    "1_0\r\n", "é\r\n",
  ])
  func `a bad chunk size is refused`(text: String) {
    #expect(chunked(text).result == .failed(.badChunkSize))
  }

  @Test func `the largest chunk size is taken`() {
    #expect(chunked("7fffffffffffffff\r\nab").data == Array("ab".utf8))
    #expect(chunked("7FFFFFFFFFFFFFFF\r\nab").data == Array("ab".utf8))
    #expect(chunked("0000000000000002\r\nab\r\n0\r\n\r\n").result == .ended)
  }

  @Test(arguments: [
    "5\nhello\r\n0\r\n\r\n", "5;a\nhello\r\n0\r\n\r\n", "5\r\nhello\n0\r\n\r\n", "0\r\n\n", "0\n\r\n",
    "0\r\nX: y\n\r\n",
    "0\r\nX: y\r\n\n",
  ])
  func `a bare LF in chunked framing is refused`(text: String) {
    #expect(chunked(text).result == .failed(.bareLineFeed))
  }

  @Test(arguments: ["5\rhello", "5;a\rb\r\n", "5\r\nhello\rX"])
  func `a bare CR in chunked framing is refused`(text: String) {
    #expect(chunked(text).result == .failed(.bareCarriageReturn))
  }

  @Test(arguments: ["5;\0\r\n", "5;\u{1}\r\n", "5;\u{7f}\r\n"])
  func `a control character in an extension is refused`(text: String) {
    #expect(chunked(text).result == .failed(.controlCharacter))
  }

  @Test func `data longer than its chunk is refused`() {
    #expect(chunked("5\r\nhello!\r\n").result == .failed(.badChunkEnd))
  }

  @Test func `a failure is final`() {
    var decoder = BodyDecoder(.chunked)
    #expect(withBytes("x") { decoder.next($0) } == .failed(.badChunkSize))
    #expect(withBytes("0\r\n\r\n") { decoder.next($0) } == .failed(.badChunkSize))
    #expect(decoder.atEndOfStream() == .truncated)
  }

  @Test func `trailers are read, without those that have no place there`() {
    let read = chunked(
      "1\r\na\r\n0\r\nX-Sum: 1 \r\nContent-Length: 5\r\nHost: h\r\nTransfer-Encoding: x\r\nAuthorization: a\r\n"
        + "Set-Cookie: c\r\nX_Y: z\r\nX-Last:\r\n\r\nGET")
    #expect(read.result == .ended)
    #expect(read.trailers == ["X-Sum: 1", "X-Last: "])
  }

  @Test(arguments: [
    ("X : y\r\n", HeadError.whitespaceBeforeColon), ("X: a\r\n b\r\n", .lineFolding),
    (" X: y\r\n", .whitespaceBeforeFirstField),
    ("X\r\n", .missingColon), (": y\r\n", .emptyFieldName), ("X: \0\r\n", .nul), ("X: a\rb\r\n", .bareCarriageReturn),
    ("X: \u{1}\r\n", .controlCharacter), ("X(: y\r\n", .badFieldName),
  ])
  func `a bad trailer is refused`(text: String, error: HeadError) {
    #expect(chunked("0\r\n\(text)\r\n").result == .failed(.badTrailer(error)))
  }

  @Test func `trailers are bounded`() {
    let long = "X: " + String(repeating: "a", count: 8000) + "\r\n"
    #expect(chunked("0\r\n\(long)\r\n").result == .ended)
    #expect(chunked("0\r\n\(long)\(long)").result == .failed(.trailersTooLarge))
    #expect(chunked("0\r\n" + String(repeating: "a", count: 9000)).result == .failed(.trailersTooLarge))
    #expect(chunked("0\r\n" + String(repeating: "A: 1\r\n", count: 101) + "\r\n").result == .failed(.trailersTooLarge))
  }

  @Test func `what the writer writes the decoder reads`() {
    var output = ByteBuffer()
    withBytes("hello") { ChunkedWriter.append(chunk: $0, to: &output) }
    withBytes("") { ChunkedWriter.append(chunk: $0, to: &output) }
    ChunkedWriter.append(size: 300, to: &output)
    output.append([UInt8](repeating: 7, count: 300))
    ChunkedWriter.endChunk(to: &output)
    var decoder = BodyDecoder(.chunked)
    while case .needsMore(let consumed) = withBytes("0\r\nX-A: b\r\n\r\n", { decoder.next($0) }), consumed > 0 {}
    ChunkedWriter.lastChunk(decoder.trailers, to: &output)
    let read = body(Array(output.readable))
    #expect(read.data == Array("hello".utf8) + [UInt8](repeating: 7, count: 300))
    #expect(read.trailers == ["X-A: b"])
    #expect(read.consumed == output.count)
  }
}

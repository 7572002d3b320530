import HTTP
import Testing

/// Each row is read in two ways by some pair of servers; here each is refused, and the connection closed.
@Suite struct `Smuggling` {
  @Test(arguments: [
    // CL.TE and TE.CL
    "Content-Length: 6\r\nTransfer-Encoding: chunked", "Transfer-Encoding: chunked\r\nContent-Length: 6",
    "Content-Length: 6\r\ntransfer-encoding: Chunked", "Content-Length: 0\r\nTransfer-Encoding: chunked",
    // CL.CL
    "Content-Length: 5\r\nContent-Length: 6", "Content-Length: 5, 6", "Content-Length: 5\r\nContent-length: 5",
    "Content-Length: 5 6", "Content-Length : 5", "Content-Length\t: 5", "Content-Length:\u{b}5",
    "Content-Length: 5\u{c}",
    "Content-Length: +5", "Content-Length: 0x5", "Content-Length: 5;", "Content-Length:", "Content-Length: 5\r\n 6",
    // A tab, which nginx takes for a part of the value
    "Content-Length:\t5", "Content-Length: 5\t", "Content-Length: \t 5", "Content-Length: 5 \t ",
    "Transfer-Encoding:\tchunked", "Transfer-Encoding: chunked\t",
    // TE.TE
    "Transfer-Encoding : chunked", "Transfer-Encoding\t: chunked", "Transfer-Encoding: xchunked",
    "Transfer-Encoding: chunked, identity", "Transfer-Encoding: identity, chunked",
    "Transfer-Encoding: chunked, chunked",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: x", "Transfer-Encoding: x\r\nTransfer-Encoding: chunked",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "Transfer-Encoding:\u{b}chunked",
    "Transfer-Encoding: \u{c}chunked", "Transfer-Encoding: chunked\u{b}", "Transfer-Encoding: chunked;a=b",
    "Transfer-Encoding:\r\n chunked", "Transfer-Encoding: chu\r\n nked", "Transfer-Encoding: \"chunked\"",
    "Transfer-Encoding: 'chunked'", "Transfer-Encoding: chunked\rX: y", "Transfer-Encoding: chunked\0",
    "Transfer-Encoding: \0chunked", "Transfer-Encoding:", "Transfer-Encoding: ,chunked", "Transfer-Encoding: chunked,",
    "Transfer-Encoding: chunked gzip", "Transfer-Encoding: cow", "Transfer-Encoding: \u{ff}chunked",
    " Transfer-Encoding: chunked", "X: y\r\n Transfer-Encoding: chunked", "X: y\rTransfer-Encoding: chunked",
    "\u{1}Transfer-Encoding: chunked", "Transfer\0-Encoding: chunked", "Transfer-Encoding\0: chunked",
    "Transfer-Encoding\r\n: chunked", "X\rTransfer-Encoding: chunked", ":Transfer-Encoding: chunked",
    "\"Transfer-Encoding\": chunked", "Transfer-Encoding", "\u{a0}Transfer-Encoding: chunked",
  ])
  func `an ambiguous request is refused`(fields: String) {
    #expect(refusal(request("POST / HTTP/1.1\r\nHost: h\r\n\(fields)\r\n\r\n")) != nil)
    #expect(refusal(request("POST / HTTP/1.1\r\n\(fields)\r\nHost: h\r\n\r\n")) != nil)
  }

  @Test(arguments: [
    "Transfer_Encoding: chunked", "Transfer.Encoding: chunked", "Content_Length: 5", "Transfer-Encoding-: chunked",
  ])
  func `a look-alike name frames nothing and is not forwarded under a framing name`(fields: String) {
    let read = request("POST / HTTP/1.1\r\nHost: h\r\n\(fields)\r\n\r\n")
    #expect(isComplete(read.outcome))
    #expect(read.framing == .none)
  }

  @Test(arguments: ["GET", "HEAD", "DELETE"])
  func `a body on a method that expects none is framed all the same, in HTTP 1.0 too`(method: String) {
    func asked(_ version: String) -> ReadRequest {
      request("\(method) / HTTP/\(version)\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc")
    }
    #expect(asked("1.1").framing == .length(3))
    #expect(asked("1.0").framing == .length(3))
    // A sender that takes the body for its next request gets no response to it.
    #expect(!request("\(method) / HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 3\r\n\r\nabc").keepsAlive)
    #expect(request("\(method) / HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n").keepsAlive)
    #expect(refusal(request("\(method) / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")) != nil)
    #expect(request("\(method) / HTTP/1.0\r\nContent-Length: 0\r\n\r\n").framing == .length(0))
    #expect(request("POST / HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc").framing == .length(3))
  }
}

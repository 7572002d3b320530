import Bytes
import HTTP
import Testing

@Suite struct `A response head that is made` {
  private let incoming = ResponseHead()
  private let outgoing = OutgoingResponseHead()

  private func lines() -> [String] {
    var output = ByteBuffer()
    HTTP1Encoder.response(outgoing, to: &output)
    let whole = String(decoding: output.readable, as: UTF8.self)
    #expect(whole.hasSuffix("\r\n\r\n"))
    return whole.dropLast(2).split(separator: "\r\n").map(String.init)
  }

  private func value(_ variable: String) -> String {
    var output = ByteBuffer()
    withBytes(variable) { outgoing.append(variableName: $0, to: &output) }
    return String(decoding: output.readable, as: UTF8.self)
  }

  private func receive(_ text: String) {
    var parser = HeadParser()
    _ = withBytes(text) { parser.response($0, limits: HeadLimits(), requestMethod: .get, into: incoming) }
  }

  @Test func `has the upstream's reason and fields, between those of ours`() {
    receive("HTTP/1.1 200 Fine\r\nX-Up: 1\r\nContent-Length: 2\r\n\r\n")
    outgoing.reset(over: incoming)
    outgoing.status = 200
    outgoing.add("Server", "me")
    outgoing.forward(incoming.fields[0])
    #expect(withBytes("v") { outgoing.add("X-Own", $0) })
    outgoing.body = .length(2)
    outgoing.framing = .length(2)
    outgoing.persistence = .keepAlive(announced: 7)
    #expect(
      lines() == [
        "HTTP/1.1 200 Fine", "Server: me", "X-Up: 1", "X-Own: v", "Content-Length: 2", "Connection: keep-alive",
        "Keep-Alive: timeout=7",
      ])
    #expect(value("x_up") == "1" && value("x_own") == "v" && value("server") == "me" && value("X_OWN") == "v")
    #expect(value("content_length") == "2" && value("connection") == "keep-alive" && value("keep_alive") == "timeout=7")
  }

  @Test func `has nginx's phrase where the status is another than the upstream's`() {
    receive("HTTP/1.1 200 Fine\r\nContent-Length: 0\r\n\r\n")
    outgoing.reset(over: incoming)
    outgoing.status = 404
    #expect(lines() == ["HTTP/1.1 404 Not Found", "Connection: close"])
  }

  @Test(
    arguments: [
      (.none(announced: nil), .none, nil, ""), (.none(announced: 5), .none, "Content-Length: 5", "5"),
      (.length(0), .length(0), "Content-Length: 0", "0"), (.stream, .chunked, "Transfer-Encoding: chunked", ""),
      (.stream, .untilClose, nil, ""),
    ] as [(OutgoingBody, BodyFraming, String?, String)])
  func `announces its body`(body: OutgoingBody, framing: BodyFraming, line: String?, length: String) {
    outgoing.status = 200
    outgoing.body = body
    outgoing.framing = framing
    #expect(lines() == ["HTTP/1.1 200 OK"] + (line.map { [$0] } ?? []) + ["Connection: close"])
    #expect(value("content_length") == length)
    #expect(value("transfer_encoding") == (framing == .chunked ? "chunked" : ""))
  }

  @Test func `is empty again after a reset`() {
    receive("HTTP/1.1 200 Fine\r\nX-Up: 1\r\n\r\n")
    outgoing.reset(over: incoming)
    outgoing.status = 200
    outgoing.forward(incoming.fields[0])
    outgoing.add("X-Own", "v")
    outgoing.reset()
    for name in ["x_up", "x_own", "connection", "content_length"] { #expect(value(name) == "") }
    outgoing.status = 204
    outgoing.persistence = .upgrade
    #expect(lines() == ["HTTP/1.1 204 No Content", "Connection: upgrade"])
  }
}

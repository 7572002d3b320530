import Testing

@testable import TLS

@Suite struct `A probe over HTTP/2` {
  private func frame(_ type: UInt8, _ flags: UInt8, _ payload: [UInt8], stream: UInt8 = 1) -> [UInt8] {
    [0, 0, UInt8(payload.count), type, flags, 0, 0, 0, stream] + payload
  }

  @Test(
    arguments: [
      ([0x88], 200), ([0x8D], 404), ([0x20, 0x88], 200), ([0x3F, 0xE1, 0x1F, 0x8C], 400),
      // Literal values, with names of the table, and Huffman-coded as in RFC 7541, C.6.1 (302) and C.6.2 (307).
      ([0x08, 3] + Array("403".utf8), 403), ([0x48, 0x82, 0x64, 0x02], 302), ([0x48, 0x83, 0x64, 0x0E, 0xFF], 307),
      ([0x1E, 3] + Array("503".utf8), 503), ([], nil), ([0x08], nil), ([0x08, 3], nil), ([0x3F, 0xFF], nil),
      ([0x82], nil), ([0x48, 0x81, 0xFF], nil),
      ([0x48, 2] + Array("-5".utf8), nil), ([0x48, 4] + Array("+200".utf8), nil), ([0x48, 1] + Array("7".utf8), nil),
    ] as [([UInt8], Int?)]) func `the status is the first field`(_ sample: (block: [UInt8], status: Int?))
  {
    #expect(ProbeHTTP2.status(sample.block[...]) == sample.status)
  }

  @Test func `frames say whether the server answered, and whether more is to come`() {
    let settings = frame(4, 0, [], stream: 0)
    #expect(!ProbeHTTP2.Answer(settings).isAnswered)
    let head = ProbeHTTP2.Answer(settings + frame(1, 0x04, [0x88]))
    #expect(head.isAnswered && head.status == 200 && !head.isComplete)
    #expect(ProbeHTTP2.Answer(settings + frame(1, 0x04, [0x88]) + frame(0, 1, [])).isComplete)
    // With padding and a priority before the fields.
    #expect(ProbeHTTP2.Answer(frame(1, 0x2D, [1, 0, 0, 0, 0, 9, 0x8E, 0])).status == 500)
    let reset = ProbeHTTP2.Answer(frame(3, 0, [0, 0, 0, 1]))
    #expect(reset.isAnswered && reset.isComplete && reset.status == nil)
    let farewell = ProbeHTTP2.Answer(frame(7, 0, [0, 0, 0, 0, 0, 0, 0, 2], stream: 0))
    #expect(!farewell.isAnswered && farewell.farewell == 2)
    let graceful = frame(7, 0, [0x7F, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0], stream: 0)
    #expect(ProbeHTTP2.Answer(graceful + frame(1, 5, [0x88])).status == 200)
    #expect(ProbeHTTP2.Answer(frame(7, 0, [0, 0, 0, 0, 0, 0, 0, 0], stream: 0)).isComplete)
    // Another stream's frames say nothing of the request, and no cut is a fault.
    #expect(!ProbeHTTP2.Answer(frame(1, 5, [0x88], stream: 2)).isAnswered)
    #expect(!ProbeHTTP2.Answer([0, 0, 1, 1, 5, 0, 0, 1, 1, 0x88]).isAnswered)
    let all = settings + frame(1, 0x2D, [1, 0, 0, 0, 0, 9, 0x8E, 0])
    for count in 0..<all.count { #expect(!ProbeHTTP2.Answer(Array(all.prefix(count))).isAnswered) }
    for byte in UInt8.min...UInt8.max { _ = ProbeHTTP2.Answer([UInt8](repeating: byte, count: 600)) }
  }

  @Test func `a refusal in words is one, whatever the status`() {
    let page = Array("<center>No required SSL certificate was sent</center>".utf8)
    let answer = frame(1, 4, [0x8C]) + frame(0, 1, page)
    #expect(Probe.judgeFrames(answer, isAsked: true) == .refused("HTTP 400: No required SSL certificate was sent"))
    #expect(Probe.judgeFrames(frame(1, 5, [0x88]), isAsked: true) == .accepted(status: 200))
    #expect(Probe.judgeFrames(frame(1, 5, [0x88]), isAsked: false) == .notAsked(status: 200))
    #expect(Probe.judgeFrames([], isAsked: true) == .unknown("the connection ended without an answer"))
  }

  /// In place of nginx's page, an `error_page` or an application behind it may respond.
  @Test func `a status of 495 or 496 is a refusal, and another 4xx says nothing of the certificate`() {
    func judge(_ status: Int, isAsked: Bool = true) -> ProbeReport.Acceptance {
      Probe.judge(Array("HTTP/1.1 \(status) Words\r\nContent-Length: 0\r\n\r\n".utf8), isAsked: isAsked)
    }
    #expect(judge(495) == .refused("HTTP 495: the certificate did not verify"))
    #expect(judge(496) == .refused("HTTP 496: it wants a certificate"))
    for status in [400, 401, 403, 404, 421, 499] { #expect(judge(status) == .undecided(status: status)) }
    for status in [200, 204, 302, 500, 503] { #expect(judge(status) == .accepted(status: status)) }
    #expect(judge(404, isAsked: false) == .notAsked(status: 404))
    #expect(Probe.judgeFrames(frame(1, 5, [0x8D]), isAsked: true) == .undecided(status: 404))
    #expect(Probe.judgeFrames(frame(1, 5, [0x8D]), isAsked: false) == .notAsked(status: 404))
    let fields: [UInt8] = [0x08, 3] + Array("496".utf8)
    #expect(Probe.judgeFrames(frame(1, 5, fields), isAsked: true) == .refused("HTTP 496: it wants a certificate"))
  }

  @Test func `the request has the length of a long path`() {
    let path = "/" + String(repeating: "a", count: 300)
    let bytes = ProbeHTTP2.request(host: "a.test", path: path)
    // 301 = 127 + 174: 174 is 0x2E with the bit of continuation, and 1.
    #expect(bytes.firstRange(of: [0x04, 127, 0xAE, 1, 0x2F, 0x61]) != nil)
    let frames = bytes.dropFirst(24 + 9)
    #expect(Int(frames[frames.startIndex + 1]) << 8 | Int(frames[frames.startIndex + 2]) == frames.count - 9)
  }
}

import Bytes
import CGI
import Testing

/// The expected bytes are those that nginx 1.22.1 sends, apart from HTTP_CONTENT_LENGTH, which sallyport doesn't send.
@Suite struct `Requests to programs` {
  private func block(_ kind: ProgramProtocol, long: Bool = false) throws -> ParameterBlock {
    var block = ParameterBlock(kind)
    try block.add("REQUEST_METHOD", "POST")
    if kind != .scgi { try block.add("CONTENT_LENGTH", "5") }
    try block.add("HTTP_HOST", "h")
    if long { try block.add("HTTP_X_LONG", String(repeating: "a", count: 200)) }
    return block
  }

  private func body(_ kind: ProgramProtocol, _ parts: [UInt8]...) -> [UInt8] {
    var output = ByteBuffer()
    for part in parts { part.withUnsafeBytes { kind.appendBody($0, to: &output) } }
    kind.appendBodyEnd(to: &output)
    return Array(output.readable)
  }

  @Test func `FastCGI gets records as nginx writes them`() throws {
    let head =
      "\u{1}\u{1}\0\u{1}\0\u{8}\0\0\0\u{1}\u{1}\0\0\0\0\0" + "\u{1}\u{4}\0\u{1}\0\u{31}\u{7}\0"
      + "\u{e}\u{4}REQUEST_METHODPOST\u{e}\u{1}CONTENT_LENGTH5\u{9}\u{1}HTTP_HOSTh\0\0\0\0\0\0\0"
      + "\u{1}\u{4}\0\u{1}\0\0\0\0"
    let kind = ProgramProtocol.fastCGI(keepsConnection: true)
    #expect(try block(kind).head() == Array(head.utf8))
    let body = "\u{1}\u{5}\0\u{1}\0\u{5}\u{3}\0hello\0\0\0" + "\u{1}\u{5}\0\u{1}\0\0\0\0"
    #expect(self.body(kind, Array("hello".utf8), []) == Array(body.utf8))
  }

  @Test func `the flag of FastCGI says whether the connection stays open`() throws {
    #expect(try block(.fastCGI(keepsConnection: false)).head()[10] == 0)
    #expect(try block(.fastCGI(keepsConnection: true)).head()[10] == 1)
  }

  @Test(arguments: [
    ([40_000, 30_000, 100, 65_000], 3), ([65_528, 1, 1], 2), ([70_000, 5, 65_000], 3), ([5, 70_000], 3),
    ([1, 65_535], 3),
  ])
  func `a parameter stands whole in one record of FastCGI, if it fits there`(sizes: [Int], count: Int) throws {
    var block = ParameterBlock(.fastCGI(keepsConnection: false))
    for size in sizes { try block.add("N", String(repeating: "a", count: size)) }
    let contents = try #require(requestRecords(block.head())).dropFirst().map(\.content)
    #expect(contents.flatMap { $0 } == Array(block.bytes) && contents.last?.isEmpty == true)
    #expect(contents.count == count + 1)
    if sizes.allSatisfy({ $0 < 65_530 }) { #expect(contents.allSatisfy { pairs($0) != nil }) }
  }

  @Test func `a long value has a length of four bytes`() throws {
    let head = try block(.fastCGI(keepsConnection: true), long: true).head()
    let long: [UInt8] = [0x0B, 0x80, 0, 0, 0xC8] + Array("HTTP_X_LONG".utf8) + Array(repeating: 0x61, count: 200)
    let content = try #require(requestRecords(head)?[1].content)
    #expect(Array(content.suffix(long.count)) == long)
  }

  @Test func `SCGI gets a netstring, CONTENT_LENGTH first, and then SCGI`() throws {
    let text = "59:CONTENT_LENGTH\u{0}5\0SCGI\u{0}1\0REQUEST_METHOD\0POST\0HTTP_HOST\0h\0X\0\0,"
    var block = try block(.scgi)
    // nginx's file scgi_params has SCGI too; a name may not stand twice.
    try block.add("SCGI", "1")
    try block.add("CONTENT_LENGTH", "7")
    try block.add("X", "")
    let head = block.head(contentLength: 5)
    #expect(head == Array(text.utf8))
    #expect(body(.scgi, Array("he".utf8), Array("llo".utf8)) == Array("hello".utf8))
  }

  /// The example of the specification (https://python.ca/scgi/protocol.txt), with the order that it requires.
  @Test func `SCGI gets the request of its specification`() throws {
    var block = ParameterBlock(.scgi)
    try block.add("REQUEST_METHOD", "POST")
    try block.add("REQUEST_URI", "/deepthought")
    let text =
      "70:CONTENT_LENGTH\u{0}27\0SCGI\u{0}1\0REQUEST_METHOD\0POST\0REQUEST_URI\0/deepthought\0,"
    #expect(block.head(contentLength: 27) == Array(text.utf8))
  }

  @Test(arguments: [0, 9, 10, 99, 100, 12345, UInt64.max]) func `SCGI's length counts the digits of the body's`(
    length: UInt64
  ) {
    let head = ParameterBlock(.scgi).head(contentLength: length)
    let text = "CONTENT_LENGTH\0\(length)\0SCGI\u{0}1\0"
    #expect(head == Array("\(text.utf8.count):\(text),".utf8))
  }

  @Test func `uwsgi gets a packet with its modifiers and a size in little-endian order`() throws {
    let text =
      "\u{5}\u{37}\0\u{7}\u{e}\0REQUEST_METHOD\u{4}\0POST\u{e}\0CONTENT_LENGTH\u{1}\u{0}5\u{9}\0HTTP_HOST\u{1}\0h"
    let kind = ProgramProtocol.uwsgi(modifier1: 5, modifier2: 7)
    #expect(try block(kind).head() == Array(text.utf8))
    #expect(body(kind, Array("hello".utf8)) == Array("hello".utf8))
  }

  @Test(arguments: [0, 1, 7, 8, 65_528, 65_534, 65_535, 65_536, 131_070, 131_071, 200_000])
  func `a body of any size is cut into records`(count: Int) throws {
    let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 7) }
    let records = try #require(requestRecords(body(.fastCGI(keepsConnection: false), bytes)))
    #expect(records.allSatisfy { $0.type == 5 })
    #expect(records.dropLast().allSatisfy { !$0.content.isEmpty } && records.last?.content == [])
    #expect(records.flatMap(\.content) == bytes)
  }

  @Test func `parameters above a record's size are cut, up to 1 MiB`() throws {
    var block = ParameterBlock(.fastCGI(keepsConnection: false))
    let value = String(repeating: "v", count: 100_000)
    for index in 0..<10 { try block.add("N\(index)", value) }
    let records = try #require(requestRecords(block.head()))
    #expect(records.map(\.type) == [1] + Array(repeating: 4, count: records.count - 1) && records.last?.content == [])
    #expect(pairs(records.dropFirst().flatMap(\.content)) == (0..<10).map { "N\($0)=\(value)" })
    #expect(throws: ParameterFault.tooLarge(limit: 1_048_576)) { try block.add("X", value) }
    #expect(block.count == 10 * (1 + 4 + 2 + 100_000))
    try block.add("X", "after a refusal")
    block.removeAll()
    #expect(block.count == 0)
  }

  @Test(
    arguments: [
      (.fastCGI(keepsConnection: false), 1_048_576), (.scgi, 1_048_576), (.uwsgi(modifier1: 0, modifier2: 0), 65_535),
    ] as [(ProgramProtocol, Int)])
  func `the bound is exact`(kind: ProgramProtocol, limit: Int) throws {
    var probe = ParameterBlock(kind)
    try probe.add("N", String(repeating: "v", count: 1000))
    let room = limit - (probe.count - 1000)
    var block = ParameterBlock(kind)
    try block.add("N", String(repeating: "v", count: room))
    #expect(block.count == limit)
    #expect(throws: ParameterFault.tooLarge(limit: limit)) { try block.add("N", "") }
    var other = ParameterBlock(kind)
    #expect(throws: ParameterFault.tooLarge(limit: limit)) {
      try other.add("N", String(repeating: "v", count: room + 1))
    }
    #expect(other.count == 0)
  }

  @Test(
    arguments: [
      ("", "x", .name), ("A=B", "x", .name), ("A\0B", "x", .nul), ("A", "x\0HTTP_X\0y", .nul), ("A", "\0", .nul),
    ] as [(String, String, ParameterFault)])
  func `a parameter that a program would read as another one is refused`(
    name: String, value: String, fault: ParameterFault
  ) {
    for kind in [.fastCGI(keepsConnection: true), .scgi, .uwsgi(modifier1: 0, modifier2: 0)] as [ProgramProtocol] {
      var block = ParameterBlock(kind)
      #expect(throws: fault) { try block.add(name, value) }
      #expect(block.count == 0 && !fault.description.isEmpty)
    }
  }

  @Test func `random parameters come out as they went in`() throws {
    var random = SystemRandomNumberGenerator()
    var block = ParameterBlock(.fastCGI(keepsConnection: false))
    for _ in 0..<100 {
      block.removeAll()
      var expected: [String] = []
      for _ in 0..<Int.random(in: 0...20, using: &random) {
        let name = String(repeating: "N", count: Int.random(in: 1...300, using: &random))
        let value = String(repeating: "v", count: Int.random(in: 0...20_000, using: &random))
        try block.add(name, value)
        expected.append("\(name)=\(value)")
      }
      let records = try #require(requestRecords(block.head()))
      #expect(pairs(records.dropFirst().flatMap(\.content)) == expected)
    }
  }
}

import Bytes
import HTTP
import Testing

@Suite struct `The Connection field` {
  private func hopByHop(_ fields: String) -> [String] { request(fields: fields).hopByHop }

  @Test func `nominates unknown names of any length, whatever their letters' case`() {
    let long = "X-" + String(repeating: "Very-", count: 40) + "Long"
    let read = hopByHop("Connection: x-a, \(long.lowercased())\r\nX-A: 1\r\n\(long): 2\r\nX-B: 3\r\n\(long)er: 4\r\n")
    #expect(read == ["Connection", "X-A", long])
  }

  @Test func `counts a name that it repeats once`() {
    let repeated = Array(repeating: "X-A", count: 40).joined(separator: ",")
    #expect(hopByHop("Connection: \(repeated)\r\nX-A: 1\r\n") == ["Connection", "X-A"])
  }

  @Test(arguments: [16, 17])
  func `nominates up to sixteen unknown names`(count: Int) {
    let names = (1...count).map { "x-\($0)" }.joined(separator: ", ")
    #expect(refusal(request(fields: "Connection: \(names)\r\n")) == (count > 16 ? .tooManyConnectionOptions : nil))
  }

  /// The work for a head may not grow with its elements times its fields.
  @Test(arguments: ["", "close", "TE", "Accept", "x"], [64, 65])
  func `has up to 64 elements, of whatever kind, in one line or in many`(element: String, count: Int) {
    let expected: HeadError? = count > 64 ? .tooManyConnectionOptions : nil
    let list = Array(repeating: element, count: count).joined(separator: ",")
    #expect(refusal(request(fields: "Connection: \(list)\r\n")) == expected)
    let lines = String(repeating: "Connection: \(element)\r\n", count: count)
    #expect(refusal(request(fields: lines)) == expected)
    #expect(refusal(response("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: \(list)\r\n\r\n")) == expected)
  }
}

@Suite struct `A Connection or Upgrade value that is passed on` {
  private func passedOn(_ value: String, _ shorten: (inout ByteBuffer, Int) -> Void) -> String {
    var buffer = ByteBuffer()
    buffer.append("before, X-DN")
    let start = buffer.count
    buffer.append(string: value)
    shorten(&buffer, start)
    let text = String(decoding: buffer.readable, as: UTF8.self)
    #expect(text.hasPrefix("before, X-DN"))
    return String(text.dropFirst(12))
  }

  @Test(arguments: [
    ("keep-alive, Upgrade", "keep-alive, Upgrade"), ("X-Client-DN", ""), ("close, X-Client-DN , te", "close,te"),
    (" ,,TE", "TE"), ("X-A,X-B,Keep-Alive", "Keep-Alive"), ("", ""), (",", ""), ("close x", ""), ("closes", ""),
  ])
  func `keeps close, keep-alive, upgrade and TE alone`(value: String, kept: String) {
    #expect(passedOn(value) { HopByHopValue.keepConnectionOptions(in: &$0, from: $1) } == kept)
  }

  @Test(arguments: [
    ("websocket", "websocket"), ("h2c", ""), ("H2C, websocket", "websocket"), ("HTTP/2.0, SPDY/3.1", "SPDY/3.1"),
    ("TLS/1.0", ""), ("http", ""), ("h2, tcp", "tcp"), ("h2cx, ws", "h2cx, ws"), ("/x", ""),
  ])
  func `offers no protocol that carries further requests`(value: String, kept: String) {
    #expect(passedOn(value) { HopByHopValue.removeTunnellingProtocols(in: &$0, from: $1) } == kept)
  }

  @Test func `is left alone beyond the end of the buffer`() {
    var buffer = ByteBuffer()
    HopByHopValue.keepConnectionOptions(in: &buffer, from: 0)
    buffer.append("x")
    HopByHopValue.keepConnectionOptions(in: &buffer, from: 1)
    HopByHopValue.keepConnectionOptions(in: &buffer, from: 7)
    #expect(buffer.readable.equals("x"))
  }
}

@Suite struct `A field name under another spelling` {
  private static let loose = HeadLimits(ignoreInvalidNames: false, underscores: true)

  @Test(arguments: Array("_.!#$%&'*+^`|~"))
  func `does not frame a message at who folds names to variables`(separator: Character) {
    let fields = "Content\(separator)Length: 5\r\nTransfer\(separator)Encoding: chunked\r\nX\(separator)Y: 1\r\n"
    let read = request(fields: fields, limits: Self.loose)
    #expect(read.fields == ["Host: a", "X\(separator)Y: 1"])
    #expect(read.framing == .none)
  }

  @Test func `folds letters, digits and everything else as a server of variables does`() {
    #expect(withBytes("X_Forwarded.PROTO") { FieldName.folded($0) } == .xForwardedProto)
    #expect(withBytes("X-Forwarded-Proto1") { FieldName.folded($0) } == .other)
    #expect(withBytes("") { FieldName.folded($0) } == .other)
    #expect(withBytes(String(repeating: "x", count: 300)) { FieldName.folded($0) } == .other)
    for byte in UInt8.min...UInt8.max {
      let isOwn = ASCII.isDigit(byte) || ASCII.lower(byte) &- 0x61 < 26
      #expect(FieldName.fold(byte) == (isOwn ? ASCII.lower(byte) : 0x2D))
    }
  }
}

@Suite struct `Pairs of names and values` {
  @Test(
    arguments: [
      ("a=1&b=2", "b", "2"), ("a=1", "A", "1"), ("a", "a", nil), ("=1", "", "1"), ("xa=1&a=2", "a", "2"),
      ("a=", "a", ""),
      ("&&&a=1=2&", "a", "1=2"), ("", "a", nil), ("ab=1", "a", nil), (" \ta=1", "a", "1"), ("a=1&a=2", "a", "1"),
    ] as [(String, String, String?)])
  func `give the first value of a name`(text: String, name: String, value: String?) {
    let found = withBytes(text) { bytes in
      NamedPairs.value(of: Array(name.utf8), in: bytes, ByteRange(start: 0, count: bytes.count), separator: 0x26)
        .map { bytes[$0].text }
    }
    #expect(found == value)
  }
}

import TestSupport
import Testing

/// A request that two readers could read differently: refused, and nothing of it or after it goes on.
struct Smuggling: Sendable, CustomTestStringConvertible {
  let name: String
  let request: String
  var status = 400
  var testDescription: String { name }

  static let all: [Smuggling] = [
    .init(
      name: "Content-Length and Transfer-Encoding",
      request: "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    .init(
      name: "Transfer-Encoding and Content-Length",
      request: "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n"),
    .init(
      name: "two equal Content-Lengths",
      request: "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc"),
    .init(
      name: "two Content-Lengths",
      request: "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nContent-Length: 0\r\n\r\nabc"),
    .init(name: "a list of Content-Lengths", request: "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3, 3\r\n\r\nabc"),
    .init(name: "an empty Content-Length", request: "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: \r\n\r\nabc"),
    .init(name: "a signed Content-Length", request: "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: +3\r\n\r\nabc"),
    .init(name: "a negative Content-Length", request: "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: -3\r\n\r\nabc"),
    .init(
      name: "a hexadecimal Content-Length", request: "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0x3\r\n\r\nabc"),
    .init(
      name: "a Content-Length with a space", request: "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1 1\r\n\r\nabc"),
    .init(
      name: "a Content-Length beyond 64 bits",
      request: "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 18446744073709551619\r\n\r\nabc"),
    .init(
      name: "Transfer-Encoding in HTTP/1.0",
      request: "POST / HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    .init(
      name: "two Transfer-Encodings",
      request: "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    ),
    .init(
      name: "chunked twice",
      request: "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"),
    .init(
      name: "chunked, then identity",
      request: "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"),
    .init(
      name: "a coding that is unknown",
      request: "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
      status: 501),
    .init(
      name: "a vertical tab before chunked",
      request: "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: \u{0b}chunked\r\n\r\n0\r\n\r\n"),
    .init(
      name: "a quoted chunked", request: "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n"
    ),
    .init(
      name: "an empty Transfer-Encoding", request: "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding:\r\n\r\n0\r\n\r\n"),
    .init(
      name: "a space before the colon",
      request: "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding : chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n"),
    .init(
      name: "a tab before the colon", request: "POST / HTTP/1.1\r\nHost: h\r\nContent-Length\t: 3\r\n\r\nabc"),
    .init(
      name: "a folded line",
      request: "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n"),
    .init(
      name: "a folded line that begins with a tab",
      request: "GET / HTTP/1.1\r\nHost: h\r\nX-A: b\r\n\tc\r\n\r\n"),
    .init(name: "whitespace before the first field", request: "GET / HTTP/1.1\r\n Host: h\r\nX: y\r\n\r\n"),
    .init(
      name: "a bare CR in a value", request: "GET / HTTP/1.1\r\nHost: h\r\nX-A: b\rTransfer-Encoding: chunked\r\n\r\n"),
    .init(name: "a bare CR as a line end", request: "GET / HTTP/1.1\r\nHost: h\rContent-Length: 5\r\n\r\nhello"),
    .init(name: "a bare CR in the request line", request: "GET /\r HTTP/1.1\r\nHost: h\r\n\r\n"),
    .init(name: "a NUL in a value", request: "GET / HTTP/1.1\r\nHost: h\r\nX-A: b\0c\r\n\r\n"),
    .init(name: "a NUL in a name", request: "GET / HTTP/1.1\r\nHost: h\r\nX-\0A: b\r\n\r\n"),
    .init(name: "a NUL in the target", request: "GET /\0 HTTP/1.1\r\nHost: h\r\n\r\n"),
    .init(name: "no colon", request: "GET / HTTP/1.1\r\nHost: h\r\nX-A\r\n\r\n"),
    .init(name: "an empty name", request: "GET / HTTP/1.1\r\nHost: h\r\n: b\r\n\r\n"),
    .init(name: "no Host", request: "GET / HTTP/1.1\r\nX-A: b\r\n\r\n"),
    .init(name: "two Hosts", request: "GET / HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n"),
    .init(name: "a Host with a path", request: "GET / HTTP/1.1\r\nHost: h/x\r\n\r\n"),
    .init(name: "a Host with a user", request: "GET / HTTP/1.1\r\nHost: a@h\r\n\r\n"),
    .init(name: "two spaces in the request line", request: "GET  / HTTP/1.1\r\nHost: h\r\n\r\n"),
    .init(name: "a space in the target", request: "GET / x HTTP/1.1\r\nHost: h\r\n\r\n"),
    .init(name: "a tab in the request line", request: "GET\t/ HTTP/1.1\r\nHost: h\r\n\r\n"),
    .init(name: "no version", request: "GET /\r\nHost: h\r\n\r\n"),
    .init(name: "a version in lower case", request: "GET / http/1.1\r\nHost: h\r\n\r\n"),
    .init(name: "version 1.10", request: "GET / HTTP/1.10\r\nHost: h\r\n\r\n"),
    .init(name: "version 2.0", request: "GET / HTTP/2.0\r\nHost: h\r\n\r\n", status: 505),
    .init(name: "CONNECT", request: "CONNECT h:1 HTTP/1.1\r\nHost: h:1\r\n\r\n", status: 405),
  ]

  /// Faults of a chunked body, after a whole head.
  static let chunks: [Smuggling] = [
    ("no size", "\r\nabc\r\n0\r\n\r\n"), ("a size that is no number", "xyz\r\nabc\r\n0\r\n\r\n"),
    ("a size with 0x", "0x3\r\nabc\r\n0\r\n\r\n"), ("a signed size", "+3\r\nabc\r\n0\r\n\r\n"),
    ("a space before the size", " 3\r\nabc\r\n0\r\n\r\n"),
    ("a size beyond 64 bits", "10000000000000003\r\nabc\r\n0\r\n\r\n"),
    ("a bare LF after the size", "3\nabc\r\n0\r\n\r\n"), ("a bare LF after the data", "3\r\nabc\n0\r\n\r\n"),
    ("a bare CR after the size", "3\rabc\r\n0\r\n\r\n"), ("more data than the size", "3\r\nabcd\r\n0\r\n\r\n"),
    ("a bare LF in an extension", "3;a\nb\r\nabc\r\n0\r\n\r\n"),
    ("a bare LF after the last chunk", "3\r\nabc\r\n0\n\n"),
    ("a NUL in a trailer", "3\r\nabc\r\n0\r\nX: \0\r\n\r\n"),
  ].map {
    .init(name: $0.0, request: "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" + $0.1)
  }
}

@Suite(.staged) struct `Requests that could be read in two ways` {
  private static let next = "GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n"

  private func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }

  /// What comes back for a request with another one behind it: a response, and all bytes after it.
  private func send(_ request: String, to proxy: PlainProxy) async throws -> (HTTPMessage, [UInt8]) {
    let wire = bytes(request + Self.next)
    return try await proxy.talk { connection in
      try connection.write(wire)
      let answer = try connection.response()
      return (answer, try connection.readToEnd())
    }
  }

  @Test func `each such head is refused, the connection closed, and the upstream sees nothing`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.echo(scene)
    let proxy = try await PlainProxy(scene, to: upstream.port, kept: true)
    for vector in Smuggling.all {
      let (answer, rest) = try await send(vector.request, to: proxy)
      #expect(answer.status == vector.status, "\(vector.name)")
      #expect(answer["Connection"]?.lowercased() == "close", "\(vector.name)")
      #expect(rest.isEmpty, "\(vector.name)")
    }
    #expect(upstream.connections == 0)
  }

  @Test(arguments: ["on", "off"]) func `each fault of a chunked body ends the connection, and nothing after it goes on`(
    buffering: String
  ) async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.echo(scene)
    let proxy = try await PlainProxy(
      scene, to: upstream.port, location: "\(PlainProxy.kept) proxy_request_buffering \(buffering);")
    for vector in Smuggling.chunks {
      let (answer, rest) = try await send(vector.request, to: proxy)
      #expect(answer.status == 400, "\(vector.name)")
      #expect(rest.isEmpty, "\(vector.name)")
    }
    #expect(!upstream.receivedText.contains("smuggled"))
    if buffering == "on" { #expect(upstream.connections == 0) }
  }

  @Test func `what is taken is rebuilt, never passed through`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.echo(scene)
    let proxy = try await PlainProxy(scene, to: upstream.port, kept: true)
    let answer = try await proxy.talk { wire in
      try wire.write(
        "\r\nGET http://Example.org:80/head?a=b HTTP/1.1\nHost: Example.org:80\nX-A:   spaced \t\nConnection: x-hop, keep-alive\n"
          + "X-Hop: one\nKeep-Alive: 5\nProxy-Connection: keep-alive\nTE: gzip\nUpgrade: h2c\n\n")
      return try wire.response()
    }
    #expect(answer.status == 200)
    let seen = upstream.receivedText
    #expect(seen.hasPrefix("GET /head?a=b HTTP/1.1\r\n"))
    #expect(seen.contains("X-A: spaced\r\n"))
    for gone in ["x-hop", "keep-alive", "proxy-connection", "te:", "upgrade", "example.org"] {
      #expect(!seen.lowercased().contains(gone), "\(gone)")
    }
  }

  @Test(arguments: ["on", "off"])
  func `CVE-2026-33555, CVE-2026-48743: a body shorter than its Content-Length is never a whole request`(
    buffering: String
  ) async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.echo(scene)
    let proxy = try await PlainProxy(
      scene, to: upstream.port, location: "\(PlainProxy.kept) proxy_request_buffering \(buffering);")
    for more in ["", "\r\n0\r\n\r\n", "\r\nX: y\r\n"] {
      let answer = try await proxy.talk { wire in
        try wire.write("POST /echo HTTP/1.1\r\nHost: h\r\nTrailer: X\r\nContent-Length: 60\r\n\r\nabc\(more)")
        wire.finishWriting()
        return try wire.readToEnd()
      }
      #expect(!String(decoding: answer, as: UTF8.self).hasPrefix("HTTP/1.1 200"))
    }
    if buffering == "on" { #expect(upstream.connections == 0) }
    // What was begun is on no connection that another request gets.
    let next = try await proxy.curl("/echo", input: Array("next".utf8))
    #expect(next.status == 200 && next.text == "next")
  }

  @Test(arguments: ["on", "off"])
  func `CVE-2026-26365: Connection: Transfer-Encoding leaves the framing as it is`(buffering: String) async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.echo(scene)
    let proxy = try await PlainProxy(
      scene, to: upstream.port, location: "\(PlainProxy.kept) proxy_request_buffering \(buffering);")
    for option in ["Transfer-Encoding", "transfer-encoding, close", "close, Transfer-Encoding, Content-Length"] {
      let wire = bytes(
        "POST /echo HTTP/1.1\r\nHost: h\r\nConnection: \(option)\r\nTransfer-Encoding: chunked\r\n\r\n"
          + "5\r\nhello\r\n0\r\n\r\n" + Self.next)
      let answer = try await proxy.talk { connection in
        try connection.write(wire)
        return try connection.response()
      }
      #expect(answer.status == 200 && answer.text == "hello", "\(option)")
    }
    #expect(!upstream.receivedText.lowercased().contains("connection: transfer"))
    let framings = upstream.receivedText.split(separator: "POST ").map {
      $0.contains("Content-Length: 5\r\n") != $0.contains("Transfer-Encoding: chunked\r\n")
    }
    #expect(framings.count == 3 && framings.allSatisfy { $0 })
  }

  @Test func `fields that Connection names can't take away the framing or the Host`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream.echo(scene)
    let proxy = try await PlainProxy(scene, to: upstream.port, kept: true)
    let answer = try await proxy.talk { wire in
      try wire.write(
        "POST /echo HTTP/1.1\r\nHost: h\r\nConnection: content-length, host, transfer-encoding\r\nContent-Length: 5\r\n\r\nhello"
      )
      return try wire.response()
    }
    #expect(answer.text == "hello")
    #expect(upstream.receivedText.contains("Host: ") && upstream.receivedText.contains("Content-Length: 5"))
  }
}

@Suite(.staged) struct `Answers that could be read in two ways` {
  static let vectors: [(name: String, answer: String)] = [
    ("garbage", "garbage garbage garbage\r\n\r\n"), ("an empty head", "\r\n\r\n\r\n"),
    ("a length and chunked", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ("two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"),
    ("a bad length", "HTTP/1.1 200 OK\r\nContent-Length: 3x\r\n\r\nabc"),
    ("a folded line", "HTTP/1.1 200 OK\r\nX-A: b\r\n c\r\nContent-Length: 0\r\n\r\n"),
    ("a bare CR", "HTTP/1.1 200 OK\r\nX-A: b\rc\r\nContent-Length: 0\r\n\r\n"),
    ("a NUL", "HTTP/1.1 200 OK\r\nX-A: \0\r\nContent-Length: 0\r\n\r\n"),
    ("an unknown coding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nabc"),
    ("a status of two digits", "HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n"),
    ("no version", "200 OK\r\nContent-Length: 0\r\n\r\n"),
    (
      "an endless head",
      "HTTP/1.1 200 OK\r\n" + String(repeating: "X-A: \(String(repeating: "b", count: 200))\r\n", count: 2000) + "\r\n"
    ),
    (
      "a switch of protocols nobody asked for",
      "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"
    ),
  ]

  @Test func `each is a 502`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      guard let request = try wire.request() else { return }
      let index = Int(request.target.dropFirst()) ?? 0
      try wire.write(Self.vectors[index].answer)
      while try !wire.readSome().isEmpty {}
    }
    let proxy = try await PlainProxy(scene, to: upstream.port, kept: true)
    for (index, vector) in Self.vectors.enumerated() {
      let result = try await proxy.curl("/\(index)")
      #expect(result.status == 502, "\(vector.name): \(result.heads)")
      #expect(!result.text.contains("garbage"))
    }
    try await proxy.daemon.logged("[error]", "upstream sent invalid header")
  }

  /// Over a kept connection the rest would be taken from the next response.
  @Test(arguments: ["abc", "abc\r\n0\r\n\r\n", "abc\r\nX: y\r\n\r\n"])
  func `CVE-2026-33555, CVE-2026-48743: a body shorter than its Content-Length is never a whole response`(
    body: String
  ) async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream(scene) { wire, number in
      guard try wire.request() != nil else { return }
      guard number == 0 else { return try wire.answer("next") }
      try wire.write("HTTP/1.1 200 OK\r\nTrailer: X\r\nContent-Length: 60\r\n\r\n\(body)")
    }
    let proxy = try await PlainProxy(scene, to: upstream.port, kept: true)
    let broken = try await proxy.curl("/")
    #expect(broken.exit == 18)
    #expect(try await proxy.curl("/").text == "next")
  }

  @Test func `bytes after an answer are nobody's answer`() async throws {
    let scene = try Scene.ofTest()
    let upstream = try ScriptedUpstream(scene) { wire, _ in
      while let request = try wire.request() {
        let poison = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison"
        try wire.write(
          "HTTP/1.1 200 OK\r\nContent-Length: \(request.target.utf8.count)\r\n\r\n\(request.target)\(poison)")
      }
    }
    let proxy = try await PlainProxy(scene, to: upstream.port, kept: true)
    for index in 0..<8 {
      let result = try await proxy.curl("/\(index)")
      #expect(result.text == "/\(index)")
    }
  }

  @Test func `bytes on a kept connection before a request poison it`() async throws {
    let scene = try Scene.ofTest()
    let answered = Flag(), poisoned = Flag()
    let upstream = try ScriptedUpstream(scene) { wire, number in
      try wire.serve { request in
        try wire.answer("clean \(number)")
        if number == 0 {
          answered.wait()
          try wire.write("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison")
          if try wire.isClosedByPeer() { poisoned.raise() }
        }
      }
    }
    let proxy = try await PlainProxy(scene, to: upstream.port, kept: true)
    #expect(try await proxy.curl("/").text == "clean 0")
    answered.raise()
    try await until("the poisoned connection to be closed") { poisoned.isRaised }
    for _ in 0..<4 { #expect(try await proxy.curl("/").text.hasPrefix("clean ")) }
  }
}

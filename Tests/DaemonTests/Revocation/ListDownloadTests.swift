import Crypto
import TestSupport
import Testing
import Transport

@testable import Daemon

@Suite struct `Downloads of revocation lists` {
  private func download(
    _ answer: String, tag: String? = nil, sizeLimit: Int = 1000, hangs: Bool = false
  ) async throws -> (outcome: Result<ListDownload.Outcome, FetchedList.Fault>, request: String) {
    let scene = try Scene()
    defer { scene.end() }
    let over = Flag()
    let server = try ScriptedUpstream(scene) { wire, _ in
      _ = try wire.requestHead()
      try wire.write(answer)
      if hangs { over.wait() }
    }
    defer { over.raise() }
    let url = try #require(RevocationURL("http://127.0.0.1:\(server.port)/ca.crl?x"))
    let outcome = try await offPool {
      var download = ListDownload(url: url, tag: tag)
      (download.timeLimit, download.sizeLimit) = (hangs ? 1 : 20, sizeLimit)
      return Result { [download] () throws(FetchedList.Fault) in try download.run() }
    }
    return (outcome, server.receivedText)
  }

  @Test func `a body comes whole, whatever its framing`() async throws {
    let answers = [
      "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nETag: \"a\"\r\nCache-Control: max-age=60\r\n\r\nhello",
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nETag: \"a\"\r\nCache-Control: max-age=60\r\n\r\n"
        + "2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
      "HTTP/1.0 200 OK\r\nETag: \"a\"\r\nCache-Control: max-age=60\r\n\r\nhello",
    ]
    for answer in answers {
      let (outcome, request) = try await download(answer)
      #expect(try outcome.get() == .body(Array("hello".utf8), tag: "\"a\"", freshFor: 60))
      #expect(request.hasPrefix("GET /ca.crl?x HTTP/1.1\r\nHost: 127.0.0.1:"))
      #expect(!request.contains("If-None-Match"))
    }
  }

  @Test func `a list that has not changed is not sent again`() async throws {
    let (outcome, request) = try await download("HTTP/1.1 304 Not Modified\r\n\r\n", tag: "\"a\"")
    #expect(try outcome.get() == .unchanged(freshFor: nil))
    #expect(request.contains("\r\nIf-None-Match: \"a\"\r\n"))
  }

  @Test(arguments: [
    ("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "it answers with status 404"),
    ("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\nContent-Length: 0\r\n\r\n", "it answers with status 302"),
    ("HTTP/1.1 304 Not Modified\r\n\r\n", "it answers with status 304"),
    ("HTTP/1.1 206 Partial Content\r\nContent-Length: 1\r\n\r\nx", "it answers with status 206"),
    ("HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n", "it sends more than"),
    ("HTTP/1.0 200 OK\r\n\r\n" + String(repeating: "x", count: 1001), "it sends more than"),
    (
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3E9\r\n" + String(repeating: "x", count: 1001)
        + "\r\n0\r\n\r\n", "it sends more than"
    ),
    ("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello", "its answer ends in the body"),
    ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", "its answer ends in the body"),
    ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "its body is malformed"),
    (
      "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx",
      "a content coding that nobody asked for"
    ),
    ("HTTP/1.1 200 OK\r\nContent-", "its answer ends in the head"),
    ("", "it closes the connection without an answer"),
    ("SSH-2.0-OpenSSH\r\n", "it sends no valid response"),
    ("HTTP/1.1 200 OK\r\nX: " + String(repeating: "y", count: 9000), "it sends no valid response"),
    (
      String(repeating: "HTTP/1.1 103 Early Hints\r\n\r\n", count: 9) + "HTTP/1.1 200 OK\r\n\r\n",
      "it sends interim responses only"
    ),
  ]) func `whatever else a server sends is told`(answer: String, fault: String) async throws {
    let (outcome, _) = try await download(answer)
    guard case .failure(let told) = outcome else {
      Issue.record("\(outcome)")
      return
    }
    #expect(told.description.contains(fault))
  }

  @Test(arguments: ["", "HTTP/1.1 200 OK\r\nContent-Le", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello"])
  func `a server that stops in the middle is left after the time`(answer: String) async throws {
    let (outcome, _) = try await download(answer, hangs: true)
    #expect(outcome == .failure(FetchedList.Fault("no whole answer in time")))
  }

  @Test func `a server that never ends is left at the limit`() async throws {
    let scene = try Scene()
    defer { scene.end() }
    let server = try ScriptedUpstream(scene, records: false) { wire, _ in
      _ = try wire.requestHead()
      try wire.write("HTTP/1.1 200 OK\r\n\r\n")
      while true { try wire.write([UInt8](repeating: 0x30, count: 65536)) }
    }
    let url = try #require(RevocationURL("http://127.0.0.1:\(server.port)/"))
    let outcome = try await offPool { Result { () throws(FetchedList.Fault) in try ListDownload(url: url).run() } }
    #expect(outcome == .failure(FetchedList.Fault("it sends more than 10 MiB, the limit of a list")))
  }

  @Test func `names without an address, closed ports, and addresses that are not admitted`() async throws {
    let scene = try Scene()
    defer { scene.end() }
    let port = try scene.port()
    let url = try #require(RevocationURL("http://crl.test:\(port)/"))
    let here = SocketAddress(literal: "127.0.0.1", port: port).map { [$0] } ?? []
    let cases: [(found: [SocketAddress], admits: Bool, fault: String)] = [
      ([], true, "the name crl.test has no address"), (here, true, "no connection to 127.0.0.1"),
      (here, false, "crl.test is an address of this machine or its link"),
    ]
    for (found, admits, fault) in cases {
      let outcome = try await offPool {
        let download = ListDownload(url: url, admits: { _ in admits }, lookUp: { _, _ in found })
        return Result { () throws(FetchedList.Fault) in try download.run() }
      }
      guard case .failure(let told) = outcome else {
        Issue.record("\(outcome)")
        continue
      }
      #expect(told.description.contains(fault))
    }
  }
}

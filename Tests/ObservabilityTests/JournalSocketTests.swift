import Bytes
import Foundation
import Glibc
import Testing

@testable import Observability

@Suite struct `An entry of the journal` {
  private func encoded(_ fields: [(String, [UInt8])]) -> [UInt8] {
    var message = JournalMessage(severity: 6)
    for (name, value) in fields { value.withUnsafeBytes { message.append(name, $0) } }
    return Array(message.bytes.readable)
  }
  private let start = Array("PRIORITY=6\nSYSLOG_IDENTIFIER=sallyport\n".utf8)

  @Test func `has one line for a plain value, and none for an empty one`() {
    #expect(encoded([("A", Array("b=c \u{1}".utf8)), ("EMPTY", [])]) == start + Array("A=b=c \u{1}\n".utf8))
  }

  @Test func `gives the length before a value with a line feed, so that it begins no field`() {
    let hostile = Array("x\nMESSAGE_ID=0".utf8)
    #expect(
      encoded([("A", hostile)]) == start + Array("A\n".utf8) + [UInt8(hostile.count), 0, 0, 0, 0, 0, 0, 0] + hostile
        + [0x0A])
  }

  @Test func `cuts a value that is too long`() {
    let entry = encoded([("A", Array(repeating: 0x61, count: 100_000))])
    #expect(entry.count == start.count + 2 + JournalMessage.longestValue + 1)
  }
}

@Suite struct `The journal's socket` {
  @Test func `loses and counts what it can't take at once`() throws {
    let path = "/tmp/sallyport-journal-\(getpid())"
    let server = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)
    defer {
      close(server)
      unlink(path)
    }
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: Array(path.utf8)) }
    let bound = withUnsafeBytes(of: &address) { raw in
      bind(
        server, raw.baseAddress?.assumingMemoryBound(to: sockaddr.self),
        socklen_t(MemoryLayout<sockaddr_un>.size))
    }
    #expect(bound == 0)
    let files = LogFiles(journalPath: path) { _ in Recorder().handler() }
    let log = try files.accessLog(for: .journal)
    let writer = log.makeWriter()
    // Nobody reads: the queue of the socket fills up, and no call waits.
    for number in 0..<20_000 {
      Array("GET /\(number)".utf8).withUnsafeBytes { writer.append($0) }
      if log.failedWrites > 0 { break }
    }
    #expect(log.failedWrites == 1 && files.losses.total == 1)
    var room = [UInt8](repeating: 0, count: 4096)
    let count = recv(server, &room, room.count, Int32(MSG_DONTWAIT))
    #expect(
      String(decoding: room.prefix(max(0, count)), as: UTF8.self)
        == "PRIORITY=6\nSYSLOG_IDENTIFIER=sallyport\nMESSAGE=GET /0\n")
  }
}

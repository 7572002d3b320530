import Bytes
@testable import Features
@testable import Forward
import HTTP
import Observability
import Testing
@testable import Traffic
import Transport

@Suite struct `Bodies that are kept` {
  private func append(_ count: Int, to body: RequestBody) {
    [UInt8](repeating: 7, count: count).withUnsafeBytes { body.append($0) }
  }

  /// Does what a thread of the pool would do.
  private func write(_ body: RequestBody) throws {
    while let piece = body.nextPiece() {
      try #require(body.file).append(piece.bytes.readable)
      body.didWrite()
    }
  }

  @Test func `a body goes to a file beyond its allowance, whole`() throws {
    let body = RequestBody(allowance: 100)
    append(100, to: body)
    #expect(!body.isInFile && body.memory.count == 100)
    append(1, to: body)
    #expect(body.isInFile && body.memory.count == 101 && body.count == 101)
    // That isn't worth a job yet.
    #expect(body.nextPiece() == nil)
    body.end()
    #expect(!body.isComplete)
    try write(body)
    #expect(body.isComplete && body.memory.isEmpty)
    var bytes = [UInt8](repeating: 0, count: 200)
    let file = try #require(body.file)
    #expect(bytes.withUnsafeMutableBytes { file.read(at: 0, into: $0) } == 101)
    #expect(bytes.prefix(101).allSatisfy { $0 == 7 })
  }

  @Test func `the time in which a client waits for the disk isn't the client's`() throws {
    let body = RequestBody(allowance: 100)
    append(20_000, to: body)
    let piece = try #require(body.nextPiece())
    #expect(piece.bytes.count == 20_000 && !body.mustPause(now: 1000) && !body.mayResume(now: 1000))
    append(40_000, to: body)
    #expect(body.nextPiece() == nil && body.mustPause(now: 1000) && !body.mustPause(now: 2000))
    body.didWrite()
    #expect(body.mayResume(now: 6000) && body.begunAt == 5000 && !body.mayResume(now: 7000))
    #expect(body.nextPiece()?.bytes.count == 40_000)
  }

  @Test func `when a worker's bodies take enough, each further one gets 16 KiB`() throws {
    let gauge = BodyMemoryBudget(limit: 100_000)
    var first: RequestBody? = RequestBody(allowance: 1 << 20, gauge: gauge)
    append(100_000, to: try #require(first))
    #expect(gauge.used == 100_000)
    let second = RequestBody(allowance: 1 << 20, gauge: gauge)
    append(16_384, to: second)
    #expect(!second.isInFile && gauge.used == 116_384)
    append(1, to: second)
    #expect(second.isInFile && gauge.used == 116_385)
    try write(second)
    #expect(second.memory.isEmpty && gauge.used == 100_000)
    // A freed body returns its bytes to the gauge, and the next body may take them.
    first = nil
    #expect(gauge.used == 0)
    let third = RequestBody(allowance: 1 << 20, gauge: gauge)
    append(50_000, to: third)
    #expect(!third.isInFile && gauge.used == 50_000)
  }

  @Test func `an envelope stays in memory and counts, as what it held and answers do`() throws {
    let gauge = BodyMemoryBudget(limit: 100_000)
    var envelope: RequestBody? = RequestBody(envelopeIn: gauge)
    // With no other body in memory, an envelope may exceed the limit.
    #expect(gauge.admits(200_000, having: 0))
    append(200_000, to: try #require(envelope))
    #expect(envelope?.isInFile == false && gauge.used == 200_000)
    #expect(gauge.admits(300_000, having: 200_000))
    #expect(!gauge.admits(20_000, having: 0) && gauge.admits(16_384, having: 0))
    var plain = ByteBuffer()
    [UInt8](repeating: 7, count: 1000).withUnsafeBytes { plain.append($0) }
    var opened: RequestBody? = RequestBody(opened: plain, by: RequestHook(), gauge: gauge)
    #expect(opened?.count == 1000 && gauge.used == 201_000)
    envelope = nil
    #expect(gauge.used == 1000)
    var answer: BufferedResponse? = BufferedResponse(gauge: gauge)
    [UInt8](repeating: 7, count: 500).withUnsafeBytes { answer?.append($0) }
    #expect(answer?.body.count == 500 && gauge.used == 1500)
    (opened, answer) = (nil, nil)
    #expect(gauge.used == 0)
  }

  @Test func `a smaller allowance stays, and one without a gauge is counted nowhere`() throws {
    let gauge = BodyMemoryBudget(limit: 0)
    #expect(gauge.bound(100) == 100)
    let body = RequestBody(allowance: 1 << 20)
    append(1 << 20, to: body)
    #expect(!body.isInFile && gauge.used == 0)
  }
}

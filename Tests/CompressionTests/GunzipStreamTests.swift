import Bytes
import Compression
import TestSupport
import Testing

@Suite struct `Decompressing gzip` {
  private struct Result: Equatable {
    var output: [UInt8] = []
    var isComplete = false
    var fault: GunzipStream.Fault?
  }

  private static func compressed(_ bytes: [UInt8]) throws -> [UInt8] {
    let stream = try #require(GzipStream(level: 6, length: nil))
    var output = ByteBuffer()
    #expect(bytes.withUnsafeBytes { stream.compress($0, .finish, to: &output) })
    return Array(output.readable)
  }

  /// Decompresses in pieces, with at most `limit` bytes out of each call.
  private func decompressed(_ bytes: [UInt8], pieces: Int = .max, limit: Int = 1 << 20) throws -> Result {
    let stream = try #require(GunzipStream())
    var result = Result(), at = 0
    while at < bytes.count || stream.hasOutput {
      var made = ByteBuffer()
      do {
        at += try bytes[at...].prefix(pieces).withUnsafeBytes {
          try stream.decompress($0, upTo: limit, to: &made)
        }
      } catch {
        result.fault = error as? GunzipStream.Fault
      }
      #expect(made.count <= limit)
      result.output += made.readable
      if result.fault != nil { return result }
    }
    result.isComplete = stream.isComplete
    return result
  }

  private static let text = (0..<70_000).map { UInt8(truncatingIfNeeded: $0 &* $0 >> 3) }

  @Test(arguments: [1, 7, 1000, Int.max], [1, 100, 1 << 20])
  func `a body is the same in whatever pieces it comes and goes`(pieces: Int, limit: Int) throws {
    let bytes = try Self.compressed(Self.text)
    #expect(try decompressed(bytes, pieces: pieces, limit: limit) == Result(output: Self.text, isComplete: true))
  }

  @Test func `members that follow each other are one body`() throws {
    let bytes = try Self.compressed(Array("one ".utf8)) + Self.compressed([]) + Self.compressed(Array("two".utf8))
    for pieces in [1, 3, Int.max] {
      #expect(try decompressed(bytes, pieces: pieces) == Result(output: Array("one two".utf8), isComplete: true))
    }
  }

  @Test func `nothing at all is an empty body`() throws {
    #expect(try decompressed([]) == Result(isComplete: true))
  }

  @Test func `a body that ends anywhere before its end is not whole`() throws {
    let bytes = try Self.compressed(Array("some text, some text".utf8))
    for count in 1..<bytes.count {
      let result = try decompressed(Array(bytes[..<count]))
      #expect(!result.isComplete && result.fault == nil, "\(count)")
    }
  }

  @Test func `a flipped bit anywhere behind the head is a fault, or leaves the text as it is`() throws {
    let text = Array("some text, some text".utf8), bytes = try Self.compressed(text)
    for at in 10..<bytes.count {
      var damaged = bytes
      damaged[at] ^= 4
      let result = try decompressed(damaged)
      #expect(!result.isComplete || result.output == text, "\(at)")
    }
  }

  @Test func `what is no gzip, or follows a member and is none, is damaged`() throws {
    #expect(try decompressed(Array("plain text".utf8)).fault == .damaged)
    let behind = try decompressed(Self.compressed([1, 2]) + [0])
    #expect(behind.output == [1, 2] && !behind.isComplete)
    #expect(try decompressed(Self.compressed([1, 2]) + [0, 0]).fault == .damaged)
  }

  @Test func `a stream that has failed stays failed`() throws {
    let stream = try #require(GunzipStream())
    var output = ByteBuffer()
    for bytes in [Array("plain".utf8), try Self.compressed([1])] {
      #expect(throws: GunzipStream.Fault.damaged) {
        try bytes.withUnsafeBytes {
          _ = try stream.decompress($0, upTo: 10, to: &output)
        }
      }
    }
    #expect(output.isEmpty && !stream.isComplete)
  }

  @Test func `a few bytes that stand for many come out a limit at a time`() throws {
    let bomb = try Self.compressed([UInt8](repeating: 0, count: 10 << 20))
    #expect(bomb.count < 11_000)
    let stream = try #require(GunzipStream())
    var made = ByteBuffer()
    let used = try bomb.withUnsafeBytes {
      try stream.decompress($0, upTo: 65_536, to: &made)
    }
    #expect(made.count == 65_536 && used < bomb.count && stream.hasOutput && !stream.isComplete)
  }

  @Test(arguments: FuzzInput.all(of: "FuzzGunzip")) func `what a fuzzer found doesn't depend on the pieces`(
    input: FuzzInput
  ) throws {
    #expect(try decompressed(input.text, pieces: 3, limit: 1000) == decompressed(input.text))
  }
}

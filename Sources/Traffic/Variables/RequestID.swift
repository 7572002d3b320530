package import Bytes
import Crypto

/// Random words for identifiers. The kernel gives them 32 at a time, because a system call for each would cost more than
/// the rest of a log line.
package struct RandomWords: RandomNumberGenerator {
  private var words: [UInt64] = []

  package mutating func next() -> UInt64 {
    if words.isEmpty, let bytes = SystemRandom.bytes(256) {
      words = bytes.withUnsafeBytes { Array($0.bindMemory(to: UInt64.self)) }
    }
    if let word = words.popLast() { return word }
    var generator = SystemRandomNumberGenerator()
    return generator.next()
  }
}

/// `$request_id`: 16 random bytes, as 32 hexadecimal digits.
package struct RequestID {
  private let first: UInt64, second: UInt64

  package init(_ words: inout RandomWords) {
    first = words.next()
    second = words.next()
  }

  package func append(to output: inout ByteBuffer) {
    Hex.encode(first, into: &output)
    Hex.encode(second, into: &output)
  }
}

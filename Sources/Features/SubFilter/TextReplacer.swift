package import Bytes

/// Replaces texts in a stream of bytes. Pure: it knows no response, and what comes out doesn't depend on how the bytes are
/// cut into pieces.
///
/// As in nginx, the text that begins first is replaced, and of several that begin at one byte the one whose line stands first.
/// A replacement is not looked into. It keeps fewer bytes than the longest text has.
package struct TextReplacer {
  private let table: SearchTable
  /// Whether each text is replaced once.
  private let isOnce: Bool
  private var isDone: [Bool]
  private var remaining: Int
  private var state: Int32 = 0
  /// Bytes that a text may begin with, the oldest first, and for each of them the text that begins there; -1: none.
  private var waiting: [UInt8] = []
  private var matches: [Int32] = []
  /// Of these, the ones that have gone on.
  private var gone = 0

  package init(_ table: SearchTable, isOnce: Bool) {
    self.table = table
    self.isOnce = isOnce
    isDone = Array(repeating: false, count: table.lengths.count)
    remaining = table.lengths.count
  }

  /// Whether all further bytes stay as they are.
  var isFinished: Bool { remaining == 0 && count == 0 }

  private var count: Int { waiting.count - gone }

  /// Takes bytes, and appends to `output` what is decided of them. Stops when `output` has `room` bytes or more: returns
  /// how many bytes it has taken. `replacement`: called with the number of a text.
  package mutating func replace(
    _ bytes: UnsafeRawBufferPointer, to output: inout ByteBuffer, room: Int,
    _ replacement: (Int) -> [UInt8]
  ) -> Int {
    var taken = 0
    settle(isEnd: false, &output, room, replacement)
    while taken < bytes.count, output.count < room {
      if count == 0 {
        let start = taken
        let end = start + min(bytes.count - start, room - output.count)
        taken = remaining == 0 ? end : table.beginning(in: bytes, from: taken, to: end)
        if taken > start { output.append(UnsafeRawBufferPointer(rebasing: bytes[start..<taken])) }
        if taken == end { continue }
      }
      take(bytes[taken])
      taken += 1
      settle(isEnd: false, &output, room, replacement)
    }
    return taken
  }

  /// No byte follows: appends the rest, or `room` bytes and a little more of it. Returns whether that was all.
  package mutating func finish(to output: inout ByteBuffer, room: Int, _ replacement: (Int) -> [UInt8]) -> Bool {
    settle(isEnd: true, &output, room, replacement)
    return count == 0
  }

  // MARK: One byte

  private mutating func take(_ byte: UInt8) {
    waiting.append(byte)
    matches.append(-1)
    state = table.step(state, byte)
    table.texts(endingAt: state) { text in
      let start = waiting.count - table.lengths[text]
      if !isDone[text], matches[start] < 0 || matches[start] > text {
        matches[start] = Int32(truncatingIfNeeded: text)
      }
    }
  }

  /// Decides what can be decided, from the oldest byte on.
  private mutating func settle(isEnd: Bool, _ output: inout ByteBuffer, _ room: Int, _ replacement: (Int) -> [UInt8]) {
    while count > 0, output.count < room {
      let match = Int(matches[gone])
      // A text that begins with all that waits may still come.
      if !isEnd, remaining > 0, table.length(state) == count {
        guard match >= 0, table.least(beginningWith: state) > match else { break }
      }
      guard match >= 0 else {
        output.append(waiting[gone])
        gone += 1
        continue
      }
      output.append(replacement(match))
      gone += table.lengths[match]
      state = table.shortened(state, to: count)
      if isOnce { forget(match) }
    }
    if gone == waiting.count || gone > 4096 && gone > count {
      waiting.removeFirst(gone)
      matches.removeFirst(gone)
      gone = 0
    }
  }

  /// A text was replaced, and is looked for no more: looks at what waits again.
  private mutating func forget(_ text: Int) {
    isDone[text] = true
    remaining -= 1
    let rest = Array(waiting[gone...])
    waiting.removeAll(keepingCapacity: true)
    matches.removeAll(keepingCapacity: true)
    (gone, state) = (0, 0)
    if remaining == 0 {
      waiting = rest
      matches = Array(repeating: -1, count: rest.count)
    } else {
      for byte in rest { take(byte) }
    }
  }
}

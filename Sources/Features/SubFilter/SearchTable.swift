import Bytes

/// Several texts to look for at once, whatever the case of their letters, as the automaton of Aho and Corasick: one step for
/// each byte, however many texts there are. Immutable.
///
/// A state is the longest end of the bytes so far with which one of the texts begins; state 0 is no byte.
package final class SearchTable: Sendable {
  /// The length of each text.
  package let lengths: [Int]
  package let longest: Int
  private let states: [State]
  /// The state after one byte that none comes before.
  private let first: [Int32]
  /// The next text that is the same as a text, in the order of the texts; -1: none is.
  private let twins: [Int32]

  private struct State {
    /// Of the edge that leads here.
    var byte: UInt8 = 0
    var length: Int32 = 0
    /// The states one byte longer are a list: the first one, and the next one of the list that this state is in. 0: none.
    var child: Int32 = 0
    var sibling: Int32 = 0
    /// The longest state that ends as this one does.
    var shorter: Int32 = 0
    /// The first text that is this state; -1: none is.
    var text: Int32 = -1
    /// The longest state that ends as this one does and is a text; 0: none is.
    var shorterText: Int32 = 0
    /// The least text that begins with this state and is longer.
    var least = Int32.max
  }

  /// `texts`: none of them empty.
  package init(_ texts: [[UInt8]]) {
    var states = [State()]
    var twins = [Int32](repeating: -1, count: texts.count)
    for (index, text) in texts.enumerated() {
      let index = Int32(truncatingIfNeeded: index)
      var state: Int32 = 0
      for byte in text {
        states[Int(state)].least = min(states[Int(state)].least, index)
        state = Self.child(of: state, by: ASCII.lower(byte), &states)
      }
      if states[Int(state)].text < 0 {
        states[Int(state)].text = index
      } else {
        var last = Int(states[Int(state)].text)
        while twins[last] >= 0 { last = Int(twins[last]) }
        twins[last] = index
      }
    }
    var first = [Int32](repeating: 0, count: 256)
    var child = states[0].child
    while child > 0 {
      first[Int(states[Int(child)].byte)] = child
      child = states[Int(child)].sibling
    }
    self.first = first.indices.map { first[Int(ASCII.lower(UInt8(truncatingIfNeeded: $0)))] }
    self.twins = twins
    lengths = texts.map(\.count)
    longest = lengths.max() ?? 0
    self.states = Self.linked(states)
  }

  private static func child(of state: Int32, by byte: UInt8, _ states: inout [State]) -> Int32 {
    var child = states[Int(state)].child
    while child > 0 {
      if states[Int(child)].byte == byte { return child }
      child = states[Int(child)].sibling
    }
    child = Int32(truncatingIfNeeded: states.count)
    states.append(
      State(byte: byte, length: states[Int(state)].length + 1, sibling: states[Int(state)].child))
    states[Int(state)].child = child
    return child
  }

  /// Finds for each state the longest one that ends as it does, by increasing length.
  private static func linked(_ plain: [State]) -> [State] {
    var states = plain
    var queue: [Int32] = [0]
    var next = 0
    while next < queue.count {
      let state = queue[next]
      next += 1
      var child = states[Int(state)].child
      while child > 0 {
        queue.append(child)
        if state > 0 {
          let byte = states[Int(child)].byte
          var shorter = states[Int(state)].shorter, found: Int32 = 0
          while true {
            found = edge(from: shorter, by: byte, states)
            if found > 0 || shorter == 0 { break }
            shorter = states[Int(shorter)].shorter
          }
          states[Int(child)].shorter = found
          states[Int(child)].shorterText =
            states[Int(found)].text >= 0 ? found : states[Int(found)].shorterText
        }
        child = states[Int(child)].sibling
      }
    }
    return states
  }

  private static func edge(from state: Int32, by byte: UInt8, _ states: [State]) -> Int32 {
    var child = states[Int(state)].child
    while child > 0, states[Int(child)].byte != byte { child = states[Int(child)].sibling }
    return child
  }

  // MARK: Looking

  /// The first place in a range of bytes where a text may begin; its end if there is none.
  func beginning(in bytes: UnsafeRawBufferPointer, from start: Int, to end: Int) -> Int {
    first.withUnsafeBufferPointer { first in
      var place = start
      while place < end, first[Int(bytes[place])] == 0 { place += 1 }
      return place
    }
  }

  func step(_ state: Int32, _ byte: UInt8) -> Int32 {
    if state == 0 { return first[Int(byte)] }
    let byte = ASCII.lower(byte)
    var state = state
    while state > 0 {
      let next = Self.edge(from: state, by: byte, states)
      if next > 0 { return next }
      state = states[Int(state)].shorter
    }
    return first[Int(byte)]
  }

  /// The bytes of the state.
  func length(_ state: Int32) -> Int { Int(states[Int(state)].length) }

  /// The longest state of at most `count` bytes that ends as this one does.
  func shortened(_ state: Int32, to count: Int) -> Int32 {
    var state = state
    while length(state) > count { state = states[Int(state)].shorter }
    return state
  }

  /// The least text that is longer than the state and begins with it.
  func least(beginningWith state: Int32) -> Int { Int(states[Int(state)].least) }

  /// Calls `found` with each text that the bytes so far end with.
  func texts(endingAt state: Int32, _ found: (Int) -> Void) {
    var state = states[Int(state)].text >= 0 ? state : states[Int(state)].shorterText
    while state > 0 {
      var text = states[Int(state)].text
      while text >= 0 {
        found(Int(text))
        text = twins[Int(text)]
      }
      state = states[Int(state)].shorterText
    }
  }
}

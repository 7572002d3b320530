import Bytes
@testable import Features
import TestSupport
import Testing

@Suite struct `The replacer of texts` {
  private func replaced(
    _ texts: [String], _ body: String, once: Bool = false, pieces: [Int], room: Int = 1 << 20
  ) -> String {
    let bytes = replaced(texts.map { Array($0.utf8) }, Array(body.utf8), once: once, pieces: pieces, room: room)
    return String(decoding: bytes, as: UTF8.self)
  }

  /// What comes out for bytes that are cut at these places, with so much room at a time.
  private func replaced(_ texts: [[UInt8]], _ body: [UInt8], once: Bool, pieces: [Int], room: Int) -> [UInt8] {
    var replacer = TextReplacer(SearchTable(texts), isOnce: once)
    var whole: [UInt8] = [], output = ByteBuffer(), start = 0
    for end in pieces + [body.count] {
      var piece = Array(body[start..<end])
      while !piece.isEmpty {
        let count = piece.withUnsafeBytes { replacer.replace($0, to: &output, room: room) { Array("<\($0)>".utf8) } }
        piece.removeFirst(count)
        whole += Array(output.readable)
        output.removeAll()
      }
      start = end
    }
    var isWhole = false
    while !isWhole {
      isWhole = replacer.finish(to: &output, room: room) { Array("<\($0)>".utf8) }
      whole += Array(output.readable)
      output.removeAll()
    }
    return whole
  }

  private func expected(_ texts: [String], _ body: String, once: Bool) -> String {
    String(decoding: expected(texts.map { Array($0.utf8) }, Array(body.utf8), once: once), as: UTF8.self)
  }

  /// The rule as it is said: the first place, and of texts that begin there the first line.
  private func expected(_ texts: [[UInt8]], _ body: [UInt8], once: Bool) -> [UInt8] {
    let lower = body.map(ASCII.lower), texts = texts.map { $0.map(ASCII.lower) }
    var whole: [UInt8] = [], start = 0, done: Set<Int> = []
    while start < body.count {
      let found = texts.indices.first { !done.contains($0) && lower[start...].starts(with: texts[$0]) }
      if let found {
        whole += Array("<\(found)>".utf8)
        start += texts[found].count
        if once { done.insert(found) }
      } else {
        whole.append(body[start])
        start += 1
      }
    }
    return whole
  }

  @Test(arguments: FuzzInput.all(of: "FuzzSubFilter")) func `inputs of the fuzzer come out the same in any pieces`(
    input: FuzzInput
  ) {
    let lines = input.text.split(separator: 0x0A, omittingEmptySubsequences: false).map(Array.init)
    let texts = Array(lines.prefix { !$0.isEmpty })
    let body = Array(lines.dropFirst(texts.count + 1).joined(separator: [0x0A]))
    for once in [false, true] {
      let expected = expected(texts, body, once: once)
      for size in 1...9 {
        let pieces = Array(stride(from: 0, to: body.count, by: size))
        #expect(replaced(texts, body, once: once, pieces: pieces, room: size) == expected)
      }
    }
  }

  private static let sets: [[String]] = [
    ["a"], ["aa"], ["aab"], ["ab", "a"], ["a", "ab"], ["abab", "ba"], ["ba", "abab"], ["b", "aab", "a"], ["aaab", "a"],
    ["a", "a"], ["ab", "ab", "b"], ["abb", "bb", "b"], ["baab", "aa", "ab", "b"], ["x"],
  ]

  @Test(arguments: sets)
  func `replaces in each short body what the rule says, however it is cut`(texts: [String]) {
    for length in 0...5 {
      for number in 0..<(1 << length) {
        let body = String((0..<length).map { number >> $0 & 1 == 0 ? "a" : "b" } as [Character])
        for once in [false, true] {
          let expected = expected(texts, body, once: once)
          for cuts in 0..<(1 << max(0, length - 1)) {
            let pieces = (1..<max(1, length)).filter { cuts >> ($0 - 1) & 1 == 1 }
            let got = replaced(texts, body, once: once, pieces: pieces)
            guard got == expected else {
              Issue.record("\(texts) in \(body) cut at \(pieces), once \(once): \(got), not \(expected)")
              return
            }
          }
        }
      }
    }
  }

  @Test func `takes letters of either case, and leaves the other bytes as they are`() {
    #expect(replaced(["HTTP://Ä"], "x http://Ä HTTP://ä", pieces: [5]) == "x <0> HTTP://ä")
  }

  @Test(arguments: [1, 2, 5])
  func `stops when the room is used, and goes on later`(room: Int) {
    for texts in Self.sets {
      for body in ["aabababbbaab", "aaaaaaaa", "bbbbbb"] {
        let whole = expected(texts, body, once: false)
        #expect(replaced(texts, body, pieces: [3, 4], room: room) == whole)
      }
    }
  }

  @Test func `keeps no more than the longest text needs`() {
    var replacer = TextReplacer(SearchTable([Array("abcabcd".utf8)]), isOnce: false)
    var output = ByteBuffer()
    let body = Array(String(repeating: "abcabc", count: 10_000).utf8)
    let count = body.withUnsafeBytes { replacer.replace($0, to: &output, room: .max) { _ in [] } }
    #expect(count == body.count && output.count > body.count - 7)
  }

  @Test func `a replacement is not looked into`() {
    var replacer = TextReplacer(SearchTable([Array("a".utf8)]), isOnce: false)
    var output = ByteBuffer()
    _ = Array("aXa".utf8).withUnsafeBytes { replacer.replace($0, to: &output, room: .max) { _ in Array("aa".utf8) } }
    #expect(String(decoding: Array(output.readable), as: UTF8.self) == "aaXaa")
  }

  @Test func `texts that are looked for once cost nothing afterwards`() {
    var replacer = TextReplacer(SearchTable([Array("ab".utf8)]), isOnce: true)
    var output = ByteBuffer()
    _ = Array("abaab".utf8).withUnsafeBytes { replacer.replace($0, to: &output, room: .max) { _ in [] } }
    #expect(String(decoding: Array(output.readable), as: UTF8.self) == "aab" && replacer.isFinished)
  }
}

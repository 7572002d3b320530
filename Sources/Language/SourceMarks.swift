/// What the files of a configuration said when they were read, as far as it takes to find the lines that say something else
/// by now. A mark doesn't reveal its line.
package struct SourceMarks: Sendable, Hashable {
  package struct File: Sendable, Hashable {
    package let path: String
    /// Of each line that is more than a comment, in order.
    package var lines: [UInt32]

    package init(_ path: String, lines: [UInt32]) { (self.path, self.lines) = (path, lines) }
  }

  /// The main file is the first.
  package var files: [File]

  package init(_ files: [(path: String, bytes: [UInt8])] = []) {
    self.files = files.map { File($0.path, lines: Self.lines(of: $0.bytes).map(\.mark)) }
  }

  /// The lines that are more than a comment, without the blanks around them.
  private static func lines(of bytes: [UInt8]) -> [(number: Int, mark: UInt32)] {
    var found: [(number: Int, mark: UInt32)] = []
    for (index, line) in bytes.split(separator: 0x0A, omittingEmptySubsequences: false).enumerated() {
      var line = line.drop { isBlank($0) }
      while let last = line.last, isBlank(last) { line.removeLast() }
      if let first = line.first, first != 0x23 { found.append((index + 1, mark(of: line))) }
    }
    return found
  }

  private static func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 || byte == 0x0D }

  /// FNV-1a, folded.
  private static func mark(of line: ArraySlice<UInt8>) -> UInt32 {
    let hash = line.reduce(0xCBF2_9CE4_8422_2325 as UInt64) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }
    return UInt32(truncatingIfNeeded: hash ^ (hash >> 32))
  }

  /// Places of `now` that say something else. The main files are compared whatever their names are, and the others by their
  /// paths from its folder: whoever asks may spell that otherwise.
  package func differences(from now: [(path: String, bytes: [UInt8])]) -> [String] {
    guard let main = files.first, let ownMain = now.first else { return [] }
    let (folder, ownFolder) = (Self.folder(of: main.path), Self.folder(of: ownMain.path))
    var left: [Substring: File] = [:]
    for file in files.dropFirst() { left[Self.name(of: file.path, in: folder)] = file }
    left[""] = main
    var places: [String] = []
    for (index, file) in now.enumerated() {
      let name = index == 0 ? "" : Self.name(of: file.path, in: ownFolder)
      guard let former = left.removeValue(forKey: name) else {
        places.append("\(file.path) is new")
        continue
      }
      if let words = Self.difference(former.lines, Self.lines(of: file.bytes)) { places.append("\(file.path)\(words)") }
    }
    return places + left.values.map { "\($0.path) is gone" }.sorted()
  }

  private static func folder(of path: String) -> String {
    path.lastIndex(of: "/").map { String(path[...$0]) } ?? ""
  }

  private static func name(of path: String, in folder: String) -> Substring {
    path.hasPrefix(folder) ? path.dropFirst(folder.count) : path[...]
  }

  /// `:3, 7-9 (2 lines that serve are gone)`; nil: nothing differs.
  private static func difference(_ former: [UInt32], _ now: [(number: Int, mark: UInt32)]) -> String? {
    var left = former.reduce(into: [UInt32: Int]()) { $0[$1, default: 0] += 1 }
    var numbers: [ClosedRange<Int>] = []
    for (number, mark) in now {
      if let count = left[mark], count > 0 {
        left[mark] = count - 1
      } else if let last = numbers.last, last.upperBound == number - 1 {
        numbers[numbers.count - 1] = last.lowerBound...number
      } else {
        numbers.append(number...number)
      }
    }
    let gone = left.values.reduce(0, +)
    if numbers.isEmpty, gone == 0 {
      return former == now.map(\.mark) ? nil : " has its lines in another order"
    }
    let shown = numbers.prefix(mostRanges).map {
      $0.count == 1 ? "\($0.lowerBound)" : "\($0.lowerBound)-\($0.upperBound)"
    }
    let more = numbers.count > mostRanges ? ", …" : ""
    let absent =
      gone == 0 ? "" : " (\(gone) \(gone == 1 ? "line that serves is" : "lines that serve are") no longer there)"
    return (numbers.isEmpty ? "" : ":\(shown.joined(separator: ", "))\(more)") + absent
  }

  private static let mostRanges = 6
}

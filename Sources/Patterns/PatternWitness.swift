import Bytes

extension RegularExpression {
  /// A text that the expression matches, found by trying; nil: none is found, which says nothing of whether there is one.
  ///
  /// The first alternative and the shortest repetition of each part are tried. The expression itself judges the text, so
  /// what is returned matches. `isFit`: whether the caller can use a text.
  package func witness(_ isFit: ([UInt8]) -> Bool = { _ in true }) -> [UInt8]? {
    let scratch = Scratch()
    for start in ["", "/", "/x", "x"] {
      for alternative in 0..<4 {
        var sketch = PatternSketch(pattern, taking: alternative)
        guard let middle = sketch.text() else { break }
        for text in [start + middle, start + middle + "x"] {
          let bytes = Array(text.utf8)
          guard isFit(bytes) else { continue }
          var captures = Captures()
          let outcome = bytes.withUnsafeBytes { match($0, scratch: scratch, into: &captures) }
          if outcome == .match { return bytes }
        }
      }
    }
    return nil
  }
}

/// Reads as much of an expression as it takes to write a text that may match.
private struct PatternSketch {
  private var rest: Substring
  /// Which alternative of each group is taken, if it has so many.
  private let alternative: Int
  private var depth = 0

  init(_ pattern: String, taking alternative: Int) {
    rest = pattern[...]
    self.alternative = alternative
  }

  /// nil: the expression has a part that this reader doesn't know.
  mutating func text() -> String? {
    guard let text = group(), rest.isEmpty else { return nil }
    return text
  }

  private mutating func group() -> String? {
    depth += 1
    defer { depth -= 1 }
    guard depth < 32 else { return nil }
    var options: [String] = []
    var current = ""
    while let character = rest.first {
      if character == ")" { break }
      rest.removeFirst()
      if character == "|" {
        options.append(current)
        current = ""
        continue
      }
      if character == "^" || character == "$" { continue }
      guard let part = atom(character), let count = repetition() else { return nil }
      current += String(repeating: part, count: count)
    }
    options.append(current)
    return options[min(alternative, options.count - 1)]
  }

  private mutating func atom(_ character: Character) -> String? {
    switch character {
    case ".": return "a"
    case "[": return set()
    case "(":
      if rest.first == "?" {
        rest.removeFirst()
        if rest.hasPrefix(":") {
          rest.removeFirst()
        } else if rest.hasPrefix("<") || rest.hasPrefix("P<"), let end = rest.firstIndex(of: ">"),
          !rest.hasPrefix("<="), !rest.hasPrefix("<!")
        {
          rest = rest[rest.index(after: end)...]
        } else {
          return nil
        }
      }
      guard let inner = group(), rest.first == ")" else { return nil }
      rest.removeFirst()
      return inner
    case "\\":
      guard let escaped = rest.popFirst() else { return nil }
      return Self.escaped(escaped)
    default: return String(character)
    }
  }

  private static func escaped(_ character: Character) -> String? {
    switch character {
    case "d": "0"
    case "w": "a"
    case "s": " "
    case "S", "D", "N": "a"
    case "W": "-"
    case "b", "A", "z", "Z", "B": ""
    case _ where character.isLetter || character.isNumber: nil
    default: String(character)
    }
  }

  private mutating func set() -> String? {
    var isNegated = false
    if rest.first == "^" {
      isNegated = true
      rest.removeFirst()
    }
    var members: [Character] = []
    while let character = rest.popFirst() {
      if character == "]", !members.isEmpty { break }
      if character == "[", rest.first == ":" { return nil }
      if character == "\\", let next = rest.popFirst() {
        guard let text = Self.escaped(next) else { return nil }
        members += Array(text)
      } else {
        members.append(character)
      }
      if rest.isEmpty { return nil }
    }
    guard let first = members.first else { return nil }
    if !isNegated { return String(first) }
    return "ax0-_".first { !members.contains($0) }.map { String($0) }
  }

  /// How often the part stands in the text; nil: it can't be read.
  private mutating func repetition() -> Int? {
    guard let mark = rest.first else { return 1 }
    var count = 1
    switch mark {
    case "*", "?", "+": rest.removeFirst()
    case "{":
      guard let end = rest.firstIndex(of: "}") else { return nil }
      let numbers = rest[rest.index(after: rest.startIndex)..<end]
      guard let least = Int(numbers.prefix(while: \.isNumber)), least <= 256 else { return nil }
      count = max(least, 1)
      rest = rest[rest.index(after: end)...]
    default: return 1
    }
    if let lazy = rest.first, lazy == "?" || lazy == "+" { rest.removeFirst() }
    return count
  }
}

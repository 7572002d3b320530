/// A pattern with `*` for one label or path segment and `**` for any number of them.
///
/// `*` does not match `. / @ :`. A wildcard that replaces whole labels matches at least one byte; beside other text
/// (`web*`) it may match nothing. Matching takes time proportional to pattern × value, whatever they are.
struct ValuePattern: Sendable, Hashable {
  private enum Token: Sendable, Hashable {
    case literal([UInt8])
    case wildcard(crossesLabels: Bool, mayBeEmpty: Bool)
  }

  private let tokens: [Token]

  /// Returns nil for three or more asterisks in a row, which have no meaning.
  init?(_ text: [UInt8]) {
    let asterisk = UInt8(ascii: "*")
    var tokens: [Token] = []
    var index = 0
    while index < text.count {
      let rest = text[index...]
      if text[index] == asterisk {
        let count = rest.prefix { $0 == asterisk }.count
        guard count < 3 else { return nil }
        let startsLabel = index == 0 || Self.isSeparator(text[index - 1])
        let endsLabel = index + count == text.count || Self.isSeparator(text[index + count])
        tokens.append(.wildcard(crossesLabels: count == 2, mayBeEmpty: !(startsLabel && endsLabel)))
        index += count
      } else {
        let literal = rest.prefix { $0 != asterisk }
        tokens.append(.literal(Array(literal)))
        index += literal.count
      }
    }
    self.tokens = tokens
  }

  /// A value that the pattern matches and that is fit; nil: none is found. `texts`: what may stand for a wildcard.
  func witness(filling texts: [String], _ isFit: ([UInt8]) -> Bool) -> [UInt8]? {
    for many in texts {
      for one in texts {
        let value = tokens.flatMap { token -> [UInt8] in
          switch token {
          case .literal(let text): text
          case .wildcard(let crossesLabels, _): Array((crossesLabels ? many : one).utf8)
          }
        }
        if isFit(value), matches(value) { return value }
      }
    }
    return nil
  }

  /// Whether the pattern matches the whole value.
  func matches(_ value: [UInt8]) -> Bool {
    // Most patterns have no wildcard, and a configuration may have a thousand of them.
    if tokens.count == 1, case .literal(let text) = tokens[0] { return text == value }
    // The positions of the value that the tokens so far can reach.
    var reached = [Bool](repeating: false, count: value.count + 1)
    reached[0] = true
    for token in tokens {
      var next = [Bool](repeating: false, count: value.count + 1)
      switch token {
      case .literal(let text):
        guard text.count <= value.count else { return false }
        for start in 0...(value.count - text.count) where reached[start] {
          next[start + text.count] = value[start..<start + text.count].elementsEqual(text)
        }
      case .wildcard(let crosses, let mayBeEmpty):
        var isRunning = false
        for place in 0...value.count {
          if place > 0 {
            isRunning = (isRunning || reached[place - 1]) && (crosses || !Self.isSeparator(value[place - 1]))
          }
          next[place] = isRunning || (mayBeEmpty && reached[place])
        }
      }
      reached = next
    }
    return reached[value.count]
  }

  private static func isSeparator(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "."), UInt8(ascii: "/"), UInt8(ascii: "@"), UInt8(ascii: ":"): true
    default: false
    }
  }
}

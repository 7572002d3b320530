/// The text of a regular expression, taken apart as far as rules about configurations need it: its alternatives, its groups,
/// and whether it begins and ends with the whole text. It is read as PCRE2 reads it, without the syntax of `(?x)`.
package struct PatternText {
  private let bytes: ArraySlice<UInt8>

  package init(_ text: String) { bytes = Array(text.utf8)[...] }

  private init(_ bytes: ArraySlice<UInt8>) { self.bytes = bytes }

  // MARK: Groups

  /// A capturing group.
  package struct Group {
    /// What stands in it.
    package let content: PatternText
    /// Whether each match of the pattern goes through it, as far as its place tells.
    package let isInEachMatch: Bool
    fileprivate let name: String?
  }

  /// The capturing group of a number, or of a name; nil: there is none.
  package func group(_ number: Int) -> Group? {
    let groups = capturingGroups(areInEachMatch: true)
    return groups.indices.contains(number - 1) ? groups[number - 1] : nil
  }

  package func group(named name: String) -> Group? {
    capturingGroups(areInEachMatch: true).first { $0.name == name }
  }

  private func capturingGroups(areInEachMatch: Bool) -> [Group] {
    let tokens = tokens(entersGroups: false)
    let isOnlyWay = areInEachMatch && !tokens.contains(.alternative)
    var found: [Group] = []
    for (index, token) in tokens.enumerated() {
      guard case .group(let opening, let content) = token else { continue }
      let inner = PatternText(content)
      var isInEachMatch = isOnlyWay && !(tokens.dropFirst(index + 1).first?.mayBeNone ?? false)
      switch opening {
      case .capturing(let name):
        found.append(Group(content: inner, isInEachMatch: isInEachMatch, name: name))
      // It may be an assertion, which can ask for the opposite.
      case .other: isInEachMatch = false
      }
      found += inner.capturingGroups(areInEachMatch: isInEachMatch)
    }
    return found
  }

  /// Whether the pattern can match any of these characters by something other than the characters themselves: by `.`, or by
  /// a class that has one of them.
  package func isOpen(to characters: String) -> Bool {
    tokens(entersGroups: true).contains { token in
      switch token {
      case .anything: true
      case .class(let text, let isNegated): characters.utf8.contains { text.contains($0) != isNegated }
      case .escape(let byte): byte == UInt8(ascii: "S") || byte == UInt8(ascii: "D") || byte == UInt8(ascii: "W")
      case .literal, .start, .end, .group, .alternative, .quantifier: false
      }
    }
  }

  /// Whether each match begins with this character.
  package func begins(with byte: UInt8) -> Bool {
    Self.alternatives(tokens(entersGroups: false)).allSatisfy { alternative in
      let rest = alternative.first == .start ? alternative.dropFirst() : alternative[...]
      guard let first = rest.first, !(rest.dropFirst().first?.mayBeNone ?? false) else { return false }
      switch first {
      case .literal(byte): return true
      case .group(.capturing, let content): return PatternText(content).begins(with: byte)
      default: return false
      }
    }
  }

  /// How many of this character each match has at least, outside its groups.
  package func leastCount(of byte: UInt8) -> Int {
    Self.alternatives(tokens(entersGroups: false)).map { alternative in
      alternative.indices.count { index in
        alternative[index] == .literal(byte) && !(alternative.dropFirst(index + 1).first?.mayBeNone ?? false)
      }
    }.min() ?? 0
  }

  /// Whether a match can have this character.
  package func mayHave(_ byte: UInt8) -> Bool {
    isOpen(to: String(decoding: [byte], as: UTF8.self)) || tokens(entersGroups: true).contains(.literal(byte))
  }

  // MARK: Names

  /// Whether it tells which paths it matches by a few names: of folders at their begin, as `^/(css|js)/`, or of files, or
  /// the endings of these, at their end, as `\.(css|js)$`.
  package var tellsNames: Bool {
    Self.alternatives(tokens(entersGroups: false)).allSatisfy {
      Self.beginsInName($0) || $0.last == .end && Self.endsInName($0.dropLast())
    }
  }

  private static func beginsInName(_ alternative: [Token]) -> Bool {
    guard alternative.starts(with: [.start, .literal(slash)]) else { return false }
    var hasName = false
    for (index, token) in alternative.enumerated().dropFirst(2) {
      if alternative.dropFirst(index + 1).first?.mayBeNone ?? false { return false }
      if token == .end || token == .literal(slash) { return hasName }
      guard isWord(token) else { return false }
      hasName = true
    }
    return false
  }

  /// Whether it ends in a word behind a slash or a point.
  private static func endsInName(_ alternative: ArraySlice<Token>) -> Bool {
    var hasName = false, isOptional = false
    for token in alternative.reversed() {
      if case .quantifier(let mayBeNone) = token {
        isOptional = isOptional || mayBeNone
        continue
      }
      if hasName, !isOptional, token == .literal(slash) || token == .literal(UInt8(ascii: ".")) { return true }
      if case .group(_, let content) = token, !isOptional,
        alternatives(PatternText(content).tokens(entersGroups: false)).allSatisfy({ endsInName($0[...]) })
      {
        return true
      }
      guard isWord(token) else { return hasName && token == .start }
      hasName = true
      isOptional = false
    }
    return false
  }

  /// Whether the token matches texts that it names: letters, those of a list, or words of a group.
  private static func isWord(_ token: Token) -> Bool {
    switch token {
    case .literal, .quantifier, .alternative: true
    case .class(let text, let isNegated): !isNegated && !text.contains(UInt8(ascii: "-")) && !text.contains(backslash)
    case .group(_, let content): PatternText(content).tokens(entersGroups: false).allSatisfy(isWord)
    case .start, .end, .anything, .escape: false
    }
  }

  private static let slash = UInt8(ascii: "/"), backslash = UInt8(ascii: "\\")

  /// Whether it has a letter or a digit that a text must have.
  package var hasLiteral: Bool {
    tokens(entersGroups: true).contains { token in
      if case .literal(let byte) = token { Self.isLetterOrDigit(byte) } else { false }
    }
  }

  // MARK: Bounds

  /// Whether each match begins where the text does, or behind one of the separators.
  package func beginsAtBound(_ separators: Set<UInt8>) -> Bool {
    Self.alternatives(tokens(entersGroups: false)).allSatisfy { Self.isBound($0, separators, .front) }
  }

  /// Whether each match ends where the text does, or in front of one of the separators.
  package func endsAtBound(_ separators: Set<UInt8>) -> Bool {
    Self.alternatives(tokens(entersGroups: false)).allSatisfy { Self.isBound($0, separators, .back) }
  }

  private enum Side { case front, back }

  private static func alternatives(_ tokens: [Token]) -> [[Token]] {
    tokens.split(separator: .alternative, omittingEmptySubsequences: false).map(Array.init)
  }

  private static func isBound(_ alternative: [Token], _ separators: Set<UInt8>, _ side: Side) -> Bool {
    var rest = side == .front ? alternative[...] : alternative.reversed()[...]
    let edge: Token = side == .front ? .start : .end
    if rest.first == edge {
      rest = rest.dropFirst()
      guard dropWildcard(&rest, side) else { return true }
    } else {
      _ = dropWildcard(&rest, side)
    }
    let quantifier = side == .back ? rest.first : rest.dropFirst().first
    let isOptional = quantifier?.mayBeNone ?? false
    if side == .back { _ = dropQuantifier(&rest) }
    guard let first = rest.first else { return false }
    switch first {
    case .literal(let byte): return separators.contains(byte) && !isOptional
    case .class(let text, let isNegated):
      // What stops in front of a separator ends there, and a class of separators is one.
      let names = separators.filter { text.contains($0) }
      return isNegated ? side == .back && !names.isEmpty : !isOptional && !text.isEmpty && names == Set(text)
    case .group(_, let content):
      let inner = PatternText(content)
      guard side == .front ? inner.beginsAtBound(separators) : inner.endsAtBound(separators) else { return false }
      return !isOptional || isBound(remainder(rest, side), separators, side)
    case .start, .end, .anything, .escape, .alternative, .quantifier: return false
    }
  }

  private static func remainder(_ rest: ArraySlice<Token>, _ side: Side) -> [Token] {
    side == .front ? Array(rest.drop { !$0.mayBeNone }.dropFirst()) : rest.dropFirst().reversed()
  }

  /// Drops `.*`, `.+` and `(.*)`.
  private static func dropWildcard(_ rest: inout ArraySlice<Token>, _ side: Side) -> Bool {
    var copy = rest
    let quantified = side == .back && dropQuantifier(&copy)
    guard let first = copy.popFirst() else { return false }
    switch first {
    case .anything:
      guard side == .front ? dropQuantifier(&copy) : quantified else { return false }
    case .group(_, let content):
      var inner = PatternText(content).tokens(entersGroups: false)[...]
      guard inner.popFirst() == .anything, dropQuantifier(&inner), inner.isEmpty else { return false }
      if side == .front { _ = dropQuantifier(&copy) }
    default: return false
    }
    rest = copy
    return true
  }

  private static func dropQuantifier(_ rest: inout ArraySlice<Token>) -> Bool {
    var isDropped = false
    while case .quantifier? = rest.first {
      rest = rest.dropFirst()
      isDropped = true
    }
    return isDropped
  }

  // MARK: Tokens

  private enum Opening: Hashable {
    case capturing(name: String?)
    /// `(?:…)`, and the assertions.
    case other
  }

  private enum Token: Hashable {
    case start, end, anything, alternative
    case literal(UInt8)
    /// `\d`, `\w`: a class, or an assertion, by its letter.
    case escape(UInt8)
    case `class`(ArraySlice<UInt8>, isNegated: Bool)
    case group(Opening, ArraySlice<UInt8>)
    case quantifier(mayBeNone: Bool)

    var mayBeNone: Bool { if case .quantifier(true) = self { true } else { false } }
  }

  /// The tokens in order. `entersGroups`: those inside a group come behind it, too.
  private func tokens(entersGroups: Bool) -> [Token] {
    var found: [Token] = []
    var rest = bytes
    while let byte = rest.popFirst() {
      switch byte {
      case UInt8(ascii: "^"): found.append(.start)
      case UInt8(ascii: "$"): found.append(.end)
      case UInt8(ascii: "."): found.append(.anything)
      case UInt8(ascii: "|"): found.append(.alternative)
      case UInt8(ascii: "*"), UInt8(ascii: "?"): found.append(.quantifier(mayBeNone: true))
      case UInt8(ascii: "+"): found.append(.quantifier(mayBeNone: false))
      case UInt8(ascii: "{"): found.append(Self.count(&rest))
      case UInt8(ascii: "["): found.append(Self.class(&rest))
      case UInt8(ascii: "("):
        guard let token = Self.group(&rest) else { continue }
        found.append(token)
        if entersGroups, case .group(_, let content) = token {
          found += PatternText(content).tokens(entersGroups: true)
        }
      case UInt8(ascii: "\\"): if let next = rest.popFirst() { found.append(Self.escaped(next)) }
      default: found.append(.literal(byte))
      }
    }
    return found
  }

  private static func isLetterOrDigit(_ byte: UInt8) -> Bool { (byte | 0x20) &- 97 < 26 || byte &- 48 < 10 }

  private static func escaped(_ byte: UInt8) -> Token {
    switch byte {
    case UInt8(ascii: "A"): .start
    case UInt8(ascii: "z"), UInt8(ascii: "Z"): .end
    case _ where isLetterOrDigit(byte): .escape(byte)
    default: .literal(byte)
    }
  }

  /// `{2,3}`, behind the brace.
  private static func count(_ rest: inout ArraySlice<UInt8>) -> Token {
    guard let end = rest.firstIndex(of: UInt8(ascii: "}")) else { return .literal(UInt8(ascii: "{")) }
    let isNone = rest.first == UInt8(ascii: "0")
    rest = rest[(end + 1)...]
    return .quantifier(mayBeNone: isNone)
  }

  /// `[^,]`, behind the bracket: the bytes as written.
  private static func `class`(_ rest: inout ArraySlice<UInt8>) -> Token {
    let isNegated = rest.first == UInt8(ascii: "^")
    if isNegated { rest = rest.dropFirst() }
    let whole = rest
    while let byte = rest.popFirst() {
      if byte == UInt8(ascii: "\\") { _ = rest.popFirst() }
      let end = rest.startIndex - 1
      if byte == UInt8(ascii: "]"), end > whole.startIndex {
        return .class(whole[whole.startIndex..<end], isNegated: isNegated)
      }
    }
    return .class(whole, isNegated: isNegated)
  }

  /// A group behind its parenthesis; nil for options such as `(?i)`.
  private static func group(_ rest: inout ArraySlice<UInt8>) -> Token? {
    let whole = rest
    var depth = 1
    while depth > 0, let byte = rest.popFirst() {
      switch byte {
      case UInt8(ascii: "\\"): _ = rest.popFirst()
      case UInt8(ascii: "["): _ = Self.class(&rest)
      case UInt8(ascii: "("): depth += 1
      case UInt8(ascii: ")"): depth -= 1
      default: break
      }
    }
    let content = depth == 0 ? whole[whole.startIndex..<(rest.startIndex - 1)] : whole
    guard content.first == UInt8(ascii: "?") else { return .group(.capturing(name: nil), content) }
    return opened(content.dropFirst())
  }

  /// What follows `(?`.
  private static func opened(_ content: ArraySlice<UInt8>) -> Token? {
    var rest = content
    if rest.first == UInt8(ascii: "P") { rest = rest.dropFirst() }
    let ends: [UInt8: UInt8] = [UInt8(ascii: "<"): UInt8(ascii: ">"), UInt8(ascii: "'"): UInt8(ascii: "'")]
    if let first = rest.first, let end = ends[first], let close = rest.dropFirst().firstIndex(of: end) {
      let name = rest[(rest.startIndex + 1)..<close]
      if name.allSatisfy({ isLetterOrDigit($0) || $0 == UInt8(ascii: "_") }) {
        return .group(.capturing(name: String(decoding: name, as: UTF8.self)), rest[(close + 1)...])
      }
    }
    if let mark = rest.first, ":=!|>".utf8.contains(mark) { return .group(.other, rest.dropFirst()) }
    if rest.starts(with: "<=".utf8) || rest.starts(with: "<!".utf8) { return .group(.other, rest.dropFirst(2)) }
    guard let colon = rest.firstIndex(of: UInt8(ascii: ":")) else { return nil }
    return .group(.other, rest[(colon + 1)...])
  }
}

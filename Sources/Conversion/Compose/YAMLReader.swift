/// Reads the part of YAML that compose files are written in: mappings, sequences, plain and quoted scalars, block scalars, and
/// collections in brackets that end on their line. Anchors, tags, merge keys, further documents and tabs are refused by name:
/// whoever reads them otherwise than compose does would protect another service than the one that runs.
package struct YAMLReader {
  private struct Line {
    let number: Int
    let indent: Int
    let text: Substring
  }

  private var lines: [Line]
  private var index = 0
  private static let mostBytes = 1 << 20
  private static let mostDepth = 32

  package static func read(_ text: String) throws(ComposeFault) -> YAMLNode {
    guard text.utf8.count <= mostBytes else {
      throw ComposeFault(line: 1, "the file has more than 1 MiB", hint: "name the compose file")
    }
    var reader = try YAMLReader(text)
    guard let first = reader.peek else { return YAMLNode(value: .empty, line: 1) }
    let node = try reader.block(indent: first.indent, depth: 0)
    if let rest = reader.peek {
      throw ComposeFault(
        line: rest.number, "this line doesn't belong to anything before it", hint: "compare the indent")
    }
    return node
  }

  private init(_ text: String) throws(ComposeFault) {
    lines = []
    for (offset, raw) in text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline).enumerated() {
      let indent = raw.prefix { $0 == " " }.count
      let text = raw.dropFirst(indent)
      if text.hasPrefix("\t") {
        throw ComposeFault(line: offset + 1, "a tab in the indent", hint: "YAML indents by spaces")
      }
      if offset == 0 || lines.allSatisfy({ Self.isBlank($0.text) }), text.hasPrefix("---"), indent == 0,
        Self.isBlank(text.dropFirst(3))
      {
        continue
      }
      if indent == 0, text.hasPrefix("---") || text.hasPrefix("...") || text.hasPrefix("%") {
        throw ComposeFault(line: offset + 1, "a second document or a directive", hint: "give a file with one document")
      }
      lines.append(Line(number: offset + 1, indent: indent, text: text))
    }
  }

  private static func isBlank(_ text: Substring) -> Bool {
    text.first { $0 != " " && $0 != "\t" }.map { $0 == "#" } ?? true
  }

  /// The next line that says something.
  private var peek: Line? {
    mutating get {
      while index < lines.count, Self.isBlank(lines[index].text) { index += 1 }
      return index < lines.count ? lines[index] : nil
    }
  }

  // MARK: Blocks

  private mutating func block(indent: Int, depth: Int) throws(ComposeFault) -> YAMLNode {
    guard let first = peek else { return YAMLNode(value: .empty, line: 0) }
    guard depth < Self.mostDepth else {
      throw ComposeFault(line: first.number, "more than \(Self.mostDepth) levels", hint: "no compose file needs them")
    }
    return Self.isItem(first.text)
      ? try sequence(indent: indent, depth: depth) : try mapping(indent: indent, depth: depth)
  }

  private static func isItem(_ text: Substring) -> Bool { text.hasPrefix("- ") || text == "-" }

  private mutating func sequence(indent: Int, depth: Int) throws(ComposeFault) -> YAMLNode {
    var items: [YAMLNode] = []
    let start = peek?.number ?? 0
    while let line = peek, line.indent == indent, Self.isItem(line.text) {
      let rest = line.text.dropFirst().drop { $0 == " " }
      let inner = indent + (line.text.count - rest.count)
      if Self.isBlank(rest) {
        index += 1
        items.append(try below(indent, line, depth))
      } else if try Self.beginsBlock(rest, line.number) {
        // What stands behind the dash is the first line of a block of its own.
        lines[index] = Line(number: line.number, indent: inner, text: rest)
        items.append(try block(indent: inner, depth: depth + 1))
      } else {
        index += 1
        items.append(try value(rest, line, depth))
      }
    }
    return YAMLNode(value: .sequence(items), line: start)
  }

  private static func beginsBlock(_ text: Substring, _ line: Int) throws(ComposeFault) -> Bool {
    if isItem(text) { return true }
    return try key(text, line) != nil
  }

  private mutating func mapping(indent: Int, depth: Int) throws(ComposeFault) -> YAMLNode {
    var entries: [YAMLNode.Entry] = []
    let start = peek?.number ?? 0
    while let line = peek, line.indent >= indent {
      guard line.indent == indent, let (key, rest) = try Self.key(line.text, line.number) else {
        throw ComposeFault(
          line: line.number, "\"\(line.text.prefix(40))\" is no key with a colon at the indent of its neighbours",
          hint: "quote a text that goes on in the next line, and compare the indents")
      }
      guard !entries.contains(where: { $0.key == key }) else {
        throw ComposeFault(line: line.number, "the key \"\(key)\" stands twice", hint: "keep one of them")
      }
      guard key != "<<" else {
        throw ComposeFault(line: line.number, "a merge key (<<)", hint: "write out what it would bring")
      }
      index += 1
      let node = Self.isBlank(rest) ? try below(indent, line, depth, isMapping: true) : try value(rest, line, depth)
      entries.append(YAMLNode.Entry(key: key, line: line.number, node: node))
    }
    return YAMLNode(value: .mapping(entries), line: start)
  }

  /// What stands below a key or a dash: a deeper block, a sequence at a key's own indent, or nothing.
  private mutating func below(
    _ indent: Int, _ line: Line, _ depth: Int, isMapping: Bool = false
  ) throws(ComposeFault) -> YAMLNode {
    guard let next = peek, next.indent > indent || isMapping && next.indent == indent && Self.isItem(next.text) else {
      return YAMLNode(value: .empty, line: line.number)
    }
    return try block(indent: next.indent, depth: depth + 1)
  }

  private mutating func value(_ text: Substring, _ line: Line, _ depth: Int) throws(ComposeFault) -> YAMLNode {
    if text.first == "|" || text.first == ">" { return blockScalar(line) }
    var cursor = YAMLCursor(text, line.number)
    let node = try cursor.node(depth: depth)
    try cursor.end()
    return node
  }

  /// Nobody here asks for its text, so how its lines are folded doesn't matter.
  private mutating func blockScalar(_ line: Line) -> YAMLNode {
    var text: [Substring] = []
    while index < lines.count, lines[index].indent > line.indent || lines[index].text.isEmpty {
      text.append(lines[index].text)
      index += 1
    }
    return YAMLNode(value: .scalar(text.joined(separator: "\n")), line: line.number)
  }

  /// The key of a line, and what stands behind its colon; nil for a line without one.
  private static func key(_ text: Substring, _ line: Int) throws(ComposeFault) -> (key: String, rest: Substring)? {
    if text.first == "\"" || text.first == "'" {
      var cursor = YAMLCursor(text, line)
      let key = try cursor.quoted()
      guard cursor.rest.first == ":" else { return nil }
      return (key, cursor.rest.dropFirst().drop { $0 == " " })
    }
    if let mark = text.first, "[{|>".contains(mark) { return nil }
    if let mark = text.first, "&*!?%@`".contains(mark) { throw YAMLCursor.refused(mark, line) }
    var place = text.startIndex
    while place < text.endIndex {
      let next = text.index(after: place)
      if text[place] == "#", place > text.startIndex, text[text.index(before: place)] == " " { return nil }
      if text[place] == ":", next == text.endIndex || text[next] == " " {
        return (String(text[..<place]), text[next...].drop { $0 == " " })
      }
      place = next
    }
    return nil
  }
}

/// The values of one line.
struct YAMLCursor {
  private(set) var rest: Substring
  private let line: Int
  private static let mostDepth = 16

  init(_ text: Substring, _ line: Int) {
    rest = text
    self.line = line
  }

  static func refused(_ mark: Character, _ line: Int) -> ComposeFault {
    let what =
      switch mark {
      case "&": "an anchor"
      case "*": "an alias"
      case "!": "a tag"
      case "?": "a key over several lines"
      default: "a reserved character, \"\(mark)\""
      }
    return ComposeFault(line: line, what, hint: "write out what it stands for, or quote a text that begins so")
  }

  func end() throws(ComposeFault) {
    let rest = rest.drop { $0 == " " || $0 == "\t" }
    guard rest.isEmpty || rest.first == "#" else {
      throw ComposeFault(line: line, "\"\(rest.prefix(40))\" stands behind a value", hint: "quote the whole text")
    }
  }

  mutating func node(depth: Int, inside: Bool = false) throws(ComposeFault) -> YAMLNode {
    guard depth < 48, let first = rest.first else { throw open }
    switch first {
    case "[": return try sequence(depth)
    case "{": return try mapping(depth)
    case "\"", "'": return YAMLNode(value: .scalar(try quoted()), line: line)
    case "&", "*", "!", "%", "@", "`": throw Self.refused(first, line)
    default: return plain(inside)
    }
  }

  private var open: ComposeFault {
    ComposeFault(
      line: line, "a bracket or a quotation mark isn't closed on its line",
      hint: "close it, or write one entry on a line")
  }

  private mutating func skip() { rest = rest.drop { $0 == " " } }

  private mutating func sequence(_ depth: Int) throws(ComposeFault) -> YAMLNode {
    rest.removeFirst()
    var items: [YAMLNode] = []
    while true {
      skip()
      if rest.first == "]" { break }
      items.append(try node(depth: depth + 1, inside: true))
      skip()
      guard rest.first == "," || rest.first == "]" else { throw open }
      if rest.first == "," { rest.removeFirst() }
    }
    rest.removeFirst()
    return YAMLNode(value: .sequence(items), line: line)
  }

  private mutating func mapping(_ depth: Int) throws(ComposeFault) -> YAMLNode {
    rest.removeFirst()
    var entries: [YAMLNode.Entry] = []
    while true {
      skip()
      if rest.first == "}" { break }
      guard let key = try node(depth: depth + 1, inside: true).text else { throw open }
      skip()
      var node = YAMLNode(value: .empty, line: line)
      if rest.first == ":" {
        rest.removeFirst()
        skip()
        if rest.first != ",", rest.first != "}" { node = try self.node(depth: depth + 1, inside: true) }
        skip()
      }
      guard !entries.contains(where: { $0.key == key }) else {
        throw ComposeFault(line: line, "the key \"\(key)\" stands twice", hint: "keep one of them")
      }
      entries.append(YAMLNode.Entry(key: key, line: line, node: node))
      guard rest.first == "," || rest.first == "}" else { throw open }
      if rest.first == "," { rest.removeFirst() }
    }
    rest.removeFirst()
    return YAMLNode(value: .mapping(entries), line: line)
  }

  /// An escape keeps its character: no name or address that matters here has one.
  mutating func quoted() throws(ComposeFault) -> String {
    guard let mark = rest.popFirst() else { throw open }
    var text = ""
    while let next = rest.popFirst() {
      if next == "\\", mark == "\"" {
        guard let escaped = rest.popFirst() else { throw open }
        text.append(escaped)
      } else if next != mark {
        text.append(next)
      } else if mark == "'", rest.first == "'" {
        rest.removeFirst()
        text.append("'")
      } else {
        return text
      }
    }
    throw open
  }

  private mutating func plain(_ inside: Bool) -> YAMLNode {
    var text = ""
    while let next = rest.first {
      if inside, ",]}[{".contains(next) { break }
      if inside, next == ":", rest.dropFirst().first.map({ " ,]}".contains($0) }) ?? true { break }
      if next == "#", text.last == " " { break }
      text.append(next)
      rest.removeFirst()
    }
    while text.last == " " { text.removeLast() }
    return YAMLNode(value: text.isEmpty || text == "~" || text == "null" ? .empty : .scalar(text), line: line)
  }
}

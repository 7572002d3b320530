@testable import Features
@testable import Forward
import Testing
@testable import Traffic

/// What a configuration stores is for somebody to read: a setting that nobody reads is a directive without effect.
@Suite struct `Settings` {
  /// A stored property of a type of settings.
  private struct Property: CustomStringConvertible {
    var file: SourceFile
    var type: String
    var name: String
    var line: Int
    var description: String { "\(type).\(name)" }
  }

  @Test func `every stored setting is read`() {
    let features = Set(Features.all.directives.ofLocation.map { "\($0)" })
    let properties = SourceFile.sources.flatMap(Self.properties).filter {
      $0.type.hasSuffix("Settings") || $0.file.path.hasSuffix("Settings.swift") || features.contains($0.type)
    }
    #expect(properties.count > 150)
    // The Configuration module writes settings; what it reads of them, it reads to judge and not to act.
    let readers = SourceFile.sources.filter { $0.module != "Configuration" }
    /// The files that read a name, by the name.
    var accessing: [Substring: Set<String>] = [:]
    for reader in readers { for name in Self.accesses(in: reader) { accessing[name, default: []].insert(reader.path) } }
    var own: [String: [String: [(line: Int, text: String)]]] = [:]
    for property in properties {
      let path = property.file.path
      let isReadElsewhere = accessing[property.name[...]]?.contains { $0 != path } ?? false
      if !isReadElsewhere, own[path] == nil { own[path] = Self.words(of: property.file) }
      let isRead = isReadElsewhere || Self.isRead(property, in: own[path] ?? [:])
      #expect(isRead, "\(property), \(property.file.path):\(property.line)")
    }
  }

  /// `let` and `var` of the file's types that hold a value, with the type that they stand in.
  private static func properties(of file: SourceFile) -> [Property] {
    var types: [(name: String, indentation: Int)] = []
    // Words and not patterns: there are a hundred thousand lines.
    return file.code.compactMap { number, text in
      let indentation = text.utf8.prefix { $0 == 0x20 }.count, last = text.utf8.last
      if last == UInt8(ascii: "}"), text.utf8.count == indentation + 1 {
        types.removeAll { $0.indentation >= indentation }
      } else if last == UInt8(ascii: "{") {
        let words = text.split(separator: " ")
        let kind = words.firstIndex {
          ["struct", "enum", "extension"].contains($0) || $0 == "class" && text.contains("final ")
        }
        if let kind, kind + 1 < words.count { types.append((Self.name(words[kind + 1]), indentation)) }
      } else if let type = types.last, indentation == type.indentation + 2, !text.utf8.contains(UInt8(ascii: "{")) {
        let words = text.split(separator: " ").drop { $0.hasPrefix("@") || Self.access.contains($0) }
        if words.first == "let" || words.first == "var", let name = words.dropFirst().first {
          return Property(file: file, type: type.name, name: Self.name(name), line: number)
        }
      }
      return nil
    }
  }

  private static let access: Set<Substring> = ["public", "package", "private(set)"]

  /// The name that a word begins with.
  private static func name(_ word: Substring) -> String {
    String(decoding: word.utf8.prefix(while: isOfName), as: UTF8.self)
  }

  /// Names after a dot that are not assigned to, those in interpolated text too.
  private static func accesses(in file: SourceFile) -> Set<Substring> {
    file.lines.reduce(into: []) { all, line in
      if line.utf8.drop(while: { $0 == 0x20 }).starts(with: "//".utf8) { return }
      var rest = line[...]
      while let dot = rest.utf8.firstIndex(of: 0x2E) {
        rest = rest[rest.utf8.index(after: dot)...]
        let end = rest.utf8.firstIndex { !isOfName($0) } ?? rest.endIndex
        let name = rest[..<end]
        rest = rest[end...]
        if !name.isEmpty, !rest.utf8.starts(with: " = ".utf8) { all.insert(name) }
      }
    }
  }

  private static func isOfName(_ byte: UInt8) -> Bool {
    (byte | 0x20) &- 97 < 26 || byte &- 48 < 10 || byte == 0x5F
  }

  /// What the declaring file itself reads, beyond declaring it and beyond what stores it in `init`: each word of its code
  /// with the lines that it stands in.
  private static func words(of file: SourceFile) -> [String: [(line: Int, text: String)]] {
    var words: [String: [(line: Int, text: String)]] = [:]
    var end: String?
    for (number, text) in file.code {
      if let initEnd = end {
        if text == initEnd { end = nil }
        continue
      }
      // The patterns are slow, so they see only lines that may match.
      if text.contains("init("), let found = text.firstMatch(of: /^( *)(?:public |package )?init\(/) {
        end = text.hasSuffix("}") ? nil : found.1 + "}"
        continue
      }
      for word in text.utf8.split(whereSeparator: { !isOfName($0) }) {
        words[String(decoding: word, as: UTF8.self), default: []].append((number, text))
      }
    }
    return words
  }

  private static func isRead(_ property: Property, in words: [String: [(line: Int, text: String)]]) -> Bool {
    words[property.name]?.contains {
      $0.line != property.line && !$0.text.contains("var \(property.name)") && !$0.text.contains("let \(property.name)")
    } ?? false
  }
}

import Foundation
import Glibc
import TestSupport

/// A Swift file of the checkout.
struct SourceFile: Sendable {
  /// From the checkout's folder on: `Sources/HTTP/Field.swift`.
  let path: String
  let lines: [Substring]

  /// The module it belongs to: the second part of its path.
  var module: String { path.split(separator: "/").dropFirst().first.map(String.init) ?? "" }

  /// All of it, for `mentions`.
  private let text: [CChar]

  private init(path: String, text: String) {
    self.path = path
    self.text = Array(text.utf8CString)
    var lines = text.split(separator: "\n", omittingEmptySubsequences: false)
    if lines.last?.isEmpty == true { lines.removeLast() }
    self.lines = lines
  }

  /// Lines with their numbers from 1 on, comments and string literals left out.
  var code: [(number: Int, text: String)] {
    lines.enumerated().map { ($0.offset + 1, Self.withoutCommentsAndStrings($0.element)) }
  }

  /// Whether a word stands somewhere in the file. To ask this first, of strstr(3), spares nearly every look at lines.
  func mentions(_ word: String) -> Bool {
    text.withUnsafeBufferPointer { $0.baseAddress.flatMap { strstr($0, word) } } != nil
  }

  /// The lines of code that have one of these words.
  func code(with words: [String]) -> [(number: Int, text: String)] {
    guard words.contains(where: mentions) else { return [] }
    return code.filter { line in words.contains { line.text.contains($0) } }
  }

  /// The names of the modules that the file imports.
  var imports: [Substring] {
    lines.filter { $0.hasPrefix("import ") || $0.contains(" import ") && !$0.hasPrefix(" ") && !$0.hasPrefix("//") }
      .compactMap { $0.split(separator: " ").drop { $0 != "import" }.last?.split(separator: ".").first }
  }

  /// The places in code, `path:line`, that have one of these words.
  static func places(
    of words: [String], in files: [SourceFile] = sources, besides isAllowed: (SourceFile) -> Bool = { _ in false }
  ) -> [String] {
    files.flatMap { file in isAllowed(file) ? [] : file.code(with: words).map { "\(file.path):\($0.number)" } }
  }

  /// Whether a comment stands in this line or in one of the three before it.
  func isExplained(line number: Int) -> Bool {
    lines[max(0, number - 4)..<number].contains { $0.contains("//") }
  }

  static let sources = all(in: "Sources")
  static let tests = all(in: "Tests")

  private static func all(in folder: String) -> [SourceFile] {
    let names = FileManager.default.enumerator(atPath: "\(checkout)/\(folder)")?.compactMap { $0 as? String } ?? []
    return names.filter { $0.hasSuffix(".swift") }.sorted().compactMap { name in
      let text = try? String(contentsOfFile: "\(checkout)/\(folder)/\(name)", encoding: .utf8)
      return text.map { SourceFile(path: "\(folder)/\(name)", text: $0) }
    }
  }

  /// Good enough for one line: a `//` outside quotes ends it.
  private static func withoutCommentsAndStrings(_ line: Substring) -> String {
    var text: [UInt8] = []
    var isQuoted = false
    var previous: UInt8 = 0
    for byte in line.utf8 {
      if byte == UInt8(ascii: "\"") && previous != UInt8(ascii: "\\") {
        isQuoted.toggle()
      } else if !isQuoted {
        if byte == UInt8(ascii: "/") && previous == byte { return String(decoding: text.dropLast(), as: UTF8.self) }
        text.append(byte)
      }
      previous = byte
    }
    return String(decoding: text, as: UTF8.self)
  }
}

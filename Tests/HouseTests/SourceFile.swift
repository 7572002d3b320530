import Foundation
import TestSupport

/// A Swift file of the checkout.
struct SourceFile: Sendable {
  /// From the checkout's folder on: `Sources/HTTP/Field.swift`.
  let path: String
  let lines: [Substring]

  /// The module it belongs to: the second part of its path.
  var module: String { path.split(separator: "/").dropFirst().first.map(String.init) ?? "" }

  /// Lines with their numbers from 1 on, comments and string literals left out.
  let code: [(number: Int, text: String)]

  private init(path: String, lines: [Substring]) {
    self.path = path
    self.lines = lines
    code = lines.enumerated().map { ($0.offset + 1, Self.withoutCommentsAndStrings($0.element)) }
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
      guard let text = try? String(contentsOfFile: "\(checkout)/\(folder)/\(name)", encoding: .utf8) else { return nil }
      var lines = text.split(separator: "\n", omittingEmptySubsequences: false)
      if lines.last?.isEmpty == true { lines.removeLast() }
      return SourceFile(path: "\(folder)/\(name)", lines: lines)
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

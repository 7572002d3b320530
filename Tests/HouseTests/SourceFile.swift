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
  var code: [(number: Int, text: String)] {
    lines.enumerated().map { ($0.offset + 1, Self.withoutCommentsAndStrings($0.element)) }
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
    var text = ""
    var isQuoted = false
    var previous: Character = " "
    for character in line {
      if character == "\"" && previous != "\\" {
        isQuoted.toggle()
      } else if !isQuoted {
        if character == "/" && previous == "/" { return String(text.dropLast()) }
        text.append(character)
      }
      previous = character
    }
    return text
  }
}

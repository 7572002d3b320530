import Foundation

/// A code block of a document.
package struct PageBlock: Sendable, CustomStringConvertible {
  package let page: String
  /// The line in which it begins.
  package let line: Int
  package let lines: [Substring]

  package var description: String { "\(page):\(line)" }
  package var text: String { lines.joined(separator: "\n") }

  /// The blocks of README and of the pages in docs and docs/operating that are written by hand.
  package static let all: [PageBlock] = {
    var pages = ["README.md"]
    for folder in ["docs", "docs/operating"] {
      let names = (try? FileManager.default.contentsOfDirectory(atPath: "\(checkout)/\(folder)")) ?? []
      pages += names.filter { $0.hasSuffix(".md") && $0 != "DIRECTIVES.md" && $0 != "VARIABLES.md" }.sorted().map {
        "\(folder)/\($0)"
      }
    }
    return pages.flatMap { page in
      blocks((try? String(contentsOfFile: "\(checkout)/\(page)", encoding: .utf8)) ?? "").map {
        PageBlock(page: page, line: $0.line, lines: $0.lines)
      }
    }
  }()

  /// The block of a page that has a line with this beginning.
  package static func with(_ beginning: String, on page: String) -> PageBlock? {
    all.first { block in
      block.page == page && block.lines.contains { $0.drop { $0 == " " }.hasPrefix(beginning) }
    }
  }

  /// The code blocks of a page, fenced, or indented by four blanks behind an empty line.
  private static func blocks(_ page: String) -> [(line: Int, lines: [Substring])] {
    var found: [(line: Int, lines: [Substring])] = []
    var isFenced = false, isOpen = false, isBehindEmpty = true
    for (number, line) in page.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
      let text = line.drop { $0 == " " }
      if text.hasPrefix("```") {
        isFenced.toggle()
        isOpen = false
        if isFenced { found.append((number + 2, [])) }
      } else if isFenced {
        found[found.count - 1].lines.append(line)
      } else if line.hasPrefix("    "), isOpen || isBehindEmpty {
        if !isOpen { found.append((number + 1, [])) }
        isOpen = true
        found[found.count - 1].lines.append(line.dropFirst(4))
      } else if isOpen, line.isEmpty {
        found[found.count - 1].lines.append("")
      } else {
        isOpen = false
      }
      isBehindEmpty = line.isEmpty
    }
    return found
  }
}

import ConfigurationSupport
@testable import Features
@testable import Forward
import Foundation
import TestSupport
import Testing
@testable import Traffic

/// The configurations that the documents show are ones: each block is taken somewhere. `…` stands for what a reader knows
/// from elsewhere: the certificates of a server, or the end of a pin.
@Suite struct `The configurations of the documents` {
  @Test(arguments: DocumentedBlock.configurations) func `a block is valid where it may stand`(block: DocumentedBlock) {
    var closest: [String]?
    for rest in Self.rests {
      for place in Self.places {
        let text = place.replacing(
          "BLOCK",
          with:
            "\n\(block.text.replacing("sha256//…", with: Self.pin).replacing(Self.included, with: Self.parameter).replacing("…", with: rest))\n"
        )
        let errors = LoadedText(text).errors
        if errors.isEmpty { return }
        // A place where its directives don't belong tells nothing.
        if errors.contains(where: { $0.contains("is not allowed here") }) { continue }
        if errors.count < closest?.count ?? .max { closest = errors }
      }
    }
    Issue.record("\(block): \(closest ?? ["its directives belong to no one place"])")
  }

  @Test func `the blocks are found`() {
    let blocks = DocumentedBlock.configurations
    #expect(blocks.count > 35, "\(blocks.count)")
    for page in ["README.md", "docs/operating/tcp.md", "docs/operating/changes.md", "docs/operating/observe.md"] {
      #expect(blocks.contains { $0.page == page }, "\(page)")
    }
  }

  private static let pin = "sha256//47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
  // A file of Debian's, and a line of it.
  private static let included = "include fastcgi.conf;", parameter = "fastcgi_param SCRIPT_FILENAME $uri;"
  private static let certificate = "ssl_certificate s.pem; ssl_certificate_key s.key;"
  private static let clients = "\(certificate) ssl_client_certificate c.pem;"
  private static let rests = [
    "", certificate, clients, "listen 1 ssl; \(clients) ssl_verify_client on;", "listen 1;",
  ]
  private static let places = [
    "BLOCK", "http { BLOCK server { listen 2; return 204; } }", "http { server { listen 1; BLOCK } }",
    "http { server { listen 1 ssl; \(certificate) BLOCK } }",
    "http { server { listen 1 ssl; \(certificate) ssl_verify_client on; BLOCK } }",
    "http { server { listen 1 ssl; \(clients) ssl_verify_client optional; BLOCK } }",
    "http { server { listen 1 ssl; \(certificate) ssl_client_pin \(pin); ssl_verify_client on; BLOCK } }",
    "http { server { listen 1; location / { proxy_pass http://127.0.0.1:1; BLOCK } } }",
    "http { server { listen 1; location / { BLOCK } } }",
    "stream { BLOCK server { listen 2; return a; } }", "stream { server { listen 1; BLOCK } }",
  ]
}

/// A piece of a page that is a configuration.
struct DocumentedBlock: Sendable, CustomStringConvertible {
  let page: String
  let line: Int
  let text: String

  var description: String { "\(page):\(line)" }

  static let configurations: [DocumentedBlock] = {
    var pages = ["README.md"]
    for folder in ["docs", "docs/operating"] {
      let names = (try? FileManager.default.contentsOfDirectory(atPath: "\(checkout)/\(folder)")) ?? []
      pages += names.filter { $0.hasSuffix(".md") && $0 != "DIRECTIVES.md" && $0 != "VARIABLES.md" }.sorted().map {
        "\(folder)/\($0)"
      }
    }
    return pages.flatMap { page in
      blocks((try? String(contentsOfFile: "\(checkout)/\(page)", encoding: .utf8)) ?? "").compactMap { line, lines in
        let found = configuration(in: lines)
        return found.isEmpty ? nil : DocumentedBlock(page: page, line: line, text: found)
      }
    }
  }()

  /// The code blocks of a page, indented by four blanks or fenced, each with the line in which it begins.
  private static func blocks(_ page: String) -> [(line: Int, lines: [Substring])] {
    var found: [(line: Int, lines: [Substring])] = []
    var isFenced = false, isOpen = false
    for (number, line) in page.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
      let text = line.drop { $0 == " " }
      if text.hasPrefix("```") {
        isFenced.toggle()
        isOpen = false
        if isFenced { found.append((number + 2, [])) }
      } else if isFenced {
        found[found.count - 1].lines.append(line)
      } else if line.hasPrefix("    ") {
        if !isOpen { found.append((number + 1, [])) }
        isOpen = true
        found[found.count - 1].lines.append(line.dropFirst(4))
      } else if isOpen, line.isEmpty {
        found[found.count - 1].lines.append("")
      } else {
        isOpen = false
      }
    }
    return found
  }

  /// What of a block is configuration: what a command writes to a file, or the paragraphs that begin with a directive.
  private static func configuration(in lines: [Substring]) -> String {
    if let start = lines.firstIndex(where: { $0.contains("<<'END'") }),
      let end = lines[start...].firstIndex(of: "END")
    {
      return lines[(start + 1)..<end].joined(separator: "\n")
    }
    return paragraphs(lines).filter(isConfiguration).map { $0.joined(separator: "\n") }.joined(separator: "\n")
  }

  /// The parts between empty lines outside of braces.
  private static func paragraphs(_ lines: [Substring]) -> [[Substring]] {
    var found: [[Substring]] = [[]]
    var depth = 0
    for line in lines {
      if line.isEmpty, depth <= 0 {
        found.append([])
        continue
      }
      found[found.count - 1].append(line)
      for character in line.prefix(while: { $0 != "#" }) {
        if character == "{" { depth += 1 } else if character == "}" { depth -= 1 }
      }
    }
    return found
  }

  private static func isConfiguration(_ paragraph: [Substring]) -> Bool {
    let statements = paragraph.map { $0.drop { $0 == " " } }.filter { !$0.isEmpty && !$0.hasPrefix("#") }
    guard let name = statements.first?.prefix(while: { $0.isLetter || $0.isNumber || $0 == "_" }),
      !Features.all.directives.table.entries(named: String(name)).isEmpty
    else { return false }
    return statements.contains { line in
      let code = line.prefix { $0 != "#" }.reversed().first { $0 != " " }
      return code == ";" || code == "{"
    }
  }
}

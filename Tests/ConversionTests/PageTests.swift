import ConfigurationSupport
import TestSupport
import Testing

@testable import Conversion

/// The configurations of other programs that the pages about migrations show.
@Suite struct `The old configurations of the documents` {
  private static let pages: [(page: String, beginning: String)] = [
    ("STUNNEL", "[db]"), ("STUNNEL", "[mail]"), ("HAPROXY", "frontend api"), ("GHOSTUNNEL", "ghostunnel server"),
    ("GHOSTUNNEL", "ghostunnel client"),
  ]

  @Test(arguments: pages.indices) func `can be converted whole, to configurations that are valid`(index: Int) throws {
    let (page, beginning) = Self.pages[index]
    let block = try #require(PageBlock.with(beginning, on: "docs/MIGRATING-FROM-\(page).md"))
    let converted: Converted
    switch page {
    case "STUNNEL": converted = StunnelConversion.convert(block.text, file: "stunnel.conf")
    case "HAPROXY": converted = HAProxyConversion.convert(block.text, file: "haproxy.cfg")
    default:
      // Behind the command of ghostunnel stands that of sallyport in its place.
      let command = block.lines.prefix { !$0.hasPrefix("sallyport ") }.joined(separator: "\n")
      let words = try CommandLineText.words(command, file: "unit", program: "ghostunnel")
      converted = GhostunnelConversion.convert(arguments: words.map(\.text))
    }
    #expect(converted.isWhole, "\(converted.text) \(converted.notes)")
    #expect(LoadedText(converted.text).errors == [], "\(converted.text)")
  }
}

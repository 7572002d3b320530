@testable import Traffic
@testable import Forward
@testable import Features
import Testing

@testable import Configuration
@testable import Language

/// The examples of docs/DIRECTIVES.md.
@Suite struct DirectiveExampleTests {
  @Test func `every supported directive has an example that sallyport accepts`() {
    for entry in Features.all.directives.table.families.flatMap(\.entries) where entry.status == .supported {
      let example = entry.example
      guard !example.isEmpty else {
        Issue.record("\(entry.name) has no example: add one to its row")
        continue
      }
      #expect(example.hasPrefix(entry.name + " ") || example == entry.name + ";", "\(entry.name): \(example)")
      var refusals: [String] = []
      for context in entry.contexts.each {
        guard
          let sample = DirectiveSample.all["\(context.names.joined())/\(entry.name)"] ?? DirectiveSample.all[entry.name]
        else {
          refusals.append("no sample")
          continue
        }
        if case .failure(let refusal) = sample.settings(example, in: context) { refusals += refusal.reasons }
      }
      #expect(refusals.isEmpty, "\(example): \(refusals.first ?? "")")
    }
  }
}

import Testing

@testable import Configuration

/// The examples of docs/DIRECTIVES.md.
@Suite struct DirectiveExampleTests {
  @Test func `every supported directive has an example that sallyport accepts`() {
    for entry in DirectiveTable.families.flatMap(\.entries) where entry.status == .supported {
      guard let example = DirectiveExamples.example(of: entry) else {
        Issue.record("\(entry.name) has no example: add one to DirectiveExamples.swift")
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

  @Test func `every example is of a directive`() {
    for key in DirectiveExamples.table.keys {
      let name = String(key.split(separator: "/").last ?? "")
      let entries = DirectiveTable.entries(named: name).filter { $0.status == .supported }
      #expect(!entries.isEmpty, "\(key)")
    }
  }
}

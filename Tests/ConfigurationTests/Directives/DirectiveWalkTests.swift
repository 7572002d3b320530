@testable import Traffic
@testable import Forward
@testable import Features
import Testing

@testable import Configuration
@testable import Language

/// Every supported row of the directive table, in each of its contexts: what is said reaches the settings.
@Suite struct DirectiveWalkTests {
  private static let places: [(entry: DirectiveEntry, context: DirectiveContexts)] =
    Features.all.directives.table.families.flatMap(\.entries).filter { $0.status == .supported }.flatMap { entry in
      entry.contexts.each.map { (entry, $0) }
    }

  private static func key(_ entry: DirectiveEntry, _ context: DirectiveContexts) -> String {
    "\(context.names.joined())/\(entry.name)"
  }

  private static func sample(_ entry: DirectiveEntry, _ context: DirectiveContexts) -> DirectiveSample? {
    DirectiveSample.all[key(entry, context)] ?? DirectiveSample.all[entry.name]
  }

  @Test func `every supported directive changes the settings in every context that it may stand in`() {
    #expect(Self.places.count > 300)
    var known: [String: Result<String, DirectiveSample.Refusal>] = [:]
    for (entry, context) in Self.places {
      let key = Self.key(entry, context)
      guard let sample = Self.sample(entry, context) else {
        Issue.record("\(key) has no sample: add one to DirectiveSamples.swift")
        continue
      }
      #expect(sample.other.hasPrefix(entry.name + " ") || sample.other.hasPrefix(entry.name + ";"), "\(key)")
      let text = sample.text(sample.one, in: context)
      let one = known[text] ?? sample.settings(sample.one, in: context)
      switch (one, sample.settings(sample.other, in: context)) {
      case (.success(let one), .success(let other)):
        let differs = one != other
        #expect(differs, "\(key): nothing depends on \(sample.other)")
        // What differs by itself would prove nothing. Many samples begin with the same text.
        if known[text] == nil {
          let isRepeatable = sample.settings(sample.one, in: context) == .success(one)
          #expect(isRepeatable, "\(key)")
        }
      case (.failure(let refusal), _), (_, .failure(let refusal)):
        Issue.record("\(key): the sample is refused: \(refusal.reasons)")
      }
      known[text] = one
    }
  }

  @Test func `every sample is of a row`() {
    let known = Set(Self.places.flatMap { [$0.entry.name, Self.key($0.entry, $0.context)] })
    for key in DirectiveSample.all.keys { #expect(known.contains(key), "\(key)") }
  }

  /// Words that are taken for the sake of nginx's language and mean the same as another.
  private static let synonyms: [String: Set<String>] = [
    "lingering_close": ["on", "always"], "server_tokens": ["on", "build"],
  ]

  @Test func `every word of a choice means something of its own`() {
    for (entry, context) in Self.places {
      let words: [String]
      switch entry.form {
      case .flag: words = ["on", "off"]
      case .oneOf(let choice): words = choice
      default: continue
      }
      guard let sample = Self.sample(entry, context) else { continue }
      var meanings: [String: String] = [:]
      for word in words {
        guard case .success(let settings) = sample.settings("\(entry.name) \(word);", in: context) else { continue }
        if let same = meanings[settings] {
          #expect(Self.synonyms[entry.name] == [same, word], "\(Self.key(entry, context)): \(word) is \(same)")
        }
        meanings[settings] = word
      }
      #expect(!meanings.isEmpty, "\(Self.key(entry, context)): no word is taken")
    }
  }
}

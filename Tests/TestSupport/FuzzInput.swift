import Foundation

/// What a fuzzer starts from, or once found: a file of its target's Corpus or Regressions.
package struct FuzzInput: Sendable, CustomStringConvertible {
  /// `Corpus/NAME`.
  package let name: String
  package let bytes: [UInt8]
  package var description: String { name }

  package static func all(of target: String) -> [FuzzInput] {
    ["Corpus", "Regressions"].flatMap { folder -> [FuzzInput] in
      let path = "\(checkout)/Tests/Fuzz/\(target)/\(folder)"
      let names = (try? FileManager.default.contentsOfDirectory(atPath: path)) ?? []
      return names.filter { !$0.hasPrefix(".") }.sorted().compactMap { name in
        FileManager.default.contents(atPath: "\(path)/\(name)").map {
          FuzzInput(name: "\(folder)/\(name)", bytes: [UInt8]($0))
        }
      }
    }
  }

  /// Where the first byte is a choice: the rest.
  package var text: [UInt8] { Array(bytes.dropFirst()) }
}

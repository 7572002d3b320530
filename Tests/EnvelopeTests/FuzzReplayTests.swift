import Bytes
import Glibc
import Testing

@testable import Envelope

/// What the fuzzer starts from and what it once found, read again by every test run: by every suite, whatever its first
/// byte says.
@Suite struct `Fuzzed envelopes` {
  @Test(arguments: inputs())
  func `are refused, or open to what was sealed`(input: String) throws {
    let bytes = Array(contents(of: input).dropFirst())
    var opened = 0
    for suite in Parts.suites {
      let keys = try #require(Parts.keys(suite))
      if case .success(let text) = Opener(keys).outcome(bytes) {
        opened += 1
        #expect(text == Array(Parts.plain.utf8))
      }
      let answers = try #require(Parts.keys(suite.ofResponses))
      #expect(Opener(answers).outcome(try Sealer(responses: keys).sealed(bytes)) == .success(bytes))
    }
    let isWhole = ["cbc128", "cbc256", "gcm", "gcm-mac", "escaped"].contains { input.hasSuffix("/Corpus/\($0)") }
    #expect((opened > 0) == isWhole)
  }

  @Test func `there is something to replay`() { #expect(inputs().count > 5) }
}

private func inputs() -> [String] {
  let tests = "/" + #filePath.split(separator: "/").dropLast(2).joined(separator: "/")
  return ["Corpus", "Regressions"].flatMap { folder -> [String] in
    let path = "\(tests)/Fuzz/FuzzEnvelope/\(folder)"
    guard let directory = opendir(path) else { return [] }
    defer { closedir(directory) }
    var names: [String] = []
    while let entry = readdir(directory) {
      let name = withUnsafeBytes(of: entry.pointee.d_name) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
      if !name.hasPrefix(".") { names.append("\(path)/\(name)") }
    }
    return names.sorted()
  }
}

private func contents(of path: String) -> [UInt8] {
  guard let file = fopen(path, "rb") else { return [] }
  defer { fclose(file) }
  var bytes = [UInt8](repeating: 0, count: 65536)
  let count = fread(&bytes, 1, bytes.count, file)
  return Array(bytes.prefix(count))
}

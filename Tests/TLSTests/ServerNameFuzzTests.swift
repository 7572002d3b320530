import Foundation
import Testing

@testable import TLS

/// What the fuzzer starts from and what it once found, read again by every test run.
@Suite struct `Server names that were fuzzed` {
  static let paths = ["Corpus", "Regressions"].flatMap { folder in
    let path = "/\(#filePath.split(separator: "/").dropLast(2).joined(separator: "/"))/Fuzz/FuzzServerName/\(folder)"
    let names = (try? FileManager.default.contentsOfDirectory(atPath: path)) ?? []
    return names.filter { !$0.hasPrefix(".") }.map { "\(path)/\($0)" }
  }

  @Test(arguments: paths) func `a name that is taken could be a host's`(path: String) throws {
    let bytes = [UInt8](try #require(FileManager.default.contents(atPath: path))).dropFirst()
    let name = Array(bytes).withUnsafeBufferPointer { ServerNameExtension.parse($0) }
    let isGood = path.hasSuffix("/name") || path.hasSuffix("/case")
    #expect((name == Array("www.example.com".utf8)) == isGood)
    #expect(isGood || name == nil)
  }
}

import ConfigurationSupport
import TestSupport
import Observability
import Testing

@testable import Configuration
@testable import Language

/// What the fuzzer starts from and what it once found, loaded again by every test run. As in the fuzz target, what
/// follows the first 0xFF byte is the file `inc`.
@Suite struct ConfigurationFuzzInputs {
  @Test(arguments: fuzzedConfigurations)
  func `a configuration once fuzzed has settings exactly where it has no error`(path: String) throws {
    let parts = try SourceFiles.disk.read(path, 1 << 20).get().split(
      separator: 0xFF, maxSplits: 1, omittingEmptySubsequences: false
    ).map(Array.init)
    let files = SourceFiles(
      read: { path, _ in
        path == "inc" && parts.count > 1
          ? .success(parts[1]) : .failure(.init(reason: "no such file or directory", isMissing: true))
      }, expand: { _ in .success(["inc"]) })
    let loaded = Configuration.load(bytes: parts[0], fileName: "main.conf", files: files)
    #expect((loaded.settings == nil) == loaded.diagnostics.contains { $0.severity == .error })
    #expect(loaded.diagnostics.compactMap(\.location).allSatisfy { $0.line > 0 && $0.column > 0 })
  }

  @Test func `there is something to replay`() {
    #expect(fuzzedConfigurations.count > 3)
  }
}

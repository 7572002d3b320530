import Configuration
import Forward
package import Language
package import Observability
import TestSupport
package import Traffic

/// Files of a test, kept in memory.
package func memory(_ files: [String: String]) -> SourceFiles {
  SourceFiles(
    read: { path, limit in
      guard let text = files[path] else { return .failure(.init(reason: "no such file or directory", isMissing: true)) }
      guard text.utf8.count <= limit else { return .failure(.init(reason: "it is too large")) }
      return .success(Array(text.utf8))
    },
    expand: { pattern in
      let parts = pattern.split(separator: "*", omittingEmptySubsequences: false)
      return .success(files.keys.filter { $0.hasPrefix(parts[0]) && $0.hasSuffix(parts[parts.count - 1]) }.sorted())
    })
}

package struct ParsedText {
  package var directives: [Directive]
  package var diagnostics: [Diagnostic]

  package init(_ text: String, files: [String: String] = [:]) {
    var parser = Parser(mainFile: "/etc/x.conf", files: memory(files))
    directives = parser.parse(bytes: Array(text.utf8), path: "/etc/x.conf")
    diagnostics = parser.diagnostics
  }

  /// The words of the first statement, name included.
  package var words: [String] { directives.first.map { [$0.name] + $0.arguments.map(\.text) } ?? [] }
  package var problems: [String] { diagnostics.map(short) }

  /// What the table says about it.
  package var tableProblems: [String] {
    var checker = DirectiveChecker()
    _ = checker.check(directives)
    return checker.diagnostics.map(short)
  }
}

/// `line:column message | hint`, without the file, warnings and notices marked.
package func short(_ diagnostic: Diagnostic) -> String {
  let place = diagnostic.location.map { "\($0.line):\($0.column) " } ?? ""
  let mark = diagnostic.severity == .error ? "" : "\(diagnostic.severity.rawValue): "
  return place + mark + diagnostic.message + (diagnostic.hint.map { " | \($0)" } ?? "")
}

/// A whole configuration, loaded.
package struct LoadedText {
  package var settings: Settings?
  package var diagnostics: [Diagnostic]

  package init(_ text: String, files: [String: String] = [:]) {
    (settings, diagnostics) = Configuration.load(
      bytes: Array(text.utf8), fileName: "/etc/x.conf", files: memory(files))
  }

  package var problems: [String] { diagnostics.map(short) }
  package var errors: [String] { diagnostics.filter { $0.severity == .error }.map(short) }
}

extension LoadedText {
  /// Lines of the http block, which begin in line 2, column 1.
  package static func http(_ lines: String) -> LoadedText {
    LoadedText("http {\n\(lines)\n server { listen 80; return 204; } }")
  }

  /// Lines of a server, which begin in line 2, column 1.
  package static func server(_ lines: String) -> LoadedText {
    LoadedText("http { server { listen 80;\n\(lines)\n} }")
  }

  /// Lines of the block `stream`, which begin in line 2, column 1.
  package static func stream(_ lines: String) -> LoadedText {
    LoadedText("stream {\n\(lines)\n server { listen 81; return a; } }")
  }

  /// Lines of a server of `stream`, which begin in line 2, column 1.
  package static func streamServer(_ lines: String) -> LoadedText {
    LoadedText("stream { server { listen 81;\n\(lines)\n} }")
  }

  /// Lines of a location, which begin in line 2, column 1.
  package static func location(_ lines: String) -> LoadedText {
    LoadedText("http { server { listen 80; location / {\n\(lines)\n return 204; } } }")
  }
}

/// The files that the fuzzer of configurations starts from, and what it once found.
package let fuzzedConfigurations = ["Corpus", "Regressions"].flatMap { folder -> [String] in
  (try? SourceFiles.disk.expand("\(checkout)/Tests/Fuzz/FuzzConfiguration/\(folder)/*").get()) ?? []
}

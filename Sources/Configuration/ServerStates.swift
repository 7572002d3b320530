import Language
import Observability

/// Reads the servers that `state` of an `upstream` keeps, and puts them beside it, as an `include` would.
enum ServerStates {
  /// Returns the tree with them. What is wrong with a file is told to the parser's diagnostics, or returned.
  static func included(
    _ tree: [Directive], _ parser: inout Parser, _ files: SourceFiles, folder: String
  ) -> (tree: [Directive], diagnostics: [Diagnostic]) {
    var (tree, found) = (tree, [Diagnostic]())
    for top in tree.indices where ["http", "stream"].contains(tree[top].name) {
      guard var block = tree[top].block else { continue }
      for group in block.indices where block[group].name == "upstream" {
        guard let lines = block[group].block else { continue }
        block[group].block = lines.flatMap { line -> [Directive] in
          guard line.name == "state", line.arguments.count == 1 else { return [line] }
          return [line] + servers(of: resolve(line.text(0), in: folder), line, &parser, files, &found)
        }
      }
      tree[top].block = block
    }
    return (tree, found)
  }

  /// No servers without a file: the API has added none yet.
  private static func servers(
    of path: String, _ line: Directive, _ parser: inout Parser, _ files: SourceFiles, _ found: inout [Diagnostic]
  ) -> [Directive] {
    switch files.read(path, Parser.maximumFileSize) {
    case .failure(let fault) where fault.isMissing: return []
    case .failure(let fault):
      found.append(
        Diagnostic(
          .error, at: line.location, "cannot read the servers of \"\(path)\": \(fault.reason)",
          hint: "mend it, or move it away: the group has no servers then"))
      return []
    case .success(let bytes):
      let lines = parser.parse(bytes: bytes, path: path)
      for other in lines where other.name != "server" {
        found.append(
          Diagnostic(
            .error, at: other.location, "\"\(other.name)\" in a state of servers",
            hint: "server ADDRESS:PORT; and nothing else"))
      }
      return lines.filter { $0.name == "server" }
    }
  }
}

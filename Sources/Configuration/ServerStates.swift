import Features
import Forward
import Language
import Observability
import Traffic

/// Reads the servers that `state` of an `upstream` keeps, and puts them beside it, as an `include` would.
///
/// The API writes the files, so a damaged one is no fault of the configuration. At a start it costs its group the
/// servers. It stops neither a start nor a reload.
enum ServerStates {
  struct Included {
    /// The configuration, with the servers of the files.
    var tree: [Directive]
    /// The files that are no states.
    var damaged: Set<String> = []
    var diagnostics: [Diagnostic] = []
  }

  static func included(_ tree: [Directive], _ files: SourceFiles, folder: String) -> Included {
    var found = Included(tree: tree)
    for top in tree.indices where ["http", "stream"].contains(tree[top].name) {
      guard var block = tree[top].block else { continue }
      let isOfStream = tree[top].name == "stream"
      for group in block.indices where block[group].name == "upstream" {
        guard let lines = block[group].block else { continue }
        block[group].block = lines.flatMap { line -> [Directive] in
          guard line.name == "state", line.arguments.count == 1 else { return [line] }
          return [line]
            + servers(
              of: resolve(line.text(0), in: folder), of: block[group], line, isOfStream: isOfStream, files, &found)
        }
      }
      found.tree[top].block = block
    }
    return found
  }

  /// No servers without a file: the API has added none yet.
  private static func servers(
    of path: String, of group: Directive, _ line: Directive, isOfStream: Bool, _ files: SourceFiles,
    _ found: inout Included
  ) -> [Directive] {
    switch files.read(path, Parser.maximumFileSize) {
    case .failure(let fault) where fault.isMissing: return []
    case .failure(let fault):
      found.diagnostics.append(
        Diagnostic(
          .error, at: line.location, "cannot read the servers of \"\(path)\": \(fault.reason)",
          hint: "mend it, or move it away: the group has no servers then"))
      return []
    case .success(let bytes):
      do throws(ServerState.Fault) {
        return try ServerState.servers(bytes, path: path, isOfStream: isOfStream)
      } catch {
        found.damaged.insert(path)
        found.diagnostics.append(
          Diagnostic(
            .warning, at: line.location,
            "\"\(path)\", the state of upstream \"\(group.text(0))\", is damaged: \(error): a start gives the group no servers",
            hint: "\(DamagedState.keeping); add the servers by the API, or mend that file and move it back"))
        return []
      }
    }
  }
}

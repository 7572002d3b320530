import Bytes
import Crypto
import Forward
package import Language
import Observability
import Traffic
package import Upstream

/// The text of a group's `state`: a `server` line for each server, as in the configuration.
///
/// The API writes it, and reloads and starts read it as a part of the configuration. So only what these read back as
/// the same words is ever written, and whatever else a file has makes the file a damaged one.
package enum ServerState {
  /// Why a text is no state, or why it was not written.
  package struct Fault: Error, Sendable, CustomStringConvertible {
    package let description: String
  }

  /// Whether an address of the API may stand in a state, in logs and in lists: a text without blanks, without control
  /// characters, and without characters that mean something to the language.
  static func canHold(_ address: String) -> Bool {
    address.unicodeScalars.allSatisfy { scalar in
      switch scalar.properties.generalCategory {
      case .control, .format, .lineSeparator, .paragraphSeparator, .spaceSeparator, .unassigned, .privateUse,
        .surrogate:
        false
      default: !";{}\"'\\$#".unicodeScalars.contains(scalar)
      }
    }
  }

  /// `lines`: the words of each. Throws for words that would be read back as other ones.
  static func text(_ lines: [[String]], isOfStream: Bool) throws(Fault) -> String {
    let text = lines.map { $0.map { ConfigurationWord.written($0) }.joined(separator: " ") + ";\n" }.joined()
    let read = try servers(Array(text.utf8), path: "state", isOfStream: isOfStream)
    guard read.map({ [$0.name] + $0.arguments.map(\.text) }) == lines else {
      throw Fault(description: "the lines of its servers would be read as other ones")
    }
    return text
  }

  /// Replaces the file. Blocks, so never use it on an event loop.
  static func write(_ lines: [[String]], to path: String, isOfStream: Bool) throws(Fault) {
    let text = try text(lines, isOfStream: isOfStream)
    do throws(NewFile.Failure) {
      try NewFile.replace(path, SecretBytes(Array(text.utf8)), mode: 0o600, isShared: true)
    } catch { throw Fault(description: "\(error)") }
  }

  /// The lines of a file. It has `server` lines alone, and includes no other file.
  package static func servers(_ bytes: [UInt8], path: String, isOfStream: Bool) throws(Fault) -> [Directive] {
    let nothing = SourceFiles(
      read: { _, _ in .failure(SourceFiles.Unreadable(reason: "a state of servers includes no file")) },
      expand: { _ in .failure(SourceFiles.Unreadable(reason: "a state of servers includes no file")) })
    var parser = Parser(mainFile: path, files: nothing)
    let lines = parser.parse(bytes: bytes, path: path)
    func fault(_ found: Diagnostic) -> Fault {
      Fault(description: (found.location.map { "\($0): " } ?? "") + found.message)
    }
    if let found = parser.diagnostics.first { throw fault(found) }
    // Nothing of a feature is in such a line.
    var builder = SettingsBuilder(FeatureDirectives([]), folder: "")
    builder.kind = isOfStream ? .stream : .http
    for line in lines {
      guard line.name == "server", line.block == nil, !line.arguments.isEmpty else {
        throw Fault(description: "\(line.location): \"\(line.name)\" in a state of servers")
      }
      let server = UpstreamServerSettings.read(line, &builder)
      if let found = builder.diagnostics.first(where: { $0.severity == .error }) { throw fault(found) }
      guard server?.followed == nil else {
        throw Fault(description: "\(line.location): \"resolve\" in a state of servers")
      }
    }
    return lines
  }
}

extension SharedState {
  /// Writes the servers that this process knows of a group to its `state`, in place of a damaged file. Blocks.
  package func rewriteState(of group: UpstreamGroupSettings) throws(ServerState.Fault) {
    guard let path = group.stateFile, let lines = groupLists.lines(of: group) else { return }
    try ServerState.write(lines, to: path, isOfStream: group.isOfStream)
  }
}

import Configuration
package import Language
import Observability

/// nginx's configuration, repaired where our own reader refuses it: the reader judges, and what it names becomes a comment.
///
/// A directive that may keep clients out is never left out alone: its location answers 404, or its server refuses everybody.
package enum NginxConversion {
  /// `file` appears in notes. `files`: what `include` names, which stands in the result in place of it.
  /// `pinsEach`: each pass to a server that nothing verifies has a pin to fill in, in place of one CA for several.
  package static func convert(
    _ text: String, file: String, files: SourceFiles = .none, pinsEach: Bool = false
  ) -> Converted {
    var parser = Parser(mainFile: file, files: files)
    let directives = parser.parse(bytes: Array(text.utf8), path: file)
    let name = OldText.plain(Array(file.utf8))
    let heading = [
      "# Converted by `sallyport convert` from nginx's \(name).",
      "# Lines of the old file that changed or can't be had are comments, each with the reason.",
      "# Relative names are relative to the folder of this file. Check it: sallyport check FILE", "",
    ]
    if !parser.diagnostics.isEmpty {
      let notes = parser.diagnostics.map { fault in
        ConversionNote(
          .refused,
          OldLine(
            file: fault.location.map { OldText.plain(Array($0.file.utf8)) } ?? name, number: fault.location?.line ?? 1,
            text: ""), OldText.plain(Array(fault.message.utf8)))
      }
      let comments = notes.flatMap(\.comment)
      return Converted(text: (heading + comments).joined(separator: "\n") + "\n", notes: notes, hasServers: false)
    }
    var tree = NginxTree(directives, pinsEach: pinsEach)
    for _ in 0..<8 {
      let rendered = tree.rendered(heading)
      let faults = Configuration.load(bytes: Array(rendered.text.utf8), fileName: "sallyport.conf", files: .none)
        .diagnostics.filter { $0.severity == .error }
      if faults.isEmpty {
        return Converted(
          text: rendered.text, notes: tree.notes, hasServers: true, gaps: tree.gaps, parts: tree.parts(of: rendered))
      }
      var isBetter = false
      for fault in faults {
        guard let line = fault.location?.line, let node = rendered.owners[line] else { continue }
        if tree.repair(node, fault) { isBetter = true }
      }
      if !isBetter { break }
    }
    let note = ConversionNote(
      .refused, OldLine(file: name, number: 1, text: ""),
      "the new configuration as a whole would not be valid; `sallyport check` of the old file says why")
    return Converted(
      text: (heading + note.comment).joined(separator: "\n") + "\n", notes: tree.notes + [note], hasServers: false)
  }
}

import Language

/// SSLv2 and SSLv3, which nginx takes and OpenSSL speaks no more.
extension NginxTree {
  /// Leaves them out where versions of TLS stand beside them. A line without any is refused later.
  mutating func dropBrokenVersions() {
    let broken: Set = ["SSLv2", "SSLv3"]
    for index in nodes.indices {
      let line = nodes[index].directive
      let words = line.arguments.map(\.text), kept = words.filter { !broken.contains($0) }
      guard line.name.hasSuffix("ssl_protocols"), kept.count < words.count, !kept.isEmpty,
        let parent = nodes[index].parent
      else { continue }
      let note = ConversionNote(
        .changed, nodes[index].line, "SSLv2 and SSLv3 are broken, and OpenSSL speaks them no more")
      changes.append(note)
      nodes[parent].comments += note.comment
      nodes[parent].additions.append(ConvertedWord.statement(line.name, kept))
      nodes[index].state = .gone
    }
  }
}

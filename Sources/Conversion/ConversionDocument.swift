import Configuration
import Language
import Observability

/// The new configuration while it is made. Our own reader judges it at the end: a block that it doesn't accept is closed.
struct ConversionDocument {
  /// What the comment at the begin calls the old configuration, such as `stunnel's /etc/stunnel/stunnel.conf`.
  let origin: String
  private(set) var notes: [ConversionNote] = []
  private var main: [String] = []
  private var streams: [ConvertedBlock] = []
  private var https: [ConvertedBlock] = []
  /// Statements at the begin of `http` and `stream`, such as `map`.
  var beforeStreams: [String] = []
  var beforeHTTP: [String] = []

  init(origin: String) { self.origin = origin }

  // MARK: The main context

  mutating func take(_ line: OldLine, _ name: String? = nil, _ words: String..., because reason: String = "") {
    guard words.allSatisfy(ConvertedWord.isConstant) else {
      return refuse(line, "a word with \"$\" or a control character")
    }
    notes.append(ConversionNote(.taken, line, reason))
    if let name { main.append(ConvertedWord.statement(name, words)) }
  }

  mutating func change(_ line: OldLine, _ reason: String, _ name: String? = nil, _ words: String...) {
    guard words.allSatisfy(ConvertedWord.isConstant) else { return refuse(line, reason) }
    let note = ConversionNote(.changed, line, reason)
    notes.append(note)
    main += note.comment
    if let name { main.append(ConvertedWord.statement(name, words)) }
  }

  mutating func refuse(_ line: OldLine, _ reason: String) {
    let note = ConversionNote(.refused, line, reason)
    notes.append(note)
    main += note.comment
  }

  mutating func write(_ name: String, _ words: String...) { main.append(ConvertedWord.statement(name, words)) }

  // MARK: Blocks

  mutating func add(stream block: ConvertedBlock) { streams.append(block) }
  mutating func add(http block: ConvertedBlock) { https.append(block) }

  /// The text, which our own reader accepts. `faults`: notes that belong to no block.
  consuming func finished(with faults: [ConversionNote] = []) -> Converted {
    for fault in faults {
      notes.append(fault)
      main += fault.comment
    }
    return judged()
  }

  private func judged() -> Converted {
    var refusals = Refusals(
      streams: streams.map { $0.isClosed ? .closed : .open },
      https: https.map { $0.isClosed ? .closed : .open })
    var added: [ConversionNote] = []
    // Each round closes or removes what the reader names, so that after a few rounds nothing is left to name.
    for _ in 0..<6 {
      let text = rendered(refusals)
      guard text.serves else { return converted(text, added, hasServers: false) }
      let faults = Self.faults(text.text)
      guard !faults.isEmpty else { return converted(text, added, hasServers: true) }
      var isBetter = false
      var lowered: Set<Owner> = []
      for fault in faults {
        guard let line = fault.location?.line, let owner = text.owners[line], lowered.insert(owner).inserted,
          refusals.lower(owner)
        else { continue }
        isBetter = true
        let reason = "the new configuration would not be valid: \(fault.message)" + (fault.hint.map { ": \($0)" } ?? "")
        let note = ConversionNote(.refused, block(owner).head, OldText.plain(Array(reason.utf8)))
        added.append(note)
        refusals.notes[owner, default: []].append(note)
      }
      guard isBetter else { break }
    }
    // What is left is of the main context, or of how blocks relate.
    let head = streams.first?.head ?? https.first?.head ?? OldLine(file: origin, number: 1, text: "")
    added.append(
      ConversionNote(.refused, head, "the new configuration as a whole would not be valid; no server is in it"))
    let text = Rendered(lines: [Self.heading(origin), "# Nothing of it could be converted."])
    return converted(text, added, hasServers: false)
  }

  private func converted(_ text: Rendered, _ added: [ConversionNote], hasServers: Bool) -> Converted {
    var all = notes
    for block in streams + https { all += block.notes }
    all += added
    // A line that changed somewhere is not told of as one that means the same.
    let told = Set(all.filter { $0.outcome != .taken }.map(\.line))
    var seen: Set<ConversionNote> = []
    var taken: Set<OldLine> = []
    let once = all.filter { note in
      guard note.outcome == .taken else { return seen.insert(note).inserted }
      return !told.contains(note.line) && taken.insert(note.line).inserted
    }
    let ordered = once.enumerated().sorted {
      ($0.element.line.number, $0.offset) < ($1.element.line.number, $1.offset)
    }
    return Converted(
      text: text.text, notes: ordered.map(\.element), hasServers: hasServers, gaps: (streams + https).flatMap(\.gaps),
      parts: text.heads.mapValues { owner in
        let block = block(owner)
        return [ConversionNote(.taken, block.head, "")] + block.notes
      })
  }

  private static func faults(_ text: String) -> [Diagnostic] {
    Configuration.load(bytes: Array(text.utf8), fileName: "sallyport.conf", files: .none).diagnostics.filter {
      $0.severity == .error
    }
  }

  private static func heading(_ origin: String) -> String {
    """
    # Converted by `sallyport convert` from \(origin).
    # Lines of the old file that changed or can't be had are comments, each with the reason.
    # Relative names are relative to the folder of this file. Check it: sallyport check FILE
    """
  }

  // MARK: Text

  private func block(_ owner: Owner) -> ConvertedBlock {
    owner.isStream ? streams[owner.index] : https[owner.index]
  }

  private struct Owner: Hashable {
    let isStream: Bool
    let index: Int
  }

  private enum State { case open, closed, removed }

  private struct Refusals {
    var streams: [State]
    var https: [State]
    /// What our own reader said.
    var notes: [Owner: [ConversionNote]] = [:]

    subscript(owner: Owner) -> State {
      get { owner.isStream ? streams[owner.index] : https[owner.index] }
      set { if owner.isStream { streams[owner.index] = newValue } else { https[owner.index] = newValue } }
    }

    /// Closes an open block, and removes a closed one; false: it is removed already.
    mutating func lower(_ owner: Owner) -> Bool {
      switch self[owner] {
      case .open: self[owner] = .closed
      case .closed: self[owner] = .removed
      case .removed: return false
      }
      return true
    }
  }

  private struct Rendered {
    var lines: [String] = []
    var owners: [Int: Owner] = [:]
    /// Blocks by their first lines.
    var heads: [Int: Owner] = [:]
    var serves = false
    var text: String { lines.joined(separator: "\n") + "\n" }

    mutating func add(_ line: String, _ owner: Owner? = nil) {
      lines.append(line)
      if let owner { owners[lines.count] = owner }
    }
  }

  private func rendered(_ states: Refusals) -> Rendered {
    var text = Rendered()
    text.add(Self.heading(origin))
    // The heading has several lines.
    text.lines = text.lines.flatMap { $0.split(separator: "\n", omittingEmptySubsequences: false).map(String.init) }
    text.add("")
    for line in main { text.add(line) }
    text.add("events { worker_connections 4096; }")
    add("stream", streams, beforeStreams, isStream: true, states, to: &text)
    add("http", https, beforeHTTP, isStream: false, states, to: &text)
    return text
  }

  private func add(
    _ name: String, _ blocks: [ConvertedBlock], _ before: [String], isStream: Bool, _ states: Refusals,
    to text: inout Rendered
  ) {
    guard !blocks.isEmpty else { return }
    text.add("")
    let serves = blocks.indices.contains { index in
      let state = states[Owner(isStream: isStream, index: index)]
      return blocks[index].group == nil
        && (state == .open || state == .closed && !blocks[index].closed.isEmpty)
    }
    // A block `http` without servers is an error.
    if serves { text.serves = true }
    if serves { text.add("\(name) {") }
    if serves { for line in before { text.add("    \(line)") } }
    for (index, block) in blocks.enumerated() {
      let owner = Owner(isStream: isStream, index: index)
      text.add("")
      text.add("    # \(block.head.file):\(block.head.number): \(block.head.text)")
      switch states[owner] {
      case .open where serves:
        text.add("    \(block.group.map { "upstream \($0)" } ?? "server") {", owner)
        text.heads[text.lines.count] = owner
        for line in block.statements { text.add("        \(line)", owner) }
        text.add("    }", owner)
      case .open, .closed, .removed:
        for note in block.notes + (states.notes[owner] ?? []) where note.outcome != .taken {
          for line in note.comment { text.add("    \(line)") }
        }
        text.add("    # This can't be had, so nobody gets in here.")
        guard serves, states[owner] == .closed, !block.closed.isEmpty else { continue }
        text.add("    \(block.group.map { "upstream \($0)" } ?? "server") {", owner)
        text.heads[text.lines.count] = owner
        for line in block.closed { text.add("        \(line)", owner) }
        text.add("    }", owner)
      }
    }
    if serves { text.add("}") }
  }
}

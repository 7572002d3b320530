import Language
import Observability

/// The directives of nginx's configuration, and what was repaired of them.
struct NginxTree {
  struct Node {
    let directive: Directive
    let parent: Int?
    let line: OldLine
    var children: [Int] = []
    /// Comments in its place, or in front of it.
    var comments: [String] = []
    var state = State.kept
    /// Lines behind it, or at the beginning of its block, which no old line has.
    var additions: [String] = []
    /// A pass to a server that nothing verifies.
    var open: OpenPass?
  }

  /// A pass whose trust is to be filled in.
  struct OpenPass {
    /// What its directives about TLS begin with.
    let prefix: String
    /// The server, which could be asked for its pin; nil: a variable names it.
    let gap: TrustGap?
  }

  enum State {
    case kept
    /// Its block is replaced by lines that let nobody in.
    case closed
    case gone
  }

  var nodes: [Node] = []
  private(set) var roots: [Int] = []
  var changes: [ConversionNote] = []
  private var seen: Set<ConversionNote> = []
  /// Whether each pass to a server that nothing verifies gets a pin of its own, although there are several.
  let pinsEach: Bool
  private var areServersClosed = false

  /// In the order of the old lines: what changed, and what means the same.
  var notes: [ConversionNote] {
    var all = changes + trustPlaces().flatMap { place, passes in passes.map { trustNote($0, in: place) } }
    let changed = Set(all.map(\.line))
    for (index, node) in nodes.enumerated()
    where node.directive.block == nil && !changed.contains(node.line) && isInEffect(index) {
      all.append(ConversionNote(.taken, node.line, ""))
    }
    return all.enumerated().sorted {
      ($0.element.line.number, $0.offset) < ($1.element.line.number, $1.offset)
    }.map(\.element)
  }

  /// Notes of each server and group: those of its own lines, and of lines around it, by the line on which it begins.
  func parts(of text: Rendered) -> [Int: [ConversionNote]] {
    let told = Dictionary(grouping: notes, by: \.line)
    var parts: [Int: [ConversionNote]] = [:]
    let first = Dictionary(text.owners.map { ($0.value, $0.key) }, uniquingKeysWith: min)
    for (index, line) in first where isServer(index) || nodes[index].directive.name == "upstream" {
      let around = nodes[index].parent.map { nodes[$0].children.filter { nodes[$0].directive.block == nil } } ?? []
      let lines = [nodes[index].line] + (below(index) + around).map { nodes[$0].line }
      parts[line] = lines.flatMap { told[$0] ?? [ConversionNote(.taken, $0, "")] }
    }
    return parts
  }

  private func below(_ index: Int) -> [Int] { nodes[index].children.flatMap { [$0] + below($0) } }

  init(_ directives: [Directive], pinsEach: Bool) {
    self.pinsEach = pinsEach
    roots = directives.map { add($0, nil) }
    translateFields()
    dropBrokenVersions()
  }

  private mutating func add(_ directive: Directive, _ parent: Int?) -> Int {
    let words = [directive.name] + directive.arguments.map(\.text)
    let text = words.map(Self.written).joined(separator: " ") + (directive.block == nil ? ";" : " { … }")
    let index = nodes.count
    nodes.append(
      Node(
        directive: directive, parent: parent,
        line: OldLine(
          file: OldText.plain(Array(directive.location.file.utf8)), number: directive.location.line,
          text: OldText.plain(Array(text.utf8)))))
    let children = (directive.block ?? []).map { add($0, index) }
    nodes[index].children = children
    return index
  }

  func isInEffect(_ index: Int) -> Bool {
    var place = Optional(index)
    while let node = place {
      if nodes[node].state == .gone || nodes[node].state == .closed && node != index { return false }
      place = nodes[node].parent
    }
    return true
  }

  // MARK: Repairs

  /// Does what a fault asks for; false: nothing more can be done here.
  mutating func repair(_ index: Int, _ fault: Diagnostic) -> Bool {
    guard isInEffect(index) || nodes[index].state == .closed else { return true }
    let node = nodes[index]
    let reason = OldText.plain(Array((fault.message + (fault.hint.map { ": \($0)" } ?? "")).utf8))
    if fault.message.contains("has no trust settings"), let target = node.directive.arguments.first?.text,
      node.open == nil
    {
      nodes[index].open = Self.openPass(node.directive, to: target)
      return true
    }
    switch node.directive.name {
    case "upstream" where node.state == .kept:
      note(index, reason)
      nodes[index].state = .closed
      return true
    case "server" where isServer(index), "location":
      // A location that isn't valid even when it is closed, such as one with a wrong expression, closes its server.
      let isWrong = node.directive.name == "location" && node.state == .closed
      return close(isWrong ? server(of: index) ?? index : index, index, reason)
    default: break
    }
    // What a group says may keep clients apart, such as ntlm; a server of it can be left out.
    if let parent = node.parent, nodes[parent].directive.name == "upstream", node.directive.name != "server",
      !NginxHarmless.contains(node.directive.name)
    {
      note(index, reason)
      nodes[index].state = .gone
      nodes[parent].state = .closed
      return true
    }
    if !NginxHarmless.contains(node.directive.name), let block = closable(index) { return close(block, index, reason) }
    if !NginxHarmless.contains(node.directive.name), mayGuardAll(index) {
      note(index, reason)
      nodes[index].state = .gone
      guard !areServersClosed else { return true }
      areServersClosed = true
      for server in nodes.indices where isServer(server) && nodes[server].state == .kept {
        _ = close(server, index, "it stood for all servers")
      }
      return true
    }
    note(index, reason)
    nodes[index].state = .gone
    return true
  }

  private mutating func note(_ index: Int, _ reason: String) {
    let note = ConversionNote(.refused, nodes[index].line, reason)
    guard seen.insert(note).inserted else { return }
    changes.append(note)
    nodes[index].comments += note.comment
  }

  /// Closes a location or a server because of a directive in it.
  private mutating func close(_ block: Int, _ cause: Int, _ reason: String) -> Bool {
    switch nodes[block].state {
    case .gone: return false
    case .closed:
      // Even its closed form isn't valid.
      nodes[block].state = .gone
      note(block, reason)
    case .kept:
      nodes[block].state = .closed
      let note = ConversionNote(.refused, nodes[cause].line, reason)
      if seen.insert(note).inserted { changes.append(note) }
      nodes[block].comments += note.comment
    }
    return true
  }

  private static func openPass(_ pass: Directive, to target: String) -> OpenPass {
    let prefix = pass.name == "grpc_pass" ? "grpc_ssl" : "proxy_ssl"
    let authority = target.split(separator: "/", omittingEmptySubsequences: true).dropFirst(
      target.contains("://") ? 1 : 0
    ).first
    guard let authority, !authority.contains("$") else { return OpenPass(prefix: prefix, gap: nil) }
    let endpoint = Endpoint(String(authority))
    let host =
      endpoint?.host ?? String(authority.filter { $0.isLetter || $0.isNumber || $0 == "." || $0 == "-" })
    let port = if case .port(_, let port)? = endpoint?.place { port } else { 443 }
    return OpenPass(prefix: prefix, gap: TrustGap(host: host, port: port))
  }

  /// The location or server that a directive stands in; nil: it stands in none.
  private func closable(_ index: Int) -> Int? {
    var place = nodes[index].parent
    while let node = place {
      if nodes[node].directive.name == "location" || isServer(node) { return node }
      place = nodes[node].parent
    }
    return nil
  }

  private func server(of index: Int) -> Int? {
    var place = nodes[index].parent
    while let node = place {
      if isServer(node) { return node }
      place = nodes[node].parent
    }
    return nil
  }

  private func isServer(_ index: Int) -> Bool {
    nodes[index].directive.name == "server" && nodes[index].directive.block != nil
      && nodes[index].parent.map { ["http", "stream"].contains(nodes[$0].directive.name) } ?? false
  }

  /// Whether a directive stands in `http` or `stream` itself, or in a table there, and may be a check for all servers.
  private func mayGuardAll(_ index: Int) -> Bool {
    guard let parent = nodes[index].parent else { return false }
    if ["http", "stream"].contains(nodes[parent].directive.name) {
      return !NginxHarmless.isDefinition(nodes[index].directive.name)
    }
    return ["map", "geo", "split_clients", "match"].contains(nodes[parent].directive.name)
  }

  // MARK: Text

  struct Rendered {
    var lines: [String]
    /// The directive of each line, from 1 on.
    var owners: [Int: Int] = [:]
    /// What is to be filled in about trust: behind a pass, or at the beginning of a block.
    var trust: [Int: (comments: [String], lines: [String])] = [:]
    var text: String { lines.joined(separator: "\n") + "\n" }
  }

  func rendered(_ heading: [String]) -> Rendered {
    var text = Rendered(lines: heading)
    for (place, passes) in trustPlaces() { text.trust[place] = trustLines(passes, in: place) }
    for root in roots { render(root, "", &text) }
    return text
  }

  private func render(_ index: Int, _ indent: String, _ text: inout Rendered) {
    let node = nodes[index]
    for comment in node.comments + (text.trust[index]?.comments ?? []) { text.lines.append(indent + comment) }
    if node.state != .kept { addComments(below: index, indent, &text) }
    guard node.state != .gone else { return }
    func add(_ line: String) {
      text.lines.append(indent + line)
      text.owners[text.lines.count] = index
    }
    let words = ([node.directive.name] + node.directive.arguments.map(\.text)).map(Self.written).joined(separator: " ")
    guard node.directive.block != nil else {
      add("\(words);")
      for line in node.additions + (text.trust[index]?.lines ?? []) { add(line) }
      return
    }
    add("\(words) {")
    if node.state == .closed {
      for line in closedLines(index) { add("    \(line)") }
    } else {
      for line in node.additions + (text.trust[index]?.lines ?? []) { add("    \(line)") }
      for child in node.children { render(child, indent + "    ", &text) }
    }
    add("}")
  }

  /// What was refused inside of a block that is replaced.
  private func addComments(below index: Int, _ indent: String, _ text: inout Rendered) {
    for child in nodes[index].children {
      for comment in nodes[child].comments { text.lines.append(indent + comment) }
      addComments(below: child, indent, &text)
    }
  }

  /// What stands in a block that lets nobody in.
  private func closedLines(_ index: Int) -> [String] {
    let node = nodes[index]
    switch node.directive.name {
    case "upstream": return ["server 127.0.0.1:1 down;"]
    case "location": return ["return 404;"]
    default:
      var lines: [String] = []
      var isTLS = false
      for child in node.children {
        let directive = nodes[child].directive
        guard ["listen", "server_name"].contains(directive.name), directive.block == nil else { continue }
        if directive.name == "listen", directive.arguments.contains(where: { $0.text == "ssl" }) { isTLS = true }
        if directive.name == "listen", directive.arguments.contains(where: { ["udp", "quic"].contains($0.text) }) {
          continue
        }
        lines.append(ConvertedWordText.statement(directive, Self.written))
      }
      let isStream = node.parent.map { nodes[$0].directive.name == "stream" } ?? false
      if isTLS { lines.append("ssl_reject_handshake on;") }
      if isStream, !isTLS { lines.append("deny all;") }
      return lines + [isStream ? "return refused;" : "return 404;"]
    }
  }

  /// A word that means the same, with quotes only where it needs them. Variables stay variables.
  static func written(_ text: String) -> String {
    let isPlain = text.utf8.allSatisfy { byte in
      byte > 0x20 && byte != 0x7F && !"{};\"'\\#".utf8.contains(byte)
    }
    return isPlain && !text.isEmpty ? text : ConfigurationWord.quoted(text)
  }
}

private enum ConvertedWordText {
  static func statement(_ directive: Directive, _ written: (String) -> String) -> String {
    ([directive.name] + directive.arguments.map(\.text)).map(written).joined(separator: " ") + ";"
  }
}

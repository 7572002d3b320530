import Observability
import TLS
import Traffic

/// The ways of a configuration as lines for a person, or as JSON for a program.
package struct WaysReport {
  private let ways: Ways
  private let path: String
  private let words: WayWords

  package init(_ ways: Ways, configuration path: String) {
    self.ways = ways
    self.path = path
    words = WayWords(http: ways.http)
  }

  // MARK: For a person

  package var lines: [String] {
    var lines = firstLines
    for destination in ways.destinations {
      lines.append("\(Self.title(destination)): \(destination.openness.words)")
      for group in groups(destination) { lines += self.lines(of: group, destination) }
      for line in destination.telling { lines.append("  \(line)") }
      lines.append("")
    }
    if !ways.isComplete {
      lines.append("There are more leads from location to location than were followed: a way may be missing.")
    }
    if lines.isEmpty { lines.append("no way") }
    return lines.map { LogEscape.visible($0) }
  }

  private static func title(_ destination: Ways.Destination) -> String {
    switch destination.kind {
    case .upstream: "upstream \(destination.words)"
    case .content, .response: destination.words
    }
  }

  /// What to look at first.
  private var firstLines: [String] {
    let all = ways.destinations.map { (title: Self.title($0), destination: $0) }
    var lines = lines(
      "Ways that ask for less than another way to the same path:",
      all.flatMap { title, destination in destination.uneven.map { (title, $0) } })
    lines += self.lines(
      "Locations that ask for less than most others of the same content:",
      all.flatMap { title, destination in destination.lesser.map { (title, $0) } })
    for (heading, label, words) in [
      ("Rules about addresses that each client may claim to meet:", "asks for", { $0.gates.flatMap(\.claims) }),
      ("Ways by which a client may write who it is:", "tells", { [ways] in ways.written(by: $0) }),
    ] as [(String, String, (Way) -> [String])] {
      let found = all.flatMap { title, destination in
        destination.ways.filter { !words($0.way).isEmpty }.map { (title: title, way: $0.way) }
      }.gathered { "\($0.title) \(ObjectIdentifier($0.way.location))" }.compactMap(\.first)
      if found.isEmpty { continue }
      lines.append(heading)
      for (title, way) in found {
        lines.append("    location  \(WayWords.location(way)), to \(title)")
        lines += words(way).map { "    \(label)\(String(repeating: " ", count: 10 - label.count))\($0)" }
      }
      lines.append("")
    }
    return lines
  }

  private func lines(_ heading: String, _ uneven: [(title: String, found: UnevenWays.Uneven)]) -> [String] {
    if uneven.isEmpty { return [] }
    let sorted = Way.Openness.allCases.flatMap { openness in uneven.filter { $0.found.way.openness == openness } }
    let groups = sorted.gathered { _, found in
      let way = found.way
      return "\(way.openness) \(words.names(way)) \(way.server) \(way.hops.map(\.words)) \(found.missing)"
    }
    let lines = groups.flatMap { group -> [String] in
      guard let found = group.first?.found else { return [] }
      var lines = ["  \(found.way.openness.words)", "    by        \(words.doors(group.map(\.found.way)))"]
      for hop in found.way.hops { lines.append("    then      \(WayWords.text(hop))") }
      let contents = group.gathered { "\($0.title) \(ObjectIdentifier($0.found.way.location))" }.compactMap(\.first)
      for (title, found) in contents { lines.append("    location  \(WayWords.location(found.way)), to \(title)") }
      lines += found.missing.map { "    without   \($0)" }
      let other = "location \(WayWords.location(found.stricter)) at \(words.listener(found.stricter))"
      lines.append("    asked at  \(other)\(contents.count > 1 ? ", and others" : "")")
      return lines
    }
    return [heading] + lines + [""]
  }

  // MARK: Groups

  /// Ways of one server block that ask for the same and say the same, told together: each of the locations is reached by each
  /// of the listeners.
  private struct Group {
    let ways: [(way: Way, witness: WayWitness?)]
    let notes: [String]
  }

  private func groups(_ destination: Ways.Destination) -> [Group] {
    let all = destination.ways.map { (way: $0.way, witness: $0.witness, notes: notes($0.way)) }
    func key(_ element: (way: Way, witness: WayWitness?, notes: [String])) -> String {
      let way = element.way
      let parts = [
        ["\(way.openness) \(way.server) \(way.isSubrequest) \(words.names(way))"], way.hops.map(WayWords.text),
        way.gates.map { $0.words.joined(separator: "\t") }, element.notes, ways.told(by: way),
      ]
      return parts.map { $0.joined(separator: "\n") }.joined(separator: "\n\n")
    }
    let ofLocations = all.gathered { "\(ObjectIdentifier($0.way.location)) \(key($0))" }
    let groups = ofLocations.gathered { members in
      "\(members.map { words.listener($0.way) }) \(members.first.map(key) ?? "")"
    }
    return groups.map { group in
      let members = group.flatMap { $0 }
      return Group(ways: members.map { ($0.way, $0.witness) }, notes: members.first?.notes ?? [])
    }
  }

  private func lines(of group: Group, _ destination: Ways.Destination) -> [String] {
    guard let way = group.ways.first?.way else { return [] }
    var lines = ["  \(way.openness.words)", "    by        \(words.doors(group.ways.map(\.way)))"]
    for hop in way.hops { lines.append("    then      \(WayWords.text(hop))") }
    let witness = group.ways.lazy.compactMap(\.witness).first
    for members in group.ways.gathered(by: { ObjectIdentifier($0.way.location) }) {
      guard let member = members.first else { continue }
      let isShown = witness == nil || members.contains { $0.witness != nil }
      lines.append("    location  \(WayWords.location(member.way))\(isShown ? "" : "  (not shown)")")
    }
    for (index, gate) in way.gates.enumerated() {
      let place = gate.place.flatMap { place in
        group.ways.allSatisfy { $0.way.gates[index].place == place } ? "  \(place)" : nil
      }
      for words in gate.words {
        if words.hasPrefix(AccessGate.asksNothing) {
          lines.append("    asks      \(words.dropFirst(AccessGate.asksNothing.count))")
        } else {
          lines.append("    asks for  \(words)\(place ?? "")")
        }
      }
    }
    for note in group.notes { lines.append("    note      \(note)") }
    if destination.kind == .upstream {
      let told = ways.told(by: way)
      lines.append("    tells     \(told.isEmpty ? "nothing about the client" : told.joined(separator: ", "))")
    }
    if let others = Self.others(group.ways.map(\.way)) { lines.append("    also      \(others)") }
    lines.append("    \(witness.map { "seen      \($0.words)" } ?? "not shown")")
    return lines
  }

  /// Other leads to the same locations; nil: there are none.
  private static func others(_ ways: [Way]) -> String? {
    let leads = ways.flatMap(\.others).gathered { $0.place.map { "\($0)" } ?? $0.words }.compactMap(\.first)
    guard !leads.isEmpty else { return nil }
    let more = leads.count > 3 ? " and \(leads.count - 3) more" : ""
    return "\(leads.prefix(3).map(WayWords.text).joined(separator: ", "))\(more), asking for no less"
  }

  private func notes(_ way: Way) -> [String] {
    var notes = way.location.ways.opens
    if case .refused(let codes) = way.entry {
      notes.append(
        "nobody has admitted the client: it is the error page of \(codes.map { "\($0)" }.joined(separator: ", "))")
    }
    if way.isSubrequest {
      notes.append(
        "a subrequest: the client gets nothing of the response; allow, deny and passwords of the location aren't asked")
    }
    let server = ways.http.servers[way.server], root = server.root.ways
    if ways.http.listeners[way.listener].isTLS, let policy = server.tls, policy.rejectsHandshake,
      way.openness != .nobody
    {
      notes.append(
        "its own handshakes are rejected: a handshake for another name, which judges clients alike, comes before")
    }
    let relaying = root.certificatesSaidBy.joined(separator: ", ")
    if !relaying.isEmpty { notes.append("\(relaying) may say which certificate a client has") }
    if way.gates.contains(where: { $0.conditions.contains { $0.kind == .address } }) {
      if ways.http.listeners[way.listener].expectsProxyHeader {
        notes.append("the address is what the PROXY header says, where its sender is believed")
      }
      let whose = (root.addressesSaidBy + way.location.ways.addressesSaidBy).gathered { $0 }.compactMap(\.first)
      if !whose.isEmpty { notes.append("\(whose.joined(separator: ", ")) may say which address a client has") }
    }
    if let open = readings(way, server) { notes.append(open) }
    return notes
  }

  /// What an upstream that reads paths otherwise makes of paths of a location, if nobody judges that.
  private func readings(_ way: Way, _ server: ServerSettings) -> String? {
    guard way.content.kind == .upstream, way.location.ways.judgedReadings == nil else { return nil }
    let stricter = ways.destinations.lazy.flatMap(\.ways).map(\.way).first {
      $0.server == way.server && $0.content.key == way.content.key && $0.openness > way.openness
        && $0.location !== way.location
    }
    return stricter.map {
      "other readings of a path aren't judged (path_readings off): what the upstream reads as \($0.location.match.asWritten)"
        + " gets there by this way, as with \(($0.location.match.prefixText ?? "/").dropLast());x/ or //"
    }
  }

  // MARK: For a program

  /// One object. Names never change; new ones may be added.
  package var json: String {
    var json = JSONText()
    json.object { json in
      json.member("configuration", path)
      json.member("complete", ways.isComplete)
      json.array("destinations", ways.destinations) { destination, json in
        json.object { json in
          json.member("kind", destination.kind.word)
          json.member("destination", destination.words)
          json.member("open_to", destination.openness.word)
          json.strings("telling", destination.telling)
          json.array("uneven", destination.uneven) { uneven, json in append(uneven, to: &json) }
          json.array("lesser", destination.lesser) { uneven, json in append(uneven, to: &json) }
          json.array("ways", destination.ways) { element, json in append(element.way, element.witness, to: &json) }
        }
      }
    }
    return json.text
  }

  private func append(_ uneven: UnevenWays.Uneven, to json: inout JSONText) {
    json.object { json in
      json.member("open_to", uneven.way.openness.word)
      json.member("listener", "\(ways.http.listeners[uneven.way.listener].address)")
      json.member("place", "\(uneven.way.location.location)")
      json.strings("without", uneven.missing)
      json.member("stricter", "\(uneven.stricter.location.location)")
    }
  }

  private func append(_ way: Way, _ witness: WayWitness?, to json: inout JSONText) {
    json.object { json in
      let listener = ways.http.listeners[way.listener], server = ways.http.servers[way.server]
      json.member("open_to", way.openness.word)
      json.member("listener", "\(listener.address)")
      json.member("tls", listener.isTLS)
      json.member("kind", listener.kind == .http ? "http" : "stream")
      json.member("server", "\(server.location)")
      json.strings("names", server.names.map(\.asWritten).filter { !$0.isEmpty })
      json.member("default_server", listener.defaultServer == way.server)
      json.member("location", way.location.match.asWritten)
      json.member("place", "\(way.location.location)")
      json.member("admitted", way.entry == .admitted)
      json.member("subrequest", way.isSubrequest)
      json.strings("leads", way.hops.map(\.words))
      json.strings("also", way.others.map(\.words))
      json.strings("asks", way.gates.flatMap(\.words))
      json.strings("tells", ways.told(by: way))
      json.strings("written_by_client", ways.written(by: way))
      json.strings("notes", notes(way))
      json.member("seen", witness?.words)
    }
  }
}

extension Way.Openness {
  var words: String {
    switch self {
    case .anybody: "anybody"
    case .unknown: "unknown: a variable, a pattern or a server that is asked decides"
    case .address: "who has an address"
    case .password: "who has a password, a token or a signature"
    case .certificate: "who has a certificate"
    case .rules: "who has a certificate that a rule admits"
    case .nobody: "nobody"
    }
  }

  /// In JSON.
  var word: String {
    switch self {
    case .anybody: "anybody"
    case .unknown: "unknown"
    case .address: "address"
    case .password: "password"
    case .certificate: "certificate"
    case .rules: "rules"
    case .nobody: "nobody"
    }
  }
}

extension WayContent.Kind {
  fileprivate var word: String {
    switch self {
    case .upstream: "upstream"
    case .content: "content"
    case .response: "response"
    }
  }
}

extension JSONText {
  fileprivate mutating func strings(_ name: String, _ values: [String]) {
    array(name, values) { $1.value($0) }
  }
}

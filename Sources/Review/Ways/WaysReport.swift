import Observability
import TLS
import Traffic

/// The ways of a configuration as lines for a person, or as JSON for a program.
package struct WaysReport {
  private let ways: Ways
  private let path: String

  package init(_ ways: Ways, configuration path: String) {
    self.ways = ways
    self.path = path
  }

  // MARK: For a person

  package var lines: [String] {
    var lines: [String] = []
    for destination in ways.destinations {
      lines.append("\(Self.title(destination)): \(destination.openness.words)")
      for (way, witness) in destination.ways {
        lines.append("  \(way.openness.words)")
        lines.append("    by        \(listener(way))")
        for hop in way.hops { lines.append("    then      \(Self.text(hop))") }
        lines.append("    location  \(Self.location(way))")
        for gate in way.gates {
          for words in gate.words where !words.hasPrefix(AccessGate.asksNothing) {
            lines.append("    asks for  \(words)\(Self.place(gate))")
          }
          for words in gate.words where words.hasPrefix(AccessGate.asksNothing) {
            lines.append("    asks      \(words.dropFirst(AccessGate.asksNothing.count))")
          }
        }
        for note in notes(way) { lines.append("    note      \(note)") }
        if destination.kind == .upstream {
          let told = ways.told(by: way)
          lines.append("    tells     \(told.isEmpty ? "nothing about the client" : told.joined(separator: ", "))")
        }
        for hop in way.others.prefix(3) {
          lines.append("    also      \(Self.text(hop)) leads here, and asks for no less")
        }
        lines.append("    \(witness.map { "seen      \($0.words)" } ?? "not shown")")
      }
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

  private static func text(_ hop: Way.Hop) -> String { hop.words + (hop.place.map { "  \($0)" } ?? "") }

  private static func location(_ way: Way) -> String {
    let match = way.location.match.asWritten
    return "\(match.isEmpty ? "(the server itself)" : match)  \(way.location.location)"
  }

  private static func place(_ gate: AccessGate) -> String {
    gate.conditions.count == 1 ? gate.conditions.first?.place.map { "  \($0)" } ?? "" : ""
  }

  /// The listener, and how requests find the server block there.
  private func listener(_ way: Way) -> String {
    let listener = ways.http.listeners[way.listener], server = ways.http.servers[way.server]
    let words = [listener.isTLS ? " ssl" : "", listener.expectsProxyHeader ? " proxy_protocol" : ""].joined()
    let kind = listener.kind == .stream ? " (stream)" : ""
    return "\(listener.address)\(words)\(kind), \(names(way))  \(server.location)"
  }

  private func names(_ way: Way) -> String {
    let listener = ways.http.listeners[way.listener], server = ways.http.servers[way.server]
    // A session passed it to the listener of another block.
    guard listener.servers.contains(way.server) else { return "passed on" }
    let names = server.names.map(\.asWritten).filter { !$0.isEmpty }
    if listener.servers.count == 1 {
      return names.isEmpty ? "any name" : "\(names.joined(separator: " ")) and any other name"
    }
    let isDefault = listener.defaultServer == way.server
    switch (names.isEmpty, isDefault) {
    case (true, true): return "any name of no other server, or none (default_server)"
    case (true, false): return "requests without a Host"
    case (false, true):
      return "\(names.joined(separator: " ")), and any name of no other server, or none (default_server)"
    case (false, false): return names.joined(separator: " ")
    }
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
    if let whose = root.certificatesSaidBy { notes.append("\(whose) may say which certificate a client has") }
    if way.gates.contains(where: { $0.conditions.contains { $0.kind == .address } }) {
      if ways.http.listeners[way.listener].expectsProxyHeader {
        notes.append("the address is what the PROXY header says, where its sender is believed")
      }
      if let whose = root.addressesSaidBy { notes.append("\(whose) may say which address a client has") }
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
          json.array("ways", destination.ways) { element, json in append(element.way, element.witness, to: &json) }
        }
      }
    }
    return json.text
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

import Observability

/// One line of the effective policy: what it is about, and what holds.
package struct PolicyLine: Sendable, Equatable {
  /// The label of a line that begins a location.
  static let location = "location"

  /// 0: the line begins a server block. 1: it is of the server block. 2: it is of a location.
  let level: Int
  /// Empty: the text goes on from the line before.
  let label: String
  let text: String
  let place: SourceLocation?
  /// Whether it says how an upstream is trusted, as many locations with the same settings do.
  var isOfTrust = false

  /// Whether a server block or a location begins here.
  var isHeading: Bool { level == 0 || level == 1 && label == Self.location }

  package var description: String {
    let label = String(repeating: "  ", count: level) + label
    let width = isHeading ? 0 : 18
    return label + String(repeating: " ", count: max(1, width - label.count)) + text + (place.map { "  \($0)" } ?? "")
  }
}

/// The effective policy of a configuration, as lines for a person or as JSON for a program.
package struct PolicyReport: Sendable, Equatable {
  /// The lines of each server block.
  let servers: [[PolicyLine]]
  /// By which ways clients without a certificate reach each upstream, in sentences.
  let doors: [String]

  static let unknown = PolicyReport([], doors: [])

  /// `lines`: of all server blocks.
  init(_ lines: [PolicyLine], doors: [String]) {
    var servers: [[PolicyLine]] = []
    for line in lines {
      if line.level == 0 || servers.isEmpty { servers.append([]) }
      servers[servers.count - 1].append(line)
    }
    self.servers = servers
    self.doors = doors
  }

  // MARK: For a person

  /// Every line, with an empty one after each block.
  package var lines: [String] { servers.flatMap { $0.map(\.description) + [""] } + doorLines }

  /// The same, where the policy of server blocks that differ in their names alone stands once, and so does that of a
  /// server's locations, and how several of these trust their upstreams.
  var summary: [String] {
    var groups: [(block: [PolicyLine], others: [String])] = []
    var known: [[String]: Int] = [:]
    for block in servers {
      let rules = Self.rules(block)
      if let index = known[rules] {
        groups[index].others.append(block.first?.text ?? "")
      } else {
        known[rules] = groups.count
        groups.append((block, []))
      }
    }
    return groups.flatMap { block, others in
      var lines = Self.folded(block).map(\.description)
      if !others.isEmpty {
        lines.insert("  the same for    \(Self.listed(others, "server blocks"))", at: min(1, lines.count))
      }
      return lines + [""]
    } + doorLines
  }

  /// What a server block or a location says below its heading, wherever it says it.
  private static func rules(_ block: [PolicyLine]) -> [String] {
    block.dropFirst().map { PolicyLine(level: $0.level, label: $0.label, text: $0.text, place: nil).description }
  }

  /// The lines of a server block, in which what several locations say stands once.
  private static func folded(_ block: [PolicyLine]) -> [PolicyLine] {
    // A location with its lines, or one other line.
    var parts: [[PolicyLine]] = []
    for line in block {
      if line.level > 1, let last = parts.indices.last { parts[last].append(line) } else { parts.append([line]) }
    }
    var known: [[String]: Int] = [:]
    var others: [Int: [String]] = [:]
    // The first location with these terms of trust.
    var trusting: [[String]: String] = [:]
    var kept: [(part: [PolicyLine], index: Int)] = []
    for (index, part) in parts.enumerated() {
      let rules = rules(part)
      if let first = known[rules] {
        others[first, default: []].append(part[0].text)
        continue
      }
      if !rules.isEmpty { known[rules] = index }
      let terms = part.filter(\.isOfTrust).map { "\($0.label) \($0.text)" }
      if terms.count > 2, let other = trusting[terms] {
        kept.append((withoutTerms(part, as: other), index))
      } else {
        trusting[terms] = part[0].text
        kept.append((part, index))
      }
    }
    return kept.flatMap { part, index in
      guard let names = others[index] else { return part }
      let line = PolicyLine(level: 2, label: "the same for", text: listed(names, "locations"), place: nil)
      return [part[0], line] + part.dropFirst()
    }
  }

  /// The lines of a location with one in place of those that say how the upstream is trusted. `other`: the location whose
  /// upstream is trusted alike.
  private static func withoutTerms(_ part: [PolicyLine], as other: String) -> [PolicyLine] {
    var rest = part.filter { !$0.isOfTrust }
    let place = part.firstIndex { $0.isOfTrust } ?? rest.endIndex
    rest.insert(
      PolicyLine(level: 2, label: "trust", text: "as in location \(other)", place: nil),
      at: min(place, rest.endIndex))
    return rest
  }

  private var doorLines: [String] { doors.isEmpty ? [] : doors + [""] }

  /// `kind`: what the names are of.
  private static func listed(_ names: [String], _ kind: String) -> String {
    let shown = names.prefix(6).joined(separator: ", ")
    return names.count > 6 ? "\(shown) and \(names.count - 6) more \(kind) (--verbose prints all)" : shown
  }

  // MARK: For a program

  /// Appends `servers`: one object for each server block.
  func append(to json: inout JSONText) {
    json.array("servers", servers) { block, json in
      json.object { json in
        json.member("kind", block.first?.label)
        json.member("name", block.first?.text)
        json.place(block.first?.place)
        let parts = Self.parts(block)
        json.array("rules", parts.own) { Self.append($0, to: &$1) }
        json.array("locations", parts.locations) { location, json in
          json.object { json in
            json.member("name", location.first?.text)
            json.array("rules", Self.joined(location.dropFirst())) { Self.append($0, to: &$1) }
          }
        }
      }
    }
    json.array("open_upstreams", doors) { $1.value($0) }
  }

  /// Appends the lines of one upstream as an array.
  static func append(_ lines: [PolicyLine], named name: String, to json: inout JSONText) {
    json.array(name, joined(lines[...])) { append($0, to: &$1) }
  }

  private static func parts(_ block: [PolicyLine]) -> (own: [PolicyLine], locations: [ArraySlice<PolicyLine>]) {
    var own: [PolicyLine] = []
    var locations: [ArraySlice<PolicyLine>] = []
    for (index, line) in block.enumerated().dropFirst() {
      if line.isHeading {
        locations.append(block[index...index])
      } else if line.level > 1, let last = locations.popLast() {
        locations.append(block[last.startIndex...index])
      } else {
        own.append(line)
      }
    }
    return (joined(own[...]), locations)
  }

  /// The lines, with those that go on from the one before in one text.
  private static func joined(_ lines: ArraySlice<PolicyLine>) -> [PolicyLine] {
    var all: [PolicyLine] = []
    for line in lines {
      if line.label.isEmpty, let last = all.popLast() {
        all.append(
          PolicyLine(level: last.level, label: last.label, text: "\(last.text) \(line.text)", place: last.place))
      } else {
        all.append(line)
      }
    }
    return all
  }

  private static func append(_ line: PolicyLine, to json: inout JSONText) {
    json.object { json in
      json.member("label", line.label)
      json.member("text", line.text)
      json.place(line.place)
    }
  }
}

extension JSONText {
  /// Appends the members `file`, `line` and `column`: null without a place.
  mutating func place(_ place: SourceLocation?) {
    member("file", place?.file)
    member("line", place?.line)
    member("column", place?.column)
  }
}

import Crypto
package import Features
import Observability

/// `sallyport clients`: who stands in a record.
package struct ClientListing: Sendable {
  /// By what clients are counted together.
  package enum Grouping: String, Sendable, CaseIterable {
    case issuer, end, key, version
  }

  private struct Group: Sendable {
    let name: String
    let count: Int
    let refused: Int
    let last: Int64
  }

  private let clients: [RecordedClient]
  private let unreadable: Int
  private let grouping: Grouping
  private let now: Int64

  /// `ending`: only those whose certificate ends within so many seconds, or has ended; nil: all. `now`: seconds since 1970.
  package init(_ record: RecordedClients, by grouping: Grouping, ending: Int64?, now: Int64) {
    let (clients, unreadable) = RecordedClient.all(of: record)
    self.grouping = grouping
    self.unreadable = unreadable
    self.now = now
    self.clients = clients.filter { client in
      guard let ending else { return true }
      return client.leaf.notAfter.hasEnded(at: now.addingReportingOverflow(ending).partialValue)
    }
    isOfEnding = ending != nil
  }

  private let isOfEnding: Bool

  private func group(of client: RecordedClient) -> String {
    switch grouping {
    case .issuer: client.leaf.issuer.rfc2253
    case .end: client.leaf.notAfter.seconds.map { String(Day.text($0).prefix(7)) } ?? "an end that can't be read"
    case .key: "\(client.leaf.keyKind)"
    case .version: client.visits.first?.visit.handshake.version ?? ""
    }
  }

  private var groups: [Group] {
    let groups = Dictionary(grouping: clients, by: group).map { name, some in
      Group(
        name: name.isEmpty ? "unknown" : name, count: some.count, refused: some.count { !$0.isLetIn },
        last: some.map(\.last).max() ?? 0)
    }
    return grouping == .end
      ? groups.sorted { $0.name < $1.name } : groups.sorted { ($1.count, $0.name) < ($0.count, $1.name) }
  }

  private var weaknesses: [(words: String, clients: [RecordedClient])] {
    var found: [String: [RecordedClient]] = [:]
    for client in clients { for weakness in client.weaknesses { found[weakness, default: []].append(client) } }
    return found.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
  }

  private var summary: String {
    let refused = clients.count { !$0.isLetIn }
    let span = clients.map(\.first).min().map {
      " between \(Day.text($0)) and \(Day.text(clients.map(\.last).max() ?? $0))"
    }
    return "\(clients.count.of("client"))\(span ?? "")"
      + (refused > 0 ? ", of which \(refused.of("was", "were")) refused at the last visit" : "")
      + (unreadable > 0 ? "; \(unreadable.of("more has", "more have")) certificates that can't be read" : "")
  }

  package var lines: [String] {
    var lines = [summary]
    for group in groups {
      let refused = group.refused > 0 ? ", \(group.refused) refused" : ""
      lines.append("  \(group.count)  \(group.name)  (last visit \(Day.text(group.last))\(refused))")
    }
    for (words, some) in weaknesses {
      lines.append("\(some.count) with \(words):")
      lines += some.map { "  \($0.words)" }
    }
    if isOfEnding, !clients.isEmpty {
      lines.append("these end:")
      lines += clients.sorted { $0.end < $1.end }.map {
        "  \($0.leaf.notAfter.seconds.map(Day.text) ?? "?")  \($0.words)"
      }
    }
    return lines.map { LogEscape.visible($0) }
  }

  /// One object. Names never change; new ones may be added.
  package var json: String {
    var json = JSONText()
    json.object { json in
      json.member("clients", clients.count)
      json.member("unreadable", unreadable)
      json.member("by", grouping.rawValue)
      json.array("groups", groups) { group, json in
        json.object { json in
          json.member("name", group.name)
          json.member("clients", group.count)
          json.member("refused", group.refused)
          json.member("last", group.last)
        }
      }
      json.array("list", clients) { client, json in
        json.object { json in
          client.append(to: &json)
          json.member("group", group(of: client))
          json.array("weaknesses", client.weaknesses) { $1.value($0) }
        }
      }
    }
    return json.text
  }
}

extension RecordedClient {
  /// Seconds since 1970; `.min` for an end that can't be read.
  fileprivate var end: Int64 { leaf.notAfter.seconds ?? .min }

  /// Its members, for a program.
  func append(to json: inout JSONText) {
    json.member("subject", name)
    json.member("issuer", leaf.issuer.rfc2253)
    json.member("serial", leaf.serial)
    json.member("end", leaf.notAfter.seconds)
    json.member("first", first)
    json.member("last", last)
    json.member("visits", count)
    json.member("admitted", isLetIn)
    json.array("fronts", fronts) { $1.value($0) }
  }
}

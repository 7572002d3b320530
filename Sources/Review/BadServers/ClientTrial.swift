import Observability

/// What clients made of the bad servers: `sallyport demo --report`.
///
/// It passes only if nothing is left open: each bad server was tried and refused by every client that came, but for those of
/// `mayAccept`, and somebody accepted the good one.
package struct ClientTrial: Sendable {
  /// Connections of one kind to one server.
  package struct Entry: Sendable, Equatable {
    package let server: BadServer
    package let isAccepted: Bool
    package let address: String
    package let detail: String
    package var count: Int
    /// Seconds since 1970.
    package var last: Int64
  }

  package let entries: [Entry]
  private let mayAccept: Set<BadServer>

  package init(_ text: String, mayAccept: Set<BadServer> = []) {
    self.mayAccept = mayAccept
    var found: [Entry] = []
    var places: [Key: Int] = [:]
    for visit in text.split(separator: "\n").lazy.compactMap({ ClientVisit(line: $0) }) {
      let key = Key(visit.server, visit.isAccepted, visit.address, visit.detail)
      if let place = places[key] {
        found[place].count += 1
        found[place].last = max(found[place].last, visit.second)
      } else {
        places[key] = found.count
        found.append(
          Entry(
            server: visit.server, isAccepted: visit.isAccepted, address: visit.address, detail: visit.detail, count: 1,
            last: visit.second))
      }
    }
    entries = found
  }

  private struct Key: Hashable {
    let server: BadServer
    let isAccepted: Bool
    let address: String
    let detail: String

    init(_ server: BadServer, _ isAccepted: Bool, _ address: String, _ detail: String) {
      self.server = server
      self.isAccepted = isAccepted
      self.address = address
      self.detail = detail
    }
  }

  private func entries(of server: BadServer, accepted: Bool) -> [Entry] {
    entries.filter { $0.server == server && $0.isAccepted == accepted }
  }

  // MARK: Judgement

  /// What keeps the trial from passing, as sentences.
  package var faults: [String] {
    if entries.isEmpty { return ["no client has come to any of the servers"] }
    var faults: [String] = []
    if entries(of: .good, accepted: true).isEmpty {
      faults.append("no client accepted the good server, so the refusals may have another cause, such as a missing CA")
    }
    for server in BadServer.allCases where server != .good {
      let accepted = entries(of: server, accepted: true)
      if !accepted.isEmpty, !mayAccept.contains(server) {
        faults.append("\(server.rawValue) was accepted: \(server.fault)")
      } else if accepted.isEmpty, entries(of: server, accepted: false).isEmpty, !mayAccept.contains(server) {
        faults.append("\(server.rawValue) was not tried")
      }
    }
    return faults
  }

  // MARK: Texts

  package var text: String {
    var lines: [String] = []
    for server in BadServer.allCases {
      for entry in entries(of: server, accepted: true) + entries(of: server, accepted: false) {
        lines.append(
          "\(padded(server.rawValue, 16))\(padded(entry.isAccepted ? verdict(server) : "refused", 10))"
            + "\(padded(entry.address, 16))\(padded("\(entry.count)", 5))\(entry.detail.isEmpty ? "-" : entry.detail)")
      }
    }
    let head =
      lines.isEmpty
      ? []
      : [
        "\(padded("server", 16))\(padded("", 10))\(padded("client", 16))\(padded("times", 5))user agent, or why no request came"
      ]
    let faults = faults
    let end =
      faults.isEmpty
      ? ["The clients refused each bad server, and accepted the good one."] : faults.map { "FAULT: \($0)" }
    return (head + lines + (lines.isEmpty ? [] : [""]) + end).joined(separator: "\n") + "\n"
  }

  private func verdict(_ server: BadServer) -> String {
    server == .good || mayAccept.contains(server) ? "accepted" : "ACCEPTED"
  }

  private func padded(_ text: String, _ width: Int) -> String {
    text + String(repeating: " ", count: max(1, width - text.count))
  }

  /// For programs.
  package var json: String {
    var json = JSONText()
    json.object { json in
      let faults = faults
      json.member("passed", faults.isEmpty)
      json.array("faults", faults) { $1.value($0) }
      json.array("connections", entries) { entry, json in
        json.object { json in
          json.member("server", entry.server.rawValue)
          json.member("accepted", entry.isAccepted)
          json.member("client", entry.address)
          json.member(entry.isAccepted ? "user_agent" : "reason", entry.detail)
          json.member("times", entry.count)
          json.member("last", entry.last)
        }
      }
    }
    return json.text + "\n"
  }
}

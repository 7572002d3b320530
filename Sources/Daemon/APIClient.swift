import Bytes
package import JSON
import Observability
import TLS
import Traffic
import Transport

/// Asks the API of a running process (`api`) over its unix socket, for `sallyport ctl`. Blocks.
package struct APIClient {
  /// Why there is no answer, or what the process refused, for people.
  package struct Fault: Error, CustomStringConvertible {
    package let description: String
  }

  /// Of the socket that a server with `api` listens on.
  private let socket: String
  /// The location of `api`.
  private let location: String
  private let seconds: Int
  private static let largest = 16 << 20

  package init(socket: String, location: String, seconds: Int) {
    self.socket = socket
    self.location = location.hasSuffix("/") ? String(location.dropLast()) : location
    self.seconds = seconds
  }

  /// A segment of a path, in which every byte stands for itself.
  package static func segment(_ text: String) -> String {
    String(decoding: PercentEncoding.encode(text), as: UTF8.self)
  }

  /// Returns the body of the answer. `path`: behind `/9/`, its segments encoded.
  package func ask(_ method: String, _ path: String, _ body: String = "") throws(Fault) -> String {
    guard !socket.isEmpty, socket.utf8.count <= SocketAddress.longestUnixPath else {
      throw Fault(
        description: "\(socket) is no path of a socket: expected 1 to \(SocketAddress.longestUnixPath) octets")
    }
    let address = SocketAddress.unix(path: socket)
    var lines = ["\(method) \(location)/9/\(path) HTTP/1.1", "Host: localhost", "Connection: close"]
    if !body.isEmpty { lines += ["Content-Type: application/json", "Content-Length: \(body.utf8.count)"] }
    let request = Array((lines.joined(separator: "\r\n") + "\r\n\r\n" + body).utf8)
    var answer: [UInt8] = []
    do throws(BlockingExchangeError) {
      _ = try BlockingExchange(context: nil, name: "localhost", seconds: seconds).perform(at: address, request) {
        answer += $0
        return answer.count < Self.largest
      }
    } catch {
      throw Fault(
        description:
          "\(error); expected a server that listens on unix:\(socket), with a location \(location)/ and `api write=on` (--socket and --location name others)"
      )
    }
    guard let end = answer.firstRange(of: Array("\r\n\r\n".utf8)) else {
      throw Fault(description: "\(socket): the answer is no HTTP")
    }
    let status = String(decoding: answer.prefix { $0 != 0x0D }, as: UTF8.self).split(separator: " ").dropFirst().first
    let text = String(decoding: answer[end.upperBound...], as: UTF8.self)
    guard let status, status.hasPrefix("2") else {
      let said = (try? JSONValue(Array(text.utf8)))?["error"]?["text"]?.text
      throw Fault(description: said ?? "the process answered with status \(status.map(String.init) ?? "none")")
    }
    return text
  }

  /// `ask`, as a value.
  package func value(_ method: String, _ path: String, _ body: String = "") throws(Fault) -> JSONValue {
    let text = try ask(method, path, body)
    do throws(JSONFault) {
      var limits = JSONLimits()
      (limits.bytes, limits.values) = (Self.largest, 1_000_000)
      return try JSONValue(Array(text.utf8), limits: limits)
    } catch {
      throw Fault(description: "the answer is no JSON: \(error)")
    }
  }

  // MARK: What people ask

  /// A server of a group, as the process shows it.
  private struct Server {
    /// `http` or `stream`.
    let kind: String
    let group: String
    let json: JSONValue

    var id: Int64? { json["id"]?.integer }
    var address: String { json["server"]?.text ?? "?" }

    var line: String {
      var words = ["\(group)\(kind == "stream" ? " (stream)" : "")", address, json["state"]?.text ?? "?"]
      for key in ["weight", "max_conns", "active", "requests", "connections", "fails"] {
        if let number = json[key]?.integer { words.append("\(key)=\(number)") }
      }
      if json["backup"]?.flag == true { words.append("backup") }
      for key in ["changed", "added"] where json[key]?.flag == true { words.append(key) }
      return words.joined(separator: " ")
    }
  }

  private func found(in group: String?) throws(Fault) -> [Server] {
    var servers: [Server] = []
    var isThere = false
    for kind in ["http", "stream"] {
      let groups = try value("GET", "\(kind)/upstreams").members ?? [:]
      for (name, members) in groups.sorted(by: { $0.key < $1.key }) where group == nil || group == name {
        isThere = true
        servers += (members["peers"]?.list ?? []).map { Server(kind: kind, group: name, json: $0) }
      }
    }
    guard group == nil || isThere else { throw Fault(description: "no group \"\(group ?? "")\" with a zone") }
    return servers
  }

  private func chosen(_ server: String, in group: String) throws(Fault) -> (Server, id: Int64) {
    let servers = try found(in: group)
    guard let chosen = servers.first(where: { $0.address == server || $0.id.map { "\($0)" } == server }),
      let id = chosen.id
    else {
      let names = servers.map(\.address).joined(separator: ", ")
      throw Fault(description: "no server \"\(server)\" in \"\(group)\", which has \(names)")
    }
    return (chosen, id)
  }

  /// A line for each server of the groups: of one of them, or of all.
  package func servers(of group: String?) throws(Fault) -> [String] { try found(in: group).map(\.line) }

  /// Changes a server, and returns its line. `settings`: JSON.
  package func change(_ server: String, of group: String, _ settings: String) throws(Fault) -> [String] {
    let (chosen, id) = try chosen(server, in: group)
    _ = try ask("PATCH", "\(chosen.kind)/upstreams/\(Self.segment(group))/servers/\(id)", settings)
    return try found(in: group).filter { $0.kind == chosen.kind && $0.id == id }.map(\.line)
  }

  /// Adds a server to a group, and returns its line. `settings`: JSON, with its address.
  package func add(to group: String, _ settings: String) throws(Fault) -> [String] {
    let kind = try kind(of: group)
    let added = try value("POST", "\(kind)/upstreams/\(Self.segment(group))/servers", settings)
    return try found(in: group).filter { $0.kind == kind && $0.id == added["id"]?.integer }.map(\.line)
  }

  /// Whether a group is one of `http` or of `stream`.
  private func kind(of group: String) throws(Fault) -> String {
    for kind in ["http", "stream"] {
      if try value("GET", "\(kind)/upstreams").members?[group] != nil { return kind }
    }
    throw Fault(description: "no group \"\(group)\" with a zone")
  }

  /// Removes a server from a group, and returns the lines of those that are left.
  package func remove(_ server: String, from group: String) throws(Fault) -> [String] {
    let (chosen, id) = try chosen(server, in: group)
    _ = try ask("DELETE", "\(chosen.kind)/upstreams/\(Self.segment(group))/servers/\(id)")
    return try found(in: group).filter { $0.kind == chosen.kind }.map(\.line)
  }

  /// A line for each thing that requests to the API have changed, and that a restart forgets or the file does not say.
  package func changes() throws(Fault) -> [String] {
    var lines: [String] = []
    for server in try found(in: nil) where server.json["changed"]?.flag == true || server.json["added"]?.flag == true {
      let what = server.json["added"]?.flag == true ? "added" : "changed"
      lines.append("a server is \(what) by the API: \(server.line)")
    }
    for kind in ["http", "stream"] {
      for (name, group) in (try value("GET", "\(kind)/upstreams").members ?? [:]).sorted(by: { $0.key < $1.key }) {
        for address in group["removed"]?.list ?? [] {
          lines.append("a server is removed by the API: \(name) \(address.text ?? "?")")
        }
      }
    }
    for (name, pairs) in (try value("GET", "http/keyvals").members ?? [:]).sorted(by: { $0.key < $1.key }) {
      let count = pairs.members?.count ?? 0
      if count > 0 { lines.append("keyval_zone \(name) has \(count) pairs") }
    }
    lines += try denials().map { "a certificate is denied: \($0)" }
    // A process of an older version has none.
    return lines + ((try? logLevel()) ?? []).map { "error logs have another level than error_log says: \($0)" }
  }

  /// A line for each client that is connected.
  package func clients() throws(Fault) -> [String] {
    (try value("GET", "sallyport/clients").list ?? []).map { client in
      var words = [client["address"]?.text ?? "?", client["protocol"]?.text ?? "?"]
      words.append("for \(client["seconds"]?.integer ?? 0) s")
      words.append("requests=\(client["requests"]?.integer ?? 0)")
      if let certificate = client["certificate"] {
        words.append("\"\(certificate["subject"]?.text ?? "")\"")
        words.append("serial=\(certificate["serial"]?.text ?? "")")
        words.append("fingerprint=\(certificate["fingerprint"]?.text ?? "")")
        if certificate["verified"]?.flag == false { words.append("UNVERIFIED") }
      }
      return words.joined(separator: " ")
    }
  }

  /// A line for each of the last errors, the oldest first.
  package func errors() throws(Fault) -> [String] {
    (try value("GET", "sallyport/errors").list ?? []).map { entry in
      let count = entry["count"]?.integer ?? 1
      return "\(entry["time"]?.text ?? "?") [\(entry["level"]?.text ?? "?")] \(entry["text"]?.text ?? "?")"
        + (count > 1 ? " (\(count) times)" : "")
    }
  }

  private static let logLevel = "sallyport/log_level"

  /// What error logs take for a time besides what `error_log` says; empty if they take nothing else.
  package func logLevel() throws(Fault) -> [String] { Self.line(of: try value("GET", Self.logLevel)) }

  package func setLogLevel(_ level: String, seconds: Int) throws(Fault) -> [String] {
    var json = JSONText()
    json.object {
      $0.member("level", level)
      $0.member("seconds", seconds)
    }
    return Self.line(of: try value("POST", Self.logLevel, json.text))
  }

  package func endLogLevel() throws(Fault) { _ = try ask("DELETE", Self.logLevel) }

  private static func line(of level: JSONValue) -> [String] {
    guard let name = level["level"]?.text else { return [] }
    let time = DurationWords.of(seconds: level["seconds"]?.integer ?? 0)
    return ["\(name) for \(time), by \(level["by"]?.text ?? "?")"]
  }

  /// The pairs of a zone of `keyval`, or the pair of a key.
  package func pairs(of zone: String, key: String?) throws(Fault) -> [String] {
    let query = key.map { "?key=\(Self.segment($0))" } ?? ""
    let pairs = try value("GET", "http/keyvals/\(Self.segment(zone))\(query)").members ?? [:]
    return pairs.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value.text ?? "?")" }
  }

  /// Sets a pair, or removes it: nil. `seconds`: when it is forgotten; nil: as the zone says.
  package func setPair(_ key: String, to value: String?, seconds: Int?, in zone: String) throws(Fault) {
    let path = "http/keyvals/\(Self.segment(zone))"
    let isNew = value != nil && (try? pairs(of: zone, key: key)) == nil
    var json = JSONText()
    json.object { json in
      guard let value else { return json.member(key, String?.none) }
      guard let seconds else { return json.member(key, value) }
      json.object(key) {
        $0.member("value", value)
        $0.member("expire", seconds &* 1000)
      }
    }
    _ = try ask(isNew ? "POST" : "PATCH", path, json.text)
  }

  package func denials() throws(Fault) -> [String] {
    (try value("GET", "sallyport/denials").list ?? []).map(Self.words(ofDenial:))
  }

  /// `ab…12 for 2 hours, until 2026-11-30T16:00:00Z, last shown by "CN=till 5" with serial 0A, denied 2026-11-09T09:12:00Z by
  /// unix: stolen`
  static func words(ofDenial denial: JSONValue) -> String {
    var words =
      "\(denial["fingerprint"]?.text ?? "?") for \(DurationWords.of(seconds: denial["seconds"]?.integer ?? 0))"
    if let until = denial["until"]?.text { words += ", until \(until)" }
    if let subject = denial["subject"]?.text { words += ", last shown by \"\(subject)\"" }
    if let serial = denial["serial"]?.text { words += " with serial \(serial)" }
    if let since = denial["since"]?.text { words += ", denied \(since) by \(denial["by"]?.text ?? "?")" }
    if let note = denial["note"]?.text, !note.isEmpty { words += ": \(note)" }
    return words
  }

  /// Cuts the connections of a client. `by`: fingerprint, serial or subject. Returns how many there were.
  package func cut(by: String, _ name: String) throws(Fault) -> Int64 {
    try value("DELETE", "sallyport/clients/\(by)/\(Self.segment(name))")["cut"]?.integer ?? 0
  }

  /// Denies a certificate for a time, and cuts its connections. Returns how many there were.
  package func deny(_ fingerprint: String, seconds: Int, note: String) throws(Fault) -> Int64 {
    var json = JSONText()
    json.object {
      $0.member("fingerprint", fingerprint)
      $0.member("seconds", seconds)
      // A process of an older version knows no notes.
      if !note.isEmpty { $0.member("note", note) }
    }
    return try value("POST", "sallyport/denials", json.text)["cut"]?.integer ?? 0
  }

  package func allow(_ fingerprint: String) throws(Fault) {
    guard ClientName(fingerprint: fingerprint) != nil else {
      throw Fault(description: "\"\(fingerprint)\" is no fingerprint: 64 hexadecimal digits (SHA-256), or 40 (SHA-1)")
    }
    _ = try ask("DELETE", "sallyport/denials/\(Self.segment(fingerprint))")
  }
}

import Bytes
package import JSON
import Observability
import TLS
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
    text.utf8.map { byte in
      let isPlain =
        (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte & 0xDF) || [0x2D, 0x2E, 0x5F].contains(byte)
      return isPlain ? String(UnicodeScalar(byte)) : "%" + Hex.encode([byte], .upper)
    }.joined()
  }

  /// Returns the body of the answer. `path`: behind `/9/`, its segments encoded.
  package func ask(_ method: String, _ path: String, _ body: String = "") throws(Fault) -> String {
    guard socket.hasPrefix("/"), socket.utf8.count <= SocketAddress.longestUnixPath else {
      throw Fault(description: "\(socket) is no path of a socket: expected an absolute path")
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
          "\(error); expected a server that listens on unix:\(socket), with a location \(location)/ and `api write=on`")
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

  /// A line for each server of the groups: of one of them, or of all.
  package func servers(of group: String?) throws(Fault) -> [String] {
    var lines: [String] = []
    for kind in ["http", "stream"] {
      guard let all = try value("GET", "\(kind)/upstreams").members else { continue }
      for (name, members) in all.sorted(by: { $0.key < $1.key }) where group == nil || group == name {
        for peer in members["peers"]?.list ?? [] {
          var words = ["\(name)\(kind == "stream" ? " (stream)" : "")"]
          words.append(peer["server"]?.text ?? "?")
          words.append(peer["state"]?.text ?? "?")
          for (label, key) in [
            ("weight", "weight"), ("max_conns", "max_conns"), ("active", "active"), ("requests", "requests"),
            ("fails", "fails"),
          ] {
            if let number = peer[key]?.integer { words.append("\(label)=\(number)") }
          }
          if peer["backup"]?.flag == true { words.append("backup") }
          if peer["changed"]?.flag == true { words.append("changed") }
          lines.append(words.joined(separator: " "))
        }
      }
    }
    guard group == nil || !lines.isEmpty else { throw Fault(description: "no group \"\(group ?? "")\" with a zone") }
    return lines
  }

  /// Changes a server, and returns its line. `settings`: JSON.
  package func change(_ server: String, of group: String, _ settings: String) throws(Fault) -> [String] {
    for kind in ["http", "stream"] {
      guard case .array(let list)? = try? value("GET", "\(kind)/upstreams/\(Self.segment(group))/servers") else {
        continue
      }
      let found = list.first { $0["server"]?.text == server || $0["id"]?.integer.map { "\($0)" } == server }
      guard let id = found?["id"]?.integer else {
        let names = list.compactMap { $0["server"]?.text }.joined(separator: ", ")
        throw Fault(description: "no server \"\(server)\" in \"\(group)\", which has \(names)")
      }
      _ = try ask("PATCH", "\(kind)/upstreams/\(Self.segment(group))/servers/\(id)", settings)
      return try servers(of: group).filter { $0.contains(found?["server"]?.text ?? server) }
    }
    throw Fault(description: "no group \"\(group)\" with a zone")
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

  package func denials() throws(Fault) -> [String] {
    (try value("GET", "sallyport/denials").list ?? []).map {
      "\($0["fingerprint"]?.text ?? "?") for \($0["seconds"]?.integer ?? 0) s"
    }
  }

  /// Cuts the connections of a client. `by`: fingerprint, serial or subject. Returns how many there were.
  package func cut(by: String, _ name: String) throws(Fault) -> Int64 {
    try value("DELETE", "sallyport/clients/\(by)/\(Self.segment(name))")["cut"]?.integer ?? 0
  }

  /// Denies a certificate for a time, and cuts its connections. Returns how many there were.
  package func deny(_ fingerprint: String, seconds: Int) throws(Fault) -> Int64 {
    var json = JSONText()
    json.object {
      $0.member("fingerprint", fingerprint)
      $0.member("seconds", seconds)
    }
    return try value("POST", "sallyport/denials", json.text)["cut"]?.integer ?? 0
  }

  package func allow(_ fingerprint: String) throws(Fault) {
    _ = try ask("DELETE", "sallyport/denials/\(Self.segment(fingerprint))")
  }
}

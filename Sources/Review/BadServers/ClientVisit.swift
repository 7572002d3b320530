/// One connection of a client to a bad server: a line of the demo's file `visits.tsv`.
package struct ClientVisit: Sendable, Equatable {
  package let server: BadServer
  /// Seconds since 1970.
  package let second: Int64
  package let address: String
  /// Whether a request came. A client that refuses a server sends none.
  package let isAccepted: Bool
  /// The user agent of an accepted connection, or why there was no request.
  package let detail: String

  private static let longestDetail = 160

  /// What comes from a client is cut, and only printable ASCII of it is kept: people read it in a terminal.
  package init(_ server: BadServer, at second: Int64, from address: String, isAccepted: Bool, detail: String) {
    self.server = server
    self.second = second
    self.address = address
    self.isAccepted = isAccepted
    self.detail = String(
      decoding: detail.utf8.prefix(Self.longestDetail).map { (0x20...0x7E).contains($0) ? $0 : 0x3F }, as: UTF8.self)
  }

  package var line: String {
    [String(second), server.rawValue, address, isAccepted ? "accepted" : "refused", detail].joined(separator: "\t")
      + "\n"
  }

  /// nil for a line that is none of these, such as one that is written just now.
  package init?(line: Substring) {
    let parts = line.split(separator: "\t", maxSplits: 4, omittingEmptySubsequences: false)
    guard parts.count == 5, let second = Int64(parts[0]), let server = BadServer(rawValue: String(parts[1])),
      parts[3] == "accepted" || parts[3] == "refused"
    else { return nil }
    self.init(
      server, at: second, from: String(parts[2]), isAccepted: parts[3] == "accepted", detail: String(parts[4]))
  }

  /// The user agent in the head of a request; "" without one.
  package static func agent(ofRequest bytes: [UInt8]) -> String {
    for line in String(decoding: bytes, as: UTF8.self).split(whereSeparator: \.isNewline).dropFirst() {
      let parts = line.split(separator: ":", maxSplits: 1)
      guard parts.count == 2, parts[0].lowercased() == "user-agent" else { continue }
      return String(parts[1].drop { $0 == " " })
    }
    return ""
  }
}

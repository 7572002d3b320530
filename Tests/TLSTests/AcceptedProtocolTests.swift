import Testing

@testable import TLS

/// What a server takes of the names that clients offer by ALPN (RFC 7301).
@Suite struct `Names of ALPN` {
  private func list(_ names: [String]) -> [UInt8] { OfferedProtocols(names.map { Array($0.utf8) }).list }

  @Test func `a list has each name after its length`() {
    #expect(list(["h2", "x"]) == [2, 0x68, 0x32, 1, 0x78])
    #expect(list([]) == [])
    let long = String(repeating: "a", count: 255)
    #expect(list(["", long + "a", long]) == [255] + Array(long.utf8))
    #expect(AcceptedProtocols.http.list == nil && AcceptedProtocols.any.list == nil)
    #expect(AcceptedProtocols.names(["x"]).list == [1, 0x78])
  }

  private static func place(_ wanted: [UInt8], _ offered: [UInt8]) -> Range<Int>? {
    offered.withUnsafeBufferPointer { ApplicationProtocol.firstPlace(of: wanted, in: $0) }
  }

  @Test func `the server's order decides`() {
    let offered = list(["a", "bc", "d"])
    #expect(Self.place(list(["d", "a"]), offered) == 6..<7)
    #expect(Self.place(list(["x", "bc"]), offered) == 3..<5)
    #expect(Self.place(list(["x", "b", "bcd", "A"]), offered) == nil)
    #expect(Self.place([], offered) == nil && Self.place(list(["a"]), []) == nil)
  }

  @Test(arguments: [[5, 0x61], [1], [0, 0, 0], [255, 1, 0x61], [1, 0x62, 9, 0x61]] as [[UInt8]])
  func `a list that is malformed has no such name, and is read no further than it goes`(offered: [UInt8]) {
    #expect(Self.place([1, 0x61], offered) == nil)
  }

  @Test func `a list that is wanted and malformed finds nothing`() {
    for wanted in [[2, 0x61], [1], [0]] as [[UInt8]] { #expect(Self.place(wanted, [1, 0x61]) == nil) }
  }

  @Test(arguments: [
    // A client that offers nothing is not refused.
    (AcceptedProtocols.names(["a", "bc"]), [], "", true), (.names(["a", "bc"]), ["bc"], "bc", true),
    (.names(["a", "bc"]), ["x", "bc", "a"], "a", true), (.names(["a", "bc"]), ["x"], "", false),
    (.names(["a", "bc"]), ["A"], "", false), (.any, ["x"], "", true), (.any, [], "", true),
    (.http, ["http/1.1"], "http/1.1", true),
  ])
  func `a handshake selects one, or is refused`(
    accepted: AcceptedProtocols, offered: [String], selected: String, opens: Bool
  ) async throws {
    let cast = try Cast.shared.get()
    let meeting = try await meet(
      Blocks(try cast.block(.off, protocols: accepted)), try cast.client(nil, protocols: offered))
    #expect((meeting.serverFailure == nil) == opens && (meeting.clientFailure == nil) == opens, "\(meeting)")
    #expect(meeting.applicationProtocol == selected)
    // The reason is an alert, which tells the client.
    if !opens { #expect(meeting.clientFailure?.contains("no application protocol") == true, "\(meeting)") }
  }

  @Test func `a session of one protocol is not resumed for another`() async throws {
    let cast = try Cast.shared.get()
    let store = SessionStore(limit: 10)
    func block(_ protocols: AcceptedProtocols) throws -> Blocks {
      try Blocks(cast.block(.off, versions: .tls13, store: store, protocols: protocols))
    }
    let client = try cast.client(nil, versions: .tls13, protocols: ["a"])
    let first = try block(.names(["a"]))
    _ = try await meet(first, client)
    #expect(try await meet(first, client).isResumed)
    #expect(try await meet(block(.names(["a", "b"])), client).isResumed == false)
  }
}

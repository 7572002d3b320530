import DNS
import Glibc
import HTTP
import Observability
import Testing
import Transport

@testable import Upstream

/// Keeps the stream of its attempt.
private final class StreamKeeper: AttemptObserver {
  var stream: UpstreamStream?
  override func attemptDidBegin(_ stream: UpstreamStream) { self.stream = stream }
}

@Suite struct `The list of a group with resolve` {
  private static let place = SourceLocation(file: "", line: 0, column: 0)

  private func name() throws -> FollowedName {
    FollowedName(name: try #require(DNSName("a.test")), port: 80, service: nil)
  }

  private func template(backup: Bool = false, weight: Int = 1, most: Int = 0, method: BalanceMethod = .roundRobin)
    throws
    -> ResolvedGroup
  {
    var server = UpstreamServerSettings(address: .name("a.test", port: 80), location: Self.place)
    server.followed = try name()
    server.isBackup = backup
    server.weight = weight
    server.maxConnections = most
    var settings = UpstreamGroupSettings(name: "g", servers: [server], location: Self.place)
    settings.zone = "z"
    settings.method = method
    return ResolvedGroup(settings: settings, servers: [])
  }

  private func found(_ numbers: Int...) -> [FollowedAddress] {
    numbers.map { FollowedAddress(address: .unix(path: "/nonexistent/\($0)")) }
  }

  private func group(_ list: GroupList) throws -> UpstreamGroup {
    UpstreamGroup(list, loop: try EventLoop(index: 0), budget: ConnectionBudget(limit: 10))
  }

  /// The address that an attempt gets; the connection to it fails.
  private func attempt(_ group: UpstreamGroup) -> String? {
    group.attempt().server.map { String(group.servers[$0].address.description.suffix(1)) }
  }

  @Test func `is empty at first, and changes only if the servers do`() throws {
    let list = try #require(GroupLists().list(for: try template(), isChangeable: false))
    #expect(list.number == 1 && list.current.group.servers.isEmpty)
    #expect(attempt(try group(list)) == nil)
    #expect(list.update(try name(), found(1, 2)) != nil)
    #expect(list.update(try name(), found(2, 1)) == nil)
    #expect(list.number == 2)
    #expect(list.update(try name(), found(3, 2))?.servers.map { $0.address.description.suffix(1) } == ["2", "3"])
    #expect(list.update(try name(), [])?.servers.count == 0)
  }

  @Test func `is not that of a group of the same name in the other block`() throws {
    let lists = GroupLists(), ofHTTP = try template()
    var settings = ofHTTP.settings
    settings.isOfStream = true
    let ofStream = ResolvedGroup(settings: settings, servers: [])
    let (one, other) = (
      try #require(lists.list(for: ofHTTP, isChangeable: false)),
      try #require(lists.list(for: ofStream, isChangeable: false))
    )
    #expect(one !== other && one === lists.list(for: ofHTTP, isChangeable: false))
    _ = one.update(try name(), found(1))
    #expect(other.current.group.servers.isEmpty)
  }

  @Test func `has the addresses of before where a reload changes the port`() throws {
    let lists = GroupLists()
    let former = try #require(lists.list(for: try template(), isChangeable: false))
    let address = try #require(SocketAddress(literal: "192.0.2.1", port: 80))
    _ = former.update(try name(), [FollowedAddress(address: address, weight: 3)])
    func changed(_ change: (inout FollowedName?) -> Void) throws -> ResolvedGroup {
      var settings = try template().settings
      change(&settings.servers[0].followed)
      return ResolvedGroup(settings: settings, servers: [])
    }
    let list = try #require(lists.list(for: try changed { $0?.port = 8080 }, isChangeable: false))
    #expect(list !== former && list.current.group.servers.map(\.address) == [address.withPort(8080)])
    #expect(list.current.group.servers.map(\.settings.weight) == [3])
    // Other names, and services, whose ports DNS says, get nothing of it.
    let other = try #require(DNSName("b.test")), service = try #require(DNSName("_http._tcp.a.test"))
    #expect(
      lists.list(for: try changed { $0?.name = other }, isChangeable: false)?.current.group.servers.isEmpty == true)
    #expect(
      lists.list(for: try changed { $0?.service = service }, isChangeable: false)?.current.group.servers.isEmpty == true
    )
  }

  @Test func `keeps what is known of servers that stay`() throws {
    let list = try #require(GroupLists().list(for: try template(), isChangeable: false))
    _ = list.update(try name(), found(1, 2))
    let first = try group(list)
    // Both fail, and are left out.
    #expect(Set([attempt(first), attempt(first)]) == ["1", "2"])
    #expect(attempt(first) == nil)
    _ = list.update(try name(), found(2, 3))
    let second = try group(list)
    #expect(first.isOutdated && !second.isOutdated && first.identity == second.identity)
    #expect(attempt(second) == "3")
    #expect(attempt(second) == nil)
  }

  @Test func `an outdated list tries only servers that are left, and never another one's number`() throws {
    let list = try #require(GroupLists().list(for: try template(), isChangeable: false))
    _ = list.update(try name(), found(1, 2, 3))
    let old = try group(list)
    _ = list.update(try name(), found(9, 3))
    #expect(attempt(old) == "3")
    #expect(attempt(old) == nil)
    _ = list.update(try name(), found(9))
    #expect(attempt(old) == nil)
    #expect(attempt(try group(list)) == "9")
  }

  @Test func `an attempt ends for its own server's count, though its session has taken another since`() throws {
    let list = try #require(GroupLists().list(for: try template(most: 1), isChangeable: false))
    _ = list.update(try name(), found(1))
    let old = try group(list)
    var peers: [Int32] = []
    defer { for peer in peers { close(peer) } }
    old.connector = { [unowned old] _, _ throws(SocketError) in
      var both: [Int32] = [-1, -1]
      guard socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue), 0, &both) == 0 else {
        throw SocketError("socketpair", errno)
      }
      peers.append(both[1])
      return try ByteStream(loop: old.loop, descriptor: both[0], isConnecting: false)
    }
    // Both attempts have one HTTP/2 session. The second one began after the list had changed.
    let trust = UpstreamTrust(context: nil, name: "", connection: .http2)
    let observers = [StreamKeeper(), StreamKeeper()]
    #expect(old.attempt(observers[0], trust: trust).failure == nil)
    _ = list.update(try name(), found(1, 2))
    #expect(old.attempt(observers[1], trust: trust).failure == nil)
    let streams = try observers.map { try #require($0.stream) }
    #expect(streams[0].session === streams[1].session)
    for stream in streams { stream.abandon() }
    // Neither server has an attempt in progress, so `max_conns=1` leaves room for one at each.
    let new = try group(list)
    #expect(Set([attempt(new), attempt(new)]) == ["1", "2"])
  }

  @Test func `survives a reload, which brings new settings, while a group uses it`() throws {
    let lists = GroupLists()
    let list = try #require(lists.list(for: try template(), isChangeable: false))
    _ = list.update(try name(), found(1, 2))
    let using = try group(list)
    let again = try #require(lists.list(for: try template(weight: 5), isChangeable: false))
    #expect(again === list && using.isOutdated)
    #expect(again.current.group.servers.map(\.settings.weight) == [5, 5])
    #expect(
      lists.list(
        for: ResolvedGroup(
          settings: UpstreamGroupSettings(
            name: "g", servers: [], location: Self.place), servers: []), isChangeable: false) == nil)
  }

  @Test func `of the same group with further names begins with what is known`() throws {
    let lists = GroupLists()
    let list = try #require(lists.list(for: try template(), isChangeable: false))
    _ = list.update(try name(), found(1, 2))
    let using = try group(list)
    var more = try template().settings
    more.servers.append(more.servers[0])
    more.servers[1].followed?.name = try #require(DNSName("b.test"))
    let wider = try #require(lists.list(for: ResolvedGroup(settings: more, servers: []), isChangeable: false))
    #expect(wider !== list && wider.current.group.servers.count == 2 && !using.isOutdated)
  }

  @Test func `takes weights and backup servers from SRV records, as the server's line allows`() throws {
    let records = [
      FollowedAddress(address: .unix(path: "/1"), weight: 7),
      FollowedAddress(address: .unix(path: "/2"), weight: nil, isSecond: true),
    ]
    func servers(_ template: ResolvedGroup) throws -> [String] {
      let list = try #require(GroupLists().list(for: template, isChangeable: false))
      _ = list.update(try name(), records)
      return list.current.group.servers.map {
        "\($0.address.description.suffix(1)) \($0.settings.weight)\($0.settings.isBackup ? " backup" : "")"
      }
    }
    #expect(try servers(template()) == ["1 7", "2 1 backup"])
    #expect(try servers(template(weight: 3)) == ["1 3", "2 3 backup"])
    #expect(try servers(template(backup: true)) == ["1 7 backup"])
    #expect(try servers(template(method: .hash)) == ["1 7"])
  }

  @Test func `has at most so many servers`() throws {
    let list = try #require(GroupLists().list(for: try template(), isChangeable: false))
    let many = (0..<2000).map { FollowedAddress(address: .ipv4(address: UInt32($0), port: 80)) }
    #expect(list.update(try name(), many)?.servers.count == GroupList.limit)
  }
}

@Suite struct `Servers that the API adds and removes` {
  private static let place = SourceLocation(file: "", line: 0, column: 0)

  private func server(_ number: Int, weight: Int = 1) -> ResolvedGroup.Server {
    let address = SocketAddress.ipv4(address: 0x7F00_0001, port: UInt16(number))
    var settings = UpstreamServerSettings(address: .address(address), location: Self.place)
    settings.weight = weight
    return ResolvedGroup.Server(address: address, settings: settings)
  }

  private func template(_ servers: [ResolvedGroup.Server], _ method: BalanceMethod = .roundRobin) -> ResolvedGroup {
    var settings = UpstreamGroupSettings(name: "g", servers: servers.map(\.settings), location: Self.place)
    (settings.zone, settings.method, settings.stateFile) = ("z", method, "/state")
    return ResolvedGroup(settings: settings, servers: servers)
  }

  private func ports(_ list: GroupList) -> [UInt16] { list.current.group.servers.compactMap(\.address.port) }

  @Test func `a list is there for who asks for changes, and keeps them until the lines say something else`() throws {
    let lists = GroupLists(), lines = [server(1), server(2)]
    #expect(lists.list(for: template(lines), isChangeable: false) == nil)
    let list = try #require(lists.list(for: template(lines), isChangeable: true))
    try list.add(server(3))
    try list.remove(server(1).address)
    #expect(ports(list) == [2, 3] && list.number == 3)
    #expect(throws: ServerListFault.exists) { try list.add(server(2)) }
    #expect(throws: ServerListFault.unknown) { try list.remove(server(1).address) }
    #expect(throws: ServerListFault.unknown) { try list.remove(server(9).address) }
    // A reload with the same lines.
    #expect(lists.list(for: template(lines), isChangeable: true) === list && ports(list) == [2, 3])
    // What was removed can be added again, and another line is newer than a removal.
    try list.add(server(1, weight: 5))
    #expect(ports(list) == [2, 3, 1])
    try list.remove(server(1).address)
    _ = lists.list(for: template([server(1, weight: 2), server(2)]), isChangeable: true)
    #expect(ports(list) == [1, 2, 3])
    // A file that says all of it by now.
    _ = lists.list(for: template([server(1, weight: 2), server(3)]), isChangeable: true)
    #expect(ports(list) == [1, 3] && list.changed.added.isEmpty && list.changed.removed.isEmpty)
  }

  @Test func `a damaged state costs a list that is in use no server`() throws {
    let lists = GroupLists()
    let list = try #require(lists.list(for: template([server(1), server(2)]), isChangeable: true))
    try list.add(server(3))
    try list.remove(server(1).address)
    var damaged = template([]).settings
    damaged.isStateDamaged = true
    let reloaded = ResolvedGroup(settings: damaged, servers: [])
    #expect(lists.list(for: reloaded, isChangeable: true) === list && ports(list) == [2, 3])
    #expect(lists.lines(of: damaged) == [["server", "127.0.0.1:2"], ["server", "127.0.0.1:3"]])
    // The file is whole again.
    _ = lists.list(for: template([server(2), server(3)]), isChangeable: true)
    #expect(ports(list) == [2, 3] && list.changed.added.isEmpty)
    let fresh = try #require(GroupLists().list(for: reloaded, isChangeable: true))
    #expect(ports(fresh).isEmpty && GroupLists().lines(of: damaged) == nil)
  }

  @Test func `a list holds so many servers, and no backup for a method without one`() throws {
    let list = try #require(GroupLists().list(for: template([], .hash), isChangeable: true))
    var backup = server(1)
    backup.settings.isBackup = true
    #expect(throws: ServerListFault.noBackup) { try list.add(backup) }
    for number in 1...GroupList.limit { try list.add(server(number)) }
    #expect(throws: ServerListFault.full) { try list.add(server(GroupList.limit + 1)) }
  }

  @Test func `the lines of a state are those of the servers as they are, with what was changed`() throws {
    let list = try #require(GroupLists().list(for: template([server(1), server(2)]), isChangeable: true))
    var third = server(3, weight: 2)
    (third.settings.isBackup, third.settings.route, third.settings.failTimeout) = (true, Array("c".utf8), 3)
    try list.add(third)
    let group = UpstreamGroup(list, loop: try EventLoop(index: 0), budget: ConnectionBudget(limit: 1))
    var patch = ServerPatch()
    (patch.weight, patch.isDown, patch.maxConnections) = (7, true, 9)
    _ = try group.patch(group.members[1].id, patch)
    #expect(
      list.lines == [
        ["server", "127.0.0.1:1"],
        ["server", "127.0.0.1:2", "weight=7", "max_conns=9", "down"],
        ["server", "127.0.0.1:3", "weight=2", "fail_timeout=3s", "route=c", "backup"],
      ])
    // Another server with an address that was there is a new one.
    let second = group.members[1]
    try list.remove(second.address)
    try list.add(server(2))
    #expect(list.lines.contains(["server", "127.0.0.1:2"]))
  }
}

import DNS
@testable import Features
@testable import Forward
import Glibc
import Synchronization
import Testing
@testable import Traffic
import Transport
import Upstream

/// Groups of names in `proxy_pass` with variables, on a loop that turns.
@Suite struct `Groups made for requests` {
  // @unchecked: only the loop uses the groups.
  private final class Stage: @unchecked Sendable {
    let loop: EventLoop
    let pool = BlockingPool()
    /// What the system says of each name.
    let addresses = Mutex<[String: [SocketAddress]]>([:])
    private(set) var groups: DynamicGroups?

    init(lifetime: UInt64) throws {
      loop = try EventLoop(index: 0)
      loop.start { _ in }
      loop.post { [self] in
        let resolver = Resolver(pool: pool) { host, _ in
          self.addresses.withLock { $0[host] ?? [.ipv4(address: 0x7F00_0001, port: 9)] }
        }
        groups = DynamicGroups(
          groups: [], resolver: resolver, loop: loop, budget: ConnectionBudget(limit: 10), lifetime: lifetime)
      }
    }

    deinit { loop.stop() }

    /// The group for a name; nil if there is none.
    func find(_ authority: String) async -> LoopBox<UpstreamGroup>? {
      await withCheckedContinuation { continuation in
        loop.post { [self] in
          groups?.find(authority, defaultPort: 80) { found in
            continuation.resume(returning: (try? found.get()).map { LoopBox($0) })
          }
        }
      }
    }

    func say(_ numbers: UInt32..., of name: String) {
      addresses.withLock { $0[name] = numbers.map { .ipv4(address: $0, port: 80) } }
    }
  }

  @Test func `an address with a zone is refused, and never used without it`() async throws {
    let stage = try Stage(lifetime: 0)
    for authority in ["[fe80::1%eth0]:80", "[fe80::1%25eth0]", "fe80::1%eth0", "a.test%eth0"] {
      #expect(await stage.find(authority) == nil, "\(authority)")
    }
    #expect(await stage.find("[fe80::1]:80") != nil)
  }

  @Test func `a group lasts as long as its name has the same addresses`() async throws {
    // Each answer is old at once.
    let stage = try Stage(lifetime: 0)
    stage.say(1, 2, of: "a.test")
    let first = try #require(await stage.find("a.test"))
    stage.say(2, 1, of: "a.test")
    let second = try #require(await stage.find("a.test"))
    #expect(first.value === second.value && !first.value.isClosed)
    // Nobody knows the addresses: no request goes out by what was known.
    stage.say(of: "a.test")
    #expect(await stage.find("a.test") == nil)
    stage.say(1, 2, of: "a.test")
    let third = try #require(await stage.find("a.test"))
    #expect(third.value === first.value)
    stage.say(1, 3, of: "a.test")
    let fourth = try #require(await stage.find("a.test"))
    #expect(fourth.value !== first.value && first.value.isClosed)
    #expect(fourth.value.servers.map(\.address) == [.ipv4(address: 1, port: 80), .ipv4(address: 3, port: 80)])
    let literal = try #require(await stage.find("192.0.2.7:81"))
    #expect(try #require(await stage.find("192.0.2.7:81")).value === literal.value)
  }

  @Test func `the group that was used least recently makes room`() async throws {
    let stage = try Stage(lifetime: 60_000)
    let names = (0..<1024).map { "n\($0).test" }
    for name in names { _ = await stage.find(name) }
    // All but one are used again.
    var used: [LoopBox<UpstreamGroup>] = []
    for name in names where name != "n700.test" { used.append(try #require(await stage.find(name))) }
    _ = await stage.find("new.test")
    #expect(used.allSatisfy { !$0.value.isClosed })
  }
}

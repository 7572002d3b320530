import Crypto
import Foundation
import Observability
import Synchronization
@testable import TLS
import TestSupport
import Testing
@testable import Transport

@Suite(.timeLimit(.minutes(10))) struct `Names of certificate files` {
  private static let place = SourceLocation(file: "t.conf", line: 1, column: 1)
  private static let path = CertificatePath(
    [.literal("/etc/certs/"), .variable(.ssl_server_name), .literal(".pem")], location: place)

  private func facts(_ name: String) -> HandshakeFacts {
    HandshakeFacts(
      serverName: Array(name.utf8), local: .ipv6(high: 0, low: 1, port: 443), peer: .ipv4(address: 0x7F00_0001, port: 9)
    )
  }

  @Test(arguments: ["a.test", "xn--bcher-kva.example", "_dmarc.a-b.test", "1.2.3.4", "localhost"])
  func `a host name is part of a path`(name: String) throws {
    #expect(try Self.path.reference(for: facts(name)).description == "/etc/certs/\(name).pem")
  }

  @Test(arguments: [
    "", ".", "..", "...", "a..b", ".a", "a.", "../a", "a/b", "a\\b", "a\0b", "a b", "a%2fb", "A.test", "ä.test",
    "[::1]",
    "::1", "*.a.test", "~", "a\n", String(repeating: "a", count: 64),
    String(repeating: "abc.", count: 63) + "ab", String(repeating: "a", count: 300),
  ])
  func `what is no host name is part of no path`(name: String) {
    #expect(throws: NamedCertificateFault.self) { try Self.path.reference(for: facts(name)) }
  }

  @Test func `addresses and the port are parts of a path, those of a unix socket are not`() throws {
    let parts = HandshakeVariable.allCases.dropFirst().flatMap {
      [.variable($0), .literal(" ")] as [CertificatePath.Part]
    }
    let path = CertificatePath(parts, location: Self.place)
    #expect(try path.reference(for: facts("")).description == "::1 443 127.0.0.1 ")
    for part in parts.prefix(5) where part != .literal(" ") {
      let unix = HandshakeFacts(serverName: [], local: .unix(path: "/run/s"), peer: .unix(path: ""))
      #expect(throws: NamedCertificateFault.self) {
        try CertificatePath([part], location: Self.place).reference(for: unix)
      }
    }
  }

  @Test func `the folder of a path is that before its first variable`() {
    func folder(_ text: String) -> String {
      CertificatePath([.literal(text), .variable(.ssl_server_name)], location: Self.place).folders[0]
    }
    #expect(folder("/etc/certs/a-") == "/etc/certs" && folder("/") == "/" && folder("a") == "." && folder("b/") == "b")
  }
}

@Suite(.timeLimit(.minutes(10))) struct `The store of certificates` {
  private func source(_ name: String) -> CertificateSource {
    CertificateSource(certificate: MaterialReference(path: name), key: nil)
  }

  /// A store that counts what it loads; names that begin with "no" can't be loaded.
  private func store(_ cache: CertificateCacheSettings?, pool: BlockingPool = BlockingPool()) throws -> (
    CertificateStore, Loads
  ) {
    let loads = Loads(identity: try Cast.shared.get().server)
    return (CertificateStore(cache, pool: pool) { source throws(MaterialError) in try loads.load(source) }, loads)
  }

  final class Loads: Sendable {
    let identity: CertifiedKey
    let count = Mutex(0)
    let isBroken = Mutex(false)
    init(identity: CertifiedKey) { self.identity = identity }

    func load(_ source: CertificateSource) throws(MaterialError) -> CertifiedKey {
      count.withLock { $0 += 1 }
      if isBroken.withLock({ $0 }) || source.certificate.description.contains("none") {
        throw MaterialError(culprit: "x", location: nil, message: "\"\(source.certificate)\": broken")
      }
      return identity
    }
    var number: Int { count.withLock { $0 } }
  }

  @Test func `without a cache each handshake loads; with one, the first does`() throws {
    for (cache, expected) in [(nil, 3), (CertificateCacheSettings(max: 5), 1)] {
      let (store, loads) = try store(cache)
      for _ in 0..<3 {
        #expect(try store.loadNow([.file(source("a"))]).get().count == 1)
      }
      #expect(loads.number == expected)
      #expect((try store.known([.file(source("a"))])?.get() != nil) == (cache != nil))
    }
  }

  @Test func `a failure is an answer for a moment, with and without a cache, and is never kept as a pair`() throws {
    for cache in [nil, CertificateCacheSettings(max: 5)] {
      let (store, loads) = try store(cache)
      for _ in 0..<20 {
        #expect(throws: NamedCertificateFault.self) { try store.loadNow([.file(source("none"))]).get() }
      }
      #expect(loads.number < 20 && store.count == 0)
      #expect(throws: NamedCertificateFault.self) { try store.known([.file(source("none"))])?.get() }
    }
  }

  @Test func `one missing certificate of several is a failure of all`() throws {
    let (store, loads) = try store(CertificateCacheSettings(max: 5))
    let wanted: [CertificateStore.Wanted] = [.loaded(loads.identity), .file(source("a")), .file(source("none"))]
    #expect(throws: NamedCertificateFault.self) { try store.loadNow(wanted).get() }
    #expect(try store.loadNow(Array(wanted.prefix(2))).get().count == 2)
  }

  @Test func `a pair whose new files are broken is shown for a second more, and not for two`() throws {
    var cache = CertificateCacheSettings(max: 5)
    cache.valid = 0
    let (store, loads) = try store(cache)
    #expect(try store.loadNow([.file(source("a"))]).get().count == 1)
    loads.isBroken.withLock { $0 = true }
    #expect(try store.loadNow([.file(source("a"))]).get().count == 1)
    let end = ContinuousClock.now + .seconds(20)
    while (try? store.loadNow([.file(source("a"))]).get()) != nil, ContinuousClock.now < end {
      Thread.sleep(forTimeInterval: 0.05)
    }
    #expect(throws: NamedCertificateFault.self) { try store.loadNow([.file(source("a"))]).get() }
    #expect(store.count == 0)
  }

  @Test func `the pool refuses what is too much, and a party leaves a lane to others`() {
    let limits = BlockingWork.certificates.limits
    #expect(limits.partyLanes < limits.lanes && limits.partyWaiting < limits.waiting)
  }

  /// As nginx counts them.
  @Test(arguments: [(14, 7), (15, 7), (2, 1), (1, 1)])
  func `a pair counts as two, a certificate and its key`(max: Int, pairs: Int) throws {
    let (store, loads) = try store(CertificateCacheSettings(max: max))
    for index in 0..<100 { _ = store.loadNow([.file(source("\(index)"))]) }
    #expect(store.count == pairs && loads.number == 100)
  }
}

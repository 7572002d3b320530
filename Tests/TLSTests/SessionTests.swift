import Bytes
import Crypto
import Glibc
@testable import TLS
import TestSupport
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(10))) struct `Sessions of clients` {
  let cast: Cast
  init() throws { cast = try Cast.shared.get() }

  @Test func `a TLS 1.3 session resumes once`() async throws {
    let store = SessionStore(limit: 10)
    let blocks = try Blocks(cast.block(.on, store: store))
    let client = try cast.client(cast.clients.client(), versions: .tls13)
    _ = try await meet(blocks, client)
    #expect(store.count == 1)
    // The client does not take the new ticket, so that it comes with the old one again.
    let second = try await meet(blocks, client, reads: false)
    #expect(second.isResumed && second.verdict.short == "verified")
    let third = try await meet(blocks, client)
    #expect(!third.isResumed && third.verdict.short == "verified")
  }

  @Test func `a resumption begins no new lifetime: HAProxy's hole of 2026`() throws {
    let proof = KeyProof(at: .init(time: 1000, tick: 50))
    #expect(proof.remaining(of: 300, at: .init(time: 1000, tick: 50)) == 300)
    #expect(proof.remaining(of: 300, at: .init(time: 1299, tick: 349)) == 1)
    #expect(proof.remaining(of: 300, at: .init(time: 1300, tick: 350)) == 0)
    // A clock that was set back or forward.
    #expect(proof.remaining(of: 300, at: .init(time: -5000, tick: 349)) == 1)
    #expect(proof.remaining(of: 300, at: .init(time: -5000, tick: 350)) == 0)
    #expect(proof.remaining(of: 300, at: .init(time: 9000, tick: 51)) == 0)
    #expect(proof.remaining(of: 300, at: .init(time: .min, tick: 51)) == 0)
    #expect(proof.remaining(of: 300, at: .init(time: 1000, tick: 0)) == 0)
    // A ticket of another machine, whose clock may be a little ahead.
    let foreign = KeyProof(time: 1000)
    #expect(foreign.remaining(of: 300, at: .init(time: 941, tick: 0)) == 300)
    #expect(foreign.remaining(of: 300, at: .init(time: 939, tick: 0)) == 0)
    #expect(foreign.remaining(of: 300, at: .init(time: 1300, tick: 0)) == 0)
    #expect(foreign.remaining(of: -1, at: .init(time: 1000, tick: 0)) == 0)
  }

  @Test(arguments: [TLSVersions.tls12, .tls13])
  func `CVE-2026-97629: no ticket counts that anybody could have sealed, whenever keys rotate`(version: TLSVersions)
    async throws
  {
    let zeros = try #require(TicketKey(SecretBytes([UInt8](repeating: 0, count: 80))))
    let other = try #require(TicketKey(SecretBytes((0..<80).map { _ in UInt8.random(in: 0...255) })))
    func block(_ keys: [TicketKey], _ ring: TicketKeyRing? = nil) throws -> Blocks {
      try Blocks(
        cast.block(
          .on, versions: version, store: SessionStore(limit: 10), ticketKeys: keys, ring: ring))
    }
    let replaced = TicketKeyRing(), forgotten = TicketKeyRing(), emptied = TicketKeyRing()
    replaced.replace([other])
    forgotten.replace([other])
    forgotten.forget()
    emptied.replace([])
    let forger = try block([zeros])
    for (ring, takes) in [
      (TicketKeyRing(), false), (replaced, false), (forgotten, false), (emptied, false), (nil, true),
    ] {
      let client = try cast.client(cast.clients.client(), versions: version)
      _ = try await meet(forger, client)
      // The last block has the forger's key, so that the others are known to have got a ticket.
      let victim = try block(ring == nil ? [zeros] : [], ring)
      #expect(try await meet(victim, client).isResumed == takes)
    }
    // Without keys no ticket is made at all.
    let client = try cast.client(cast.clients.client(), versions: version)
    _ = try await meet(forger, client)
    #expect(try await !meet(block([]), client).isResumed)
  }

  @Test(arguments: [false, true]) func `a session that is resumed again and again ends with its first lifetime`(
    sealed: Bool
  ) async throws {
    // A lifetime of two seconds: it must have ended once three have passed, however often the session was resumed.
    let key = try #require([UInt8](repeating: 7, count: 48).withUnsafeBytes { TicketKey(SecretBytes(copying: $0)) })
    let block = try cast.block(
      .on, versions: .tls13, store: SessionStore(limit: 10), ticketKeys: sealed ? [key] : [], sessionTimeout: 2)
    let blocks = Blocks(block), client = try cast.client(cast.clients.client(), versions: .tls13)
    #expect(try await meet(blocks, client).isResumed == false)
    let begun = ContinuousClock.now
    while true {
      let age = begun.duration(to: .now)
      guard try await meet(blocks, client).isResumed else { break }
      try #require(age < .milliseconds(3100))
      usleep(100_000)
    }
  }

  @Test func `a TLS 1.2 session resumes often, but under its own name only`() async throws {
    let blocks = try Blocks(cast.block(.on, store: SessionStore(limit: 10)))
    let client = try cast.client(cast.clients.client(), versions: .tls12)
    #expect(try await meet(blocks, client).isResumed == false)
    #expect(try await meet(blocks, client).isResumed)
    #expect(try await meet(blocks, client).isResumed)
    #expect(try await meet(blocks, client, name: "other.test").isResumed == false)
  }

  @Test func `a refused client leaves no session behind`() async throws {
    let store = SessionStore(limit: 10)
    let blocks = try Blocks(cast.block(.on, store: store))
    _ = try await meet(blocks, cast.client(cast.strangers.client()))
    #expect(store.count == 0)
  }

  @Test func `the store keeps no more than its limit, the newest`() async throws {
    let store = SessionStore(limit: 2)
    let blocks = try Blocks(cast.block(.off, store: store))
    let clients = try (0..<3).map { _ in try cast.client(nil, versions: .tls12) }
    for client in clients { _ = try await meet(blocks, client) }
    #expect(store.count == 2)
    #expect(try await meet(blocks, clients[2]).isResumed)
    #expect(try await meet(blocks, clients[0]).isResumed == false)
  }

  @Test(arguments: [TLSVersions.tls12, .tls13])
  func `a session does not cross into a stricter server block`(version: TLSVersions) async throws {
    let store = SessionStore(limit: 10)
    let identity = try cast.strangers.client()
    let lax = try Blocks(cast.block(.optionalNoCA, store: store))
    let strict = try Blocks(cast.block(.on, store: store))
    let client = try cast.client(identity, versions: version)
    #expect(try await meet(lax, client).verdict.short == "unverified")
    let second = try await meet(strict, client)
    // TLS 1.2 answers with a fatal alert, TLS 1.3 with a full handshake.
    #expect(!second.isResumed)
    #expect(second.verdict.short != "verified" && second.verdict.short != "unverified")
  }

  @Test func `HAProxy's hole of August 2026: the id context is made of certificate, mode, each CA, CRL and depth`()
    throws
  {
    func list(_ number: Int) throws -> RevocationList {
      let pem = try RevocationListBuilder(revoking: [], number: number).pem(signedBy: cast.clients.root)
      let scene = try Scene()
      defer { scene.end() }
      return try RevocationList.loadAll(MaterialReference(path: scene.write("crl.pem", text: pem)))[0]
    }
    let base = try cast.block(.on)
    #expect(try cast.block(.on).sessionContext == base.sessionContext)
    let different = try [
      cast.block(.on, certificate: cast.upstreams.server(names: ["up.test"])),
      cast.block(.optional),
      cast.block(.on, authorities: [cast.strangers.root.certificate]),
      cast.block(.on, authorities: [cast.clients.root.certificate, cast.strangers.root.certificate]),
      cast.block(.on, depth: 2),
      cast.block(.on, revocations: [list(1)]),
      cast.block(.on, revocations: [list(2)]),
      cast.block(.on, versions: [.tls12], ciphers: "ALL:@SECLEVEL=1"),
      cast.block(.on, rules: HandshakeRules(fingerprint: [1], needsCertificate: false)),
      cast.block(.on, rejection: .reportOnly),
      cast.block(.on, rules: HandshakeRules(fingerprint: [2], needsCertificate: false)),
    ]
    for context in different { #expect(context.sessionContext != base.sessionContext) }
    #expect(Set(different.map(\.sessionContext)).count == different.count)
  }

  @Test func `the policy by which a Host is admitted leaves the shown certificate out, and nothing else`() throws {
    let base = try cast.block(.on)
    #expect(
      try cast.block(.on, certificate: cast.upstreams.server(names: ["up.test"])).clientPolicyDigest
        == base.clientPolicyDigest)
    for context in try [
      cast.block(.optional), cast.block(.on, authorities: [cast.strangers.root.certificate]),
      cast.block(.on, depth: 2),
      cast.block(.on, rules: HandshakeRules(fingerprint: [], needsCertificate: false)),
      cast.block(.on, rules: HandshakeRules(fingerprint: [1], needsCertificate: false)),
      cast.block(.on, rejection: .reportOnly),
    ] { #expect(context.clientPolicyDigest != base.clientPolicyDigest) }
  }

  @Test(arguments: [TLSVersions.tls12, .tls13], [ClientRejection.http, .handshake])
  func `rules are judged before a session is kept, and again before it is resumed`(
    version: TLSVersions, rejection: ClientRejection
  ) async throws {
    let store = SessionStore(limit: 10)
    let rules = HandshakeRules(fingerprint: [1], needsCertificate: true)
    let blocks = try Blocks(cast.block(.on, store: store, rules: rules, rejection: rejection))
    let client = try cast.client(cast.clients.client(), versions: version)
    _ = try await meet(blocks, client)
    #expect(try await meet(blocks, client).isResumed)
    blocks.rules.withLock { $0 = "no longer" }
    let kept = store.count
    let denied = try await meet(blocks, client)
    #expect(!denied.isResumed)
    #expect(store.count <= kept, "who is denied leaves no session behind")
    switch rejection {
    case .http, .reportOnly: #expect(denied.verdict.short == "verified" && denied.serverFailure == nil)
    case .handshake: #expect(denied.serverFailure?.contains("no longer") == true && denied.clientFailure != nil)
    }
  }

  @Test(arguments: [TLSVersions.tls12, .tls13]) func `a resumed session has the chain by which it was verified`(
    version: TLSVersions
  ) async throws {
    let blocks = try Blocks(cast.block(.on, store: SessionStore(limit: 10)))
    let client = try cast.client(cast.clients.client(.viaIntermediate), versions: version)
    for resumes in [false, true, true] {
      let meeting = try await meet(blocks, client)
      #expect(meeting.isResumed == resumes)
      guard case .verified(let chain) = meeting.verdict else {
        Issue.record("\(meeting.verdict)")
        continue
      }
      #expect(chain.others == [cast.clients.intermediate.certificate, cast.clients.root.certificate])
    }
  }
}

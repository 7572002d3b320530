import Crypto
import Glibc
import SPIFFE
import TestSupport
import Testing
import Transport

@testable import TLS

@Suite(.timeLimit(.minutes(10))) struct `Bundles of trust domains` {
  private let domain: TestTrustDomain
  private let other: TestTrustDomain
  private let material: WorkloadMaterial

  init() throws {
    domain = try TestTrustDomain()
    other = try TestTrustDomain("other.test")
    let id = "spiffe://example.org/ns/prod/sa/proxy"
    material = try WorkloadMaterial(
      WorkloadMessage(domain.svid("/ns/prod/sa/proxy"), id, of: domain, federated: [other]).bytes)
  }

  private func block(
    _ trust: WorkloadTrust = .everyDomain, _ material: WorkloadMaterial? = nil, term: WorkloadTerm = .until(.max),
    store: SessionStore? = nil
  ) throws -> ServerTLSContext {
    var settings = ServerTLSSettings()
    settings.verification = .on
    var loaded = ServerTLSMaterial(certificates: [try domain.svid("/server")], clientCAs: [], trustedCAs: [])
    loaded.bundles = try TrustBundles(material ?? self.material, trust)
    loaded.workload = term
    return try ServerTLSContext(
      settings: settings, material: loaded, sessions: store, ocsp: OCSPClient(pool: BlockingPool()))
  }

  private func client(_ identity: CertifiedKey?) throws -> UpstreamTLSContext {
    try UpstreamTLSContext(
      settings: UpstreamTLSSettings(), material: UpstreamTLSMaterial(policy: .anybody, identity: identity))
  }

  private func reason(_ verdict: ClientVerdict) -> String {
    if case .refused(_, _, let reason, _) = verdict { reason } else { verdict.short }
  }

  @Test func `verify each client by the authorities of its own trust domain alone`() async throws {
    let blocks = try Blocks(block())
    func judged(_ svid: CertifiedKey) async throws -> String { reason(try await meet(blocks, client(svid)).verdict) }
    #expect(try await judged(domain.svid()) == "verified")
    #expect(try await judged(domain.svid(by: domain.intermediate)) == "verified")
    #expect(try await judged(other.svid()) == "verified")
    let id = "spiffe://example.org/ns/prod/sa/web"
    #expect(try await judged(other.svid(uris: [id])).contains("unable to get local issuer certificate"))
    #expect(try await judged(domain.svid(uris: ["spiffe://other.test/a"])).contains("unable to get local issuer"))
    #expect(try await judged(TestTrustDomain("third.test").svid()) == "no bundle of the trust domain third.test")
    #expect(try await judged(domain.svid(uris: [id, id])).contains("2 URIs"))
    #expect(try await judged(domain.svid(uris: [])).contains("no SPIFFE ID"))
    #expect(try await judged(domain.svid(purpose: .authority(pathLength: nil))).contains("it is a CA's certificate"))
    #expect(try await judged(domain.svid(purpose: .leaf([.serverAuth]))).contains("certificate purpose"))
    #expect(try await judged(domain.svid(seconds: -1)).contains("certificate has expired"))
  }

  @Test func `of one trust domain verify no other`() async throws {
    let blocks = try Blocks(block(.domain(SPIFFEID(parsing: "spiffe://other.test").trustDomain)))
    #expect(try await meet(blocks, client(other.svid())).verdict.short == "verified")
    #expect(try await meet(blocks, client(domain.svid())).verdict.short != "verified")
  }

  @Test func `that are not there refuse the handshake, and say why`() async throws {
    let blocks = try Blocks(block(term: .missing(reason: "no agent")))
    let meeting = try await meet(blocks, client(domain.svid()))
    #expect(meeting.serverFailure?.contains("there is no SPIFFE identity: no agent") == true)
    #expect(meeting.clientFailure != nil)
    let ended = try await meet(Blocks(block(term: .until(Int64(time(nil))))), client(domain.svid()))
    #expect(ended.serverFailure?.contains("the SPIFFE identity has ended") == true)
  }

  @Test func `judge an open connection anew when they change`() async throws {
    let id = "spiffe://example.org/ns/prod/sa/proxy"
    let without = try WorkloadMaterial(WorkloadMessage(domain.svid("/ns/prod/sa/proxy"), id, of: domain).bytes)
    let next = try Blocks(block(.everyDomain, without))
    #expect(try await meet(Blocks(block()), client(domain.svid()), moving: next).verdict.short == "verified")
    #expect(try await meet(Blocks(block()), client(other.svid()), moving: next).verdict.short != "verified")
  }

  @Test func `make another policy when they differ, so that no session survives`() throws {
    let id = "spiffe://example.org/ns/prod/sa/proxy"
    let without = try WorkloadMaterial(WorkloadMessage(domain.svid("/ns/prod/sa/proxy"), id, of: domain).bytes)
    #expect(try block().clientPolicyDigest == block().clientPolicyDigest)
    #expect(try block().clientPolicyDigest != block(.everyDomain, without).clientPolicyDigest)
  }

  private func upstream(
    _ ids: [String], _ trust: WorkloadTrust = .everyDomain, identity: CertifiedKey? = nil,
    term: WorkloadTerm = .until(.max)
  ) throws -> UpstreamTLSContext {
    try UpstreamTLSContext(
      settings: UpstreamTLSSettings(),
      material: UpstreamTLSMaterial(
        policy: .workload(try TrustBundles(material, trust), ids: try ids.map { try SPIFFEIDPattern(parsing: $0) }),
        identity: identity, workload: term))
  }

  private func server(_ identity: CertifiedKey) throws -> Blocks {
    try Blocks(
      ServerTLSContext(
        settings: ServerTLSSettings(),
        material: ServerTLSMaterial(certificates: [identity], clientCAs: [], trustedCAs: []), sessions: nil,
        ocsp: OCSPClient(pool: BlockingPool())))
  }

  @Test func `verify an upstream that has one of the IDs`() async throws {
    let ids = ["spiffe://example.org/ns/*/sa/app", "spiffe://other.test/**"]
    func outcome(_ svid: CertifiedKey, _ trust: WorkloadTrust = .everyDomain) async throws -> TrustOutcome? {
      try await meet(server(svid), upstream(ids, trust)).trust?.outcome
    }
    #expect(try await outcome(domain.svid("/ns/prod/sa/app")) == .trusted)
    #expect(try await outcome(other.svid("/x/y")) == .trusted)
    #expect(try await outcome(domain.svid("/ns/prod/sa/else")) == .name)
    #expect(try await outcome(other.svid(uris: ["spiffe://example.org/ns/prod/sa/app"])) == .chain)
    #expect(try await outcome(domain.svid("/ns/prod/sa/app", purpose: .leaf([.clientAuth]))) == .chain)
    #expect(try await outcome(domain.svid("/ns/prod/sa/app", seconds: -1)) == .expired)
    let only = WorkloadTrust.domain(try SPIFFEID(parsing: "spiffe://other.test").trustDomain)
    #expect(try await outcome(domain.svid("/ns/prod/sa/app"), only) == .chain)
    // A name is not what counts.
    #expect(try await outcome(domain.svid("/ns/prod/sa/else", names: [.dns("up.test")])) == .name)
  }

  @Test func `refuse an upstream while the own identity is missing, even one that anybody may be`() async throws {
    let app = try domain.svid("/ns/prod/sa/app")
    let missing = WorkloadTerm.missing(reason: "no agent")
    let meeting = try await meet(server(app), upstream(["spiffe://example.org/**"], term: missing))
    #expect(meeting.trust?.outcome == .chain)
    let anybody = try UpstreamTLSContext(
      settings: UpstreamTLSSettings(),
      material: UpstreamTLSMaterial(policy: .anybody, identity: nil, workload: missing))
    #expect(try await meet(server(app), anybody).trust?.outcome == .chain)
  }

  @Test func `verify the identities that come with them, whatever the clock says`() throws {
    for svid in material.svids {
      #expect(TrustBundles.fault(of: svid, by: try #require(material.bundles[svid.id.trustDomain])) == nil)
    }
    let id = "spiffe://example.org/ns/prod/sa/proxy"
    let deep = try domain.svid("/ns/prod/sa/proxy", by: domain.intermediate)
    var message = WorkloadMessage()
    message.add(deep, id, bundle: [domain.root.certificate])
    #expect(throws: Never.self) { try WorkloadMaterial(message.bytes, verify: TrustBundles.fault) }
    message = WorkloadMessage()
    message.add(deep, id, bundle: [domain.root.certificate], chain: [])
    #expect(throws: WorkloadFault.self) { try WorkloadMaterial(message.bytes, verify: TrustBundles.fault) }
    message = WorkloadMessage()
    message.add(try domain.svid("/ns/prod/sa/proxy", seconds: -60), id, bundle: [domain.root.certificate])
    #expect(throws: Never.self) { try WorkloadMaterial(message.bytes, verify: TrustBundles.fault) }
    message = WorkloadMessage()
    message.add(try domain.svid("/ns/prod/sa/proxy"), id, bundle: [other.root.certificate])
    #expect(throws: WorkloadFault.self) { try WorkloadMaterial(message.bytes, verify: TrustBundles.fault) }
  }
}

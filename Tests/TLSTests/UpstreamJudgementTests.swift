import Crypto
@testable import TLS
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct `How upstreams are judged` {
  let cast: Cast
  init() throws { cast = try Cast.shared.get() }

  private func upstream(_ certified: CertifiedKey? = nil, versions: TLSVersions = .standard) throws -> Blocks {
    try Blocks(cast.block(.off, certificate: certified, versions: versions))
  }

  @Test(arguments: [TLSVersions.tls12, .tls13])
  func `a chain, a name and a pin that are right open the stream`(version: TLSVersions) async throws {
    let policy = try cast.policy(pins: [pin(cast.clients.root), pin(cast.server)], versions: version)
    #expect(try await meet(upstream(), policy).clientFailure == nil)
  }

  @Test(arguments: [TLSVersions.tls12, .tls13])
  func `each fault is refused with its reason`(version: TLSVersions) async throws {
    let other = try cast.upstreams.server(names: ["up.test"])
    let stranger = try cast.strangers.server(names: ["up.test"])
    let faults: [(presented: CertifiedKey, policy: UpstreamTLSContext, reason: String)] = try [
      (other, cast.policy(pins: [pin(cast.server)], versions: version), "pin: "),
      (other, cast.policy(chain: false, name: false, pins: [pin(cast.server)], versions: version), "pin: "),
      (cast.upstreams.server(names: ["elsewhere.test"]), cast.policy(versions: version), "name: "),
      (stranger, cast.policy(versions: version), "chain: "),
      // A pin does not excuse the chain.
      (stranger, cast.policy(pins: [pin(stranger)], versions: version), "chain: "),
    ]
    for fault in faults {
      let failure = try await meet(upstream(fault.presented), fault.policy).clientFailure
      #expect(failure?.contains("\"\(fault.reason)") == true, "\(failure ?? "opened") is not \(fault.reason)")
    }
  }

  @Test(arguments: [".test", "."])
  func `a name that begins with a dot is no wildcard`(name: String) async throws {
    let failure = try await meet(upstream(), cast.policy(), name: name).clientFailure
    #expect(failure?.contains("\"name: ") == true, "\(failure ?? "opened")")
  }

  @Test func `the pin of a certificate that is merely sent along counts for nothing`() async throws {
    let other = try cast.upstreams.server(names: ["up.test"])
    let presented = try #require(
      CertifiedKey(certificate: other.certificate, chain: [cast.server.certificate], key: other.key))
    let failure = try await meet(upstream(presented), cast.policy(pins: [pin(cast.server)])).clientFailure
    #expect(failure?.contains("\"pin: ") == true)
  }

  @Test func `a weak key in the upstream's chain is refused although old versions are on`() async throws {
    let old: TLSVersions = [.tls10, .tls11, .tls12, .tls13]
    let weak = try PrivateKey.generate(.rsa(bits: 1024))
    let weakRoot = try CertificateBuilder(commonName: "Weak", .authority(pathLength: nil)).selfSigned(key: weak)
    let leaf = CertificateBuilder(commonName: "up.test", .leaf([.serverAuth]), names: [.dns("up.test")])
    for certified in try [leaf.signed(by: weakRoot, key: .generate()), leaf.signed(by: cast.upstreams.root, key: weak)]
    {
      let policy = try cast.policy(
        authorities: [weakRoot.certificate, cast.upstreams.root.certificate], versions: old)
      let failure = try await meet(upstream(certified, versions: old), policy).clientFailure
      #expect(failure?.contains("key too weak") == true, "\(failure ?? "opened")")
    }
  }

  @Test(arguments: [TLSVersions.tls12, .tls13])
  func `a resumed session is judged again`(version: TLSVersions) async throws {
    let blocks = try Blocks(cast.block(.off, store: SessionStore(limit: 10)))
    let policy = try cast.policy(pins: [pin(cast.server)], versions: version)
    #expect(try await meet(blocks, policy).isResumed == false)
    let again = try await meet(blocks, policy)
    #expect(again.isResumed && again.clientFailure == nil)
    // A session belongs to its name: under another one nothing is resumed, and the name is judged.
    let elsewhere = try await meet(blocks, policy, name: "elsewhere.test")
    #expect(elsewhere.clientFailure?.contains("\"name: ") == true)
  }
}

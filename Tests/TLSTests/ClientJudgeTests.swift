import Crypto
import Glibc
@testable import TLS
import TestSupport
import Testing

/// A judgement is a value: nobody's connection changes by it, and the same code judges on each occasion.
@Suite(.timeLimit(.minutes(10))) struct `The judge of clients` {
  let cast: Cast
  init() throws { cast = try Cast.shared.get() }

  private var now: Int64 { Int64(time(nil)) }

  private func judged(
    _ identity: CertifiedKey, by block: ServerTLSContext, _ witness: ClientJudge.Witness = .handshake,
    denial: String? = nil
  ) -> ClientJudgement {
    let policy = ClientPolicy(context: block, chooser: denial.map { Denying($0) })
    return ClientJudge.judge(identity.certificate, sent: identity.chain, at: now, by: policy, witness)
  }

  /// Access rules that deny everybody.
  private final class Denying: ServerChooser {
    let reason: String
    init(_ reason: String) {
      self.reason = reason
      super.init()
    }
    override func denial(of client: VerifiedClient?, by context: ServerTLSContext) -> String? { reason }
  }

  @Test(arguments: TestAuthority.ClientKind.allCases, [ClientVerification.on, .optional, .optionalNoCA])
  func `it says what a handshake says, of strangers too`(
    kind: TestAuthority.ClientKind, mode: ClientVerification
  ) async throws {
    let block = try cast.block(mode)
    for identity in try [cast.clients.client(kind), cast.strangers.client(kind)] {
      let met = try await meet(Blocks(block), cast.client(identity))
      let judgement = judged(identity, by: block)
      #expect(judgement.verdict.short == met.verdict.short)
      #expect(judgement.validUntil == met.clientEnd)
      #expect((judgement.purposelessChain == nil) == (met.purposeless == nil))
    }
  }

  @Test func `optional_no_ca excuses an unknown CA behind a front, too, and nothing else`() throws {
    let block = try cast.block(.optionalNoCA)
    #expect(try judged(cast.strangers.client(), by: block, .front).verdict.short == "unverified")
    #expect(try judged(cast.strangers.client(.expired), by: block, .front).verdict.short == "refused 10")
  }

  @Test func `one client has as many judgements as policies, and each its own end`() throws {
    let identity = try cast.clients.client()
    let end = [identity.certificate, cast.clients.root.certificate].compactMap(\.notAfter.seconds).min()
    let (strict, lax) = try (cast.block(.on, authorities: [cast.strangers.root.certificate]), cast.block(.on))
    for _ in 0..<2 {
      #expect(judged(identity, by: strict).verdict.isVerified == false)
      #expect(judged(identity, by: strict).validUntil == .max)
      let judgement = judged(identity, by: lax)
      #expect(judgement.verdict.short == "verified")
      #expect(judgement.validUntil == end)
    }
  }

  @Test func `access rules deny in a handshake that may be rejected, and leave the verdict to requests elsewhere`()
    throws
  {
    let rules = HandshakeRules(fingerprint: [1], needsCertificate: false), identity = try cast.clients.client()
    let rejecting = try judged(identity, by: cast.block(.on, rules: rules, rejection: .handshake), denial: "not you")
    #expect(rejecting.denial == "not you" && !rejecting.isLetIn && rejecting.verdict.client == nil)
    let answering = try judged(identity, by: cast.block(.on, rules: rules), denial: "not you")
    #expect(answering.denial == nil && answering.isLetIn && answering.verdict.short == "verified")
    let stranger = try judged(
      cast.strangers.client(), by: cast.block(.on, rules: rules, rejection: .handshake), denial: "not you")
    #expect(stranger.denial == nil && !stranger.isLetIn)
  }

  @Test func `a fault of a CA names that CA, in a handshake, too, and one of the client's own certificate names none`()
    async throws
  {
    var ended = CertificateBuilder(commonName: "Devices 3", .authority(pathLength: nil))
    (ended.notBefore, ended.notAfter) = (1_700_000_000, 1_700_086_400)
    let issuer = try ended.signed(by: cast.clients.root, key: .generate())
    let client = try CertificateBuilder(commonName: "truck", .leaf([.clientAuth])).signed(by: issuer, key: .generate())
    for mode in [ClientVerification.on, .optionalNoCA] {
      let block = try cast.block(mode)
      guard case .refused(_, code: 10, _, let culprit?) = judged(client, by: block).verdict else {
        Issue.record("\(judged(client, by: block).verdict)")
        continue
      }
      #expect(culprit.depth == 1 && culprit.certificate == issuer.certificate)
      #expect(
        culprit.words
          == "; at fault is not the client's certificate but the CA at depth 1: \"CN=Devices 3\", not after 2023-11-15 22:13:20 UTC"
      )
      guard case .refused(_, _, _, nil) = try judged(cast.clients.client(.expired), by: block).verdict else {
        Issue.record("the client's own certificate has ended")
        continue
      }
    }
    let met = try await meet(Blocks(cast.block(.on, rejection: .handshake)), cast.client(client))
    // The failure is spelt as a literal, with a backslash before an apostrophe.
    #expect(met.serverFailure?.contains("but the CA at depth 1: ") == true, "\(met.serverFailure ?? "none")")
  }

  @Test func `what can't be set up for a verification is refused`() throws {
    let leaf = try cast.clients.client().certificate
    let judgement = ClientJudgement.refused(leaf, code: 1, "no memory", at: now)
    #expect(!judgement.isLetIn && judgement.verdict.client == nil && judgement.verdict.short == "refused 1")
  }
}

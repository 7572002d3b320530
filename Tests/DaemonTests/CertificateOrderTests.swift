import Traffic
import Forward
import Features
import ACME
import Glibc
import Observability
import TestSupport
import Testing

@testable import Daemon

@Suite struct `An order of a certificate` {
  /// The disk takes neither a certificate nor a record. Nobody is asked: nothing listens at the issuer's address.
  @Test func `a state that can't be written orders nothing, and each attempt waits longer by what memory knows`() throws
  {
    let scene = try Scene()
    defer { scene.end() }
    let issuer = ACMEIssuerSettings(
      name: "ca", directory: try #require(ACMEURL("https://127.0.0.1:1/dir")), stateFolder: scene.path("state"))
    let settings = ACMECertificateSettings(
      issuer: issuer, names: [try #require(ACMEIdentifier("a.test"))], key: .ecdsa256, location: nil)
    for name in ["pem", "json"] {
      try scene.makeFolder("state/\(settings.fileName).\(name).new/full")
    }
    chmod(scene.path("state"), 0o700)
    let shared = SharedState(features: Features.all)
    func look(_ remembered: RenewalRecord?, at now: Int64) -> CertificateOrder.Outcome {
      CertificateOrder(
        settings: settings, shared: shared, hook: nil, log: ErrorLog([]), isForced: false,
        giveUp: CertificateOrder.GiveUp(), remembered: remembered
      ).run(at: now)
    }
    let first = look(nil, at: 1_000_000)
    #expect(
      first.record.failures == 1 && first.record.lastError.contains("no certificate is ordered that could not be kept"))
    #expect((45...75).contains(first.record.nextTry - 1_000_000) && first.lookAt == first.record.nextTry)
    // Without memory, each look would be a first one.
    let early = look(first.record, at: first.record.nextTry - 1)
    #expect(early.record == first.record && early.lookAt == first.record.nextTry)
    let second = look(first.record, at: first.record.nextTry)
    #expect(second.record.failures == 2 && (90...150).contains(second.record.nextTry - first.record.nextTry))
    #expect(second.record.attempts == 2 && second.notAfter == nil && second.unwritten == nil && !second.isNew)
  }
}

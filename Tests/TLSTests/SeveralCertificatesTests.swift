import Transport
import Crypto
@testable import TLS
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct `Several certificates in one server block` {
  @Test(arguments: [("ECDHE-ECDSA-AES128-GCM-SHA256", true), ("ECDHE-RSA-AES128-GCM-SHA256", false)])
  func `the client's ciphers choose between RSA and ECDSA`(cipher: String, isECDSA: Bool) async throws {
    let cast = try Cast.shared.get()
    let rsa = try cast.upstreams.server(names: ["up.test"], key: .generate(.rsa(bits: 2048)))
    for certificates in [[rsa, cast.server], [cast.server, rsa]] {
      var settings = ServerTLSSettings()
      settings.versions = .tls12
      let block = try ServerTLSContext(
        settings: settings, material: ServerTLSMaterial(certificates: certificates, clientCAs: [], trustedCAs: []),
        sessions: nil, ocsp: OCSPClient(pool: BlockingPool()))
      let expected = isECDSA ? cast.server : rsa
      let result = try await meet(
        Blocks(block), cast.policy(pins: [pin(expected)], versions: .tls12, ciphers: cipher))
      #expect(result.clientFailure == nil && result.trust == .trusted)
    }
  }
}

import COpenSSL
import Observability
import Testing

@testable import TLS

@Suite struct `The group of a key exchange` {
  @Test(
    arguments: [
      ("X25519", .x25519), ("x25519", .x25519), ("P-256", .p256), ("prime256v1", .p256), ("secp384r1", .p384),
      ("X25519MLKEM768", .x25519MLKEM768), ("SecP256r1MLKEM768", .p256MLKEM768), ("mlkem768", .mlkem768), ("", .none),
      ("0xfafa", .other), ("ffdhe2048", .other), ("other", .other), ("none", .other),
    ] as [(String, KeyExchange)])
  func `is known by each of its names`(name: String, group: KeyExchange) {
    #expect(KeyExchange(name) == group)
  }

  @Test func `is post-quantum with ML-KEM only`() {
    for group in KeyExchange.allCases {
      #expect(group.isPostQuantum == group.rawValue.uppercased().contains("MLKEM"), "\(group)")
    }
    #expect(KeyExchange.inWords("X25519MLKEM768") == "X25519MLKEM768 (post-quantum: yes)")
    #expect(KeyExchange.inWords("X25519") == "X25519 (post-quantum: no)" && KeyExchange.inWords("").isEmpty)
  }

  @Test func `CVE-2026-2673: is post-quantum by default where OpenSSL has it, without OpenSSL's word DEFAULT`() {
    let isNew = OpenSSL_version_num() >= 0x3050_0000
    #expect(KeyExchange.standard == (isNew ? ["X25519MLKEM768"] : []) + ["X25519", "P-256", "P-384"])
    #expect(AlgorithmWeakness.names(inGroups: "DEFAULT:-X448/?*P-256") == ["DEFAULT", "P-256"])
  }

  @Test func `is offered by default, by ssl_ecdh_curve or by a command`() {
    let isNew = OpenSSL_version_num() >= 0x3050_0000
    var server = ServerTLSSettings(), upstream = UpstreamTLSSettings()
    #expect(server.groupsInWords.contains("post-quantum: \(isNew ? "yes" : "no")"))
    server.curves = "X25519:P-256"
    upstream.curves = "?X25519MLKEM768/X25519"
    #expect(server.groupsInWords == "X25519:P-256 (post-quantum: no)")
    #expect(upstream.groupsInWords == "?X25519MLKEM768/X25519 (post-quantum: yes)")
    let place = SourceLocation(file: "a", line: 1, column: 1)
    upstream.confCommands = [ConfCommand(name: "Groups", value: "X448", location: place)]
    #expect(upstream.groupsInWords == "X448 (post-quantum: no)")
  }
}

import Bytes
package import Crypto
import Glibc

/// A CA made for one test, and the certificates of it and beside it that a mutual-TLS server must tell apart.
package struct TestAuthority: Sendable {
  package enum ClientKind: Sendable, CaseIterable {
    case good, viaIntermediate, expired, notYetValid, selfSigned, serverAuthOnly
    /// Two intermediates: one more than ssl_verify_depth 1 takes.
    case tooDeep
  }

  package let root: CertifiedKey
  package let intermediate: CertifiedKey

  package init(_ name: String = "Test") throws {
    root = try CertificateBuilder(commonName: "\(name) Root", .authority(pathLength: nil)).selfSigned(key: .generate())
    intermediate = try CertificateBuilder(commonName: "\(name) Intermediate", .authority(pathLength: nil))
      .signed(by: root, key: .generate())
  }

  /// `until`: the certificate's end, in seconds since 1970; nil: the builder's own.
  package func client(
    _ kind: ClientKind = .good, commonName: String = "alice", until end: Int64? = nil
  ) throws -> CertifiedKey {
    var builder = CertificateBuilder(
      commonName: commonName, .leaf([kind == .serverAuthOnly ? .serverAuth : .clientAuth]),
      names: [.dns("\(commonName).example"), .email("\(commonName)@example.org")])
    builder.subject = [(.country, "SE"), (.organization, "Example + Sons")] + builder.subject
    if let end { builder.notAfter = end }
    let now = Int64(time(nil))
    switch kind {
    case .good, .serverAuthOnly: return try builder.signed(by: root, key: .generate())
    case .viaIntermediate: return try builder.signed(by: intermediate, key: .generate())
    case .selfSigned: return try builder.selfSigned(key: .generate())
    case .expired:
      builder.notBefore = now - 172_800
      builder.notAfter = now - 86_400
      return try builder.signed(by: root, key: .generate())
    case .notYetValid:
      builder.notBefore = now + 86_400
      builder.notAfter = now + 172_800
      return try builder.signed(by: root, key: .generate())
    case .tooDeep:
      let lower = try CertificateBuilder(commonName: "Lower Intermediate", .authority(pathLength: nil))
        .signed(by: intermediate, key: .generate())
      return try builder.signed(by: lower, key: .generate())
    }
  }

  /// A server's certificate; a name that is an address becomes one.
  package func server(names: [String] = [], key: PrivateKey? = nil) throws -> CertifiedKey {
    let all = names.isEmpty ? ["localhost", "127.0.0.1"] : names
    return try CertificateBuilder(
      commonName: all[0], .leaf([.serverAuth]),
      names: all.map { $0.allSatisfy { $0.isNumber || $0 == "." } ? .ip($0) : .dns($0) }
    ).signed(by: root, key: key ?? .generate())
  }
}

/// A certificate with its key as files.
package struct IdentityFiles: Sendable {
  package static let password = "correct horse"
  /// PEM: the certificate, then its chain.
  package let certificate: String
  package let key: String
  package let certified: CertifiedKey
  /// For curl.
  package var curl: [String] { ["--cert", certificate, "--key", key] }
  /// For openssl s_client and s_server.
  package var openssl: [String] { ["-cert", certificate, "-key", key, "-cert_chain", certificate] }
}

extension Scene {
  /// Writes NAME.pem (with the chain) and NAME.key.
  package func identity(_ name: String, _ certified: CertifiedKey) throws -> IdentityFiles {
    let chain = ([certified.certificate] + certified.chain).map(\.pem).joined()
    return IdentityFiles(
      certificate: try write("\(name).pem", text: chain),
      key: try write("\(name).key", certified.key.pem.withUnsafeBytes { Array($0) }), certified: certified)
  }

  /// Writes NAME.p12, locked by `IdentityFiles.password`.
  @discardableResult
  package func pkcs12(
    _ name: String, _ certified: CertifiedKey, strength: PKCS12.Strength = .modern
  ) throws -> String {
    let file = try PKCS12.encode(
      certified, name: name, password: SecretBytes(Array(IdentityFiles.password.utf8)), strength: strength)
    return try write("\(name).p12", file.withUnsafeBytes { Array($0) })
  }

  /// Writes NAME.pem with these certificates.
  @discardableResult
  package func anchors(_ name: String, _ authorities: TestAuthority...) throws -> String {
    try write("\(name).pem", text: authorities.map(\.root.certificate.pem).joined())
  }
}

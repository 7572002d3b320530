import Bytes
import Crypto
import TestSupport
import Testing

@Suite struct `A stand-in` {
  @Test func `says all that the certificate says, with another key and its signer's signature`() throws {
    let authority = try TestAuthority()
    let key = try PrivateKey.generate(), rootKey = try PrivateKey.generate(.p224)
    let root = try authority.root.certificate.standIn(for: rootKey, signedBy: rootKey)
    let standIn = try authority.intermediate.certificate.standIn(for: key, signedBy: rootKey)
    let original = authority.intermediate.certificate
    #expect(standIn.subject.rfc2253 == original.subject.rfc2253 && standIn.issuer.rfc2253 == original.issuer.rfc2253)
    #expect(standIn.serial == original.serial && standIn.usage == original.usage)
    #expect(standIn.notAfter == original.notAfter && standIn.hasKeyIdentifier == original.hasKeyIdentifier)
    #expect(standIn.spkiSHA256 == key.spkiSHA256 && root.endsChain)
    #expect(root.signed(standIn) && !root.signed(original) && !authority.root.certificate.signed(standIn))
  }

  @Test(arguments: [CertificateBuilder.SignatureDigest.sha1, .md5])
  func `keeps a hash that verification may refuse`(digest: CertificateBuilder.SignatureDigest) throws {
    var builder = CertificateBuilder(commonName: "old", .authority(pathLength: 0))
    builder.signatureDigest = digest
    // No signature of ECDSA has MD5.
    let key = try PrivateKey.generate(.rsa(bits: 2048))
    let pair = try builder.selfSigned(key: key)
    let standIn = try pair.certificate.standIn(for: .generate(), signedBy: key)
    #expect(standIn.signatureAlgorithm == pair.certificate.signatureAlgorithm)
  }

  @Test func `of a revocation list revokes one certificate more, and ends when the list does`() throws {
    let authority = try TestAuthority(), key = try PrivateKey.generate()
    let revoked = try authority.client(), other = try authority.client(commonName: "bob")
    let text = try RevocationListBuilder(revoking: [revoked.certificate]).pem(signedBy: authority.root)
    let lists = try Array(text.utf8).withUnsafeBytes { try RevocationList.all(inPEM: $0) }
    let list = try #require(lists.first)
    let standIn = try list.standIn(revoking: other.certificate.serial, signedBy: key)
    #expect(standIn.count == 2 && standIn.revokes(revoked.certificate) && standIn.revokes(other.certificate))
    #expect(standIn.nextUpdate == list.nextUpdate && standIn.number == list.number)
    let root = try authority.root.certificate.standIn(for: key, signedBy: key)
    #expect(standIn.isSigned(by: root) && !standIn.isSigned(by: authority.root.certificate))
  }
}

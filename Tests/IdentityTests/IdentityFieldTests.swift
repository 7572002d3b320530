import Bytes
import Crypto
@testable import TLS
import Testing

@testable import Identity

@Suite struct `Fields that say who a client is` {
  let cast: Certificates
  init() throws { cast = try Certificates.shared.get() }

  private func lines(_ form: IdentityFieldForm, _ leaf: Certificate, _ others: [Certificate], _ own: [Certificate] = [])
    -> [String]
  {
    IdentityFields.fields(form, VerifiedChain(leaf: leaf, others: others), server: own).map {
      "\($0.name): \($0.value)"
    }
  }

  private func sequence(_ certificate: Certificate) -> String { ":\(Base64.encode(certificate.der)):" }

  @Test func `RFC 9440: leaf and chain, without the anchor`() throws {
    let (alice, middle, root) = (cast.alice, cast.intermediate.certificate, cast.root.certificate)
    #expect(
      lines(.rfc9440, alice, [middle, root]) == [
        "Client-Cert: \(sequence(alice))", "Client-Cert-Chain: \(sequence(middle))",
      ])
    #expect(
      lines(.rfc9440, alice, [middle, alice, root]).last
        == "Client-Cert-Chain: \(sequence(middle)), \(sequence(alice))")
    // An empty list has no field; an anchor may be the client itself.
    #expect(lines(.rfc9440, alice, [root]) == ["Client-Cert: \(sequence(alice))"])
    #expect(lines(.rfc9440, root, []) == ["Client-Cert: \(sequence(root))"])
  }

  @Test func `nobody is told of who has no verified chain`() {
    for form in [IdentityFieldForm.off, .rfc9440, .xfcc] {
      #expect(IdentityFields.fields(form, nil, server: [cast.alice]).isEmpty)
    }
    #expect(lines(.off, cast.alice, []).isEmpty)
  }

  @Test func `X-Forwarded-Client-Cert has Envoy's keys in Envoy's order`() throws {
    let own = try cast.leaf("proxy", [.uri("spiffe://prod/proxy"), .dns("proxy.test")])
    let (middle, root) = (cast.intermediate.certificate, cast.root.certificate)
    let line = try #require(lines(.xfcc, cast.alice, [middle, root], [own]).first)
    let pairs = line.replacing("X-Forwarded-Client-Cert: ", with: "").split(separator: ";").map(String.init)
    #expect(
      pairs.map { String($0.prefix { $0 != "=" }) } == [
        "By", "Hash", "Cert", "Chain", "Subject", "URI", "DNS", "DNS",
      ])
    let leaf = ForwardedClientCert.percentEncoded(cast.alice.pem)
    #expect(leaf.hasPrefix("-----BEGIN%20CERTIFICATE-----%0A") && !leaf.contains("+") && !leaf.contains("/"))
    #expect(pairs[0] == "By=spiffe://prod/proxy")
    #expect(pairs[1] == "Hash=\(Hex.encode(cast.alice.sha256))")
    #expect(pairs[2] == "Cert=\"\(leaf)\"")
    #expect(pairs[3] == "Chain=\"\(leaf)\(ForwardedClientCert.percentEncoded(middle.pem))\"")
    #expect(pairs[4] == #"Subject="OU=ops,OU=dev,O=Example\, Inc.,CN=alice""#)
    #expect(Array(pairs[5...]) == ["URI=spiffe://Prod/ns/a/sa/api", "DNS=WWW.Example.com", "DNS=b.example.com"])
  }

  @Test(arguments: [
    (#"a"b"#, #"CN=a\22b"#), (#"a\"#, #"CN=a\5C"#), (#"a\"b"#, #"CN=a\5C\22b"#), ("a\";Hash=0", #"CN=a\22\;Hash=0"#),
    ("a,b", #"CN=a\,b"#), ("a\nb", #"CN=a\0Ab"#),
  ])
  func `a subject never ends its own quotes`(commonName: String, subject: String) throws {
    let line = try #require(lines(.xfcc, cast.leaf(commonName), []).first)
    #expect(line.hasSuffix(";Subject=\"\(subject)\""))
  }

  @Test func `a name that needs quotes has them, one that could lie is left out with its kind`() throws {
    let quoted = try cast.leaf("x", [.uri("urn:a,b;c=d"), .dns("a.test")])
    #expect(lines(.xfcc, quoted, []).first?.hasSuffix(#";URI="urn:a,b;c=d";DNS=a.test"#) == true)
    for bytes in [Array("a\"b".utf8), Array("a\\".utf8), Array("a\0b".utf8), Array("a\r\nX: y".utf8), [0xFF]] {
      let certificate = try cast.leaf("x", [.uri("urn:good"), .raw(.uri, bytes), .dns("a.test")])
      #expect(lines(.xfcc, certificate, []).first?.hasSuffix(";Subject=\"CN=x\";DNS=a.test") == true)
    }
  }
}

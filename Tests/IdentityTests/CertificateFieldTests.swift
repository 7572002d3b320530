import Bytes
import Crypto
import Testing

@testable import Identity

@Suite struct `Certificates in a front's field` {
  let cast: Certificates
  init() throws { cast = try Certificates.shared.get() }

  private var alice: Certificate { cast.alice }
  private var middle: Certificate { cast.intermediate.certificate }

  /// The certificates of a value, or the reason why there are none.
  private func read(_ format: CertificateField.Format, _ value: String, chain: String? = nil) -> Result<
    [Certificate], CertificateFieldError
  > {
    let value = Array(value.utf8), chain = chain.map { Array($0.utf8) }
    return value.withUnsafeBytes { value in
      Result { () throws(CertificateFieldError) in
        let field = CertificateField(name: "Client-Cert", format: format)
        guard let chain else { return try field.certificates(value, chain: nil) }
        return try chain.withUnsafeBytes { raw in
          Result { () throws(CertificateFieldError) in try field.certificates(value, chain: raw) }
        }.get()
      }
    }
  }

  private func reason(_ format: CertificateField.Format, _ value: String, chain: String? = nil) -> String {
    switch read(format, value, chain: chain) {
    case .success(let certificates): "\(certificates.count) certificates"
    case .failure(let error): error.reason
    }
  }

  private func sequence(_ certificate: Certificate) -> String { ":\(Base64.encode(certificate.der)):" }
  private func escaped(_ certificates: Certificate...) -> String {
    ForwardedClientCert.percentEncoded(certificates.map(\.pem).joined())
  }

  @Test func `what sallyport sends by client_identity, it reads`() throws {
    #expect(try read(.rfc9440, sequence(alice)).get() == [alice])
    #expect(
      try read(.rfc9440, sequence(alice), chain: "\(sequence(middle)) ,\t\(sequence(alice))").get()
        == [alice, middle, alice])
    let element = "By=spiffe://a;Hash=00;Cert=\"\(escaped(alice))\";Chain=\"\(escaped(alice, middle))\";Subject=\"x\""
    #expect(try read(.xfcc, element).get() == [alice, middle])
  }

  @Test func `PEM as nginx and as AWS escape it, and DER`() throws {
    #expect(try read(.pem, escaped(alice)).get() == [alice])
    #expect(try read(.pem, escaped(alice, middle)).get() == [alice, middle])
    let ofALB = escaped(alice, middle).replacing("%2B", with: "+").replacing("%3D", with: "=").replacing(
      "%2F", with: "/")
    #expect(try read(.pem, ofALB).get() == [alice, middle])
    #expect(try read(.pem, escaped(alice).replacing("%0A", with: "%0d%0a")).get() == [alice])
    #expect(try read(.der, Base64.encode(alice.der)).get() == [alice])
  }

  @Test(arguments: [
    ("", "it is no byte sequence"), (":", "it is no byte"), ("::", "it is no byte"), (":AA==:x", "it is no byte"),
    (":AA:", "it is not Base64"), (":AA==:", "certificate 1"), ("?1", "it is no byte"), (":A A=:", "it is not Base64"),
    (":MIIB:;a=1", "it is no byte"), ("\":AAAA:\"", "it is no byte"),
  ]) func `no byte sequence`(value: String, reason: String) {
    #expect(self.reason(.rfc9440, value).hasPrefix(reason))
    #expect(self.reason(.rfc9440, sequence(alice), chain: value).hasPrefix(reason.replacing("1", with: "2")))
  }

  @Test func `members of a chain`() {
    let one = sequence(middle)
    for chain in ["\(one),", ",\(one)", "\(one),,\(one)", "\(one) \(one)", "\(one);a"] {
      #expect(!reason(.rfc9440, sequence(alice), chain: chain).hasSuffix("certificates"), "\(chain.prefix(3))")
    }
    let many = Array(repeating: one, count: 16).joined(separator: ",")
    #expect(reason(.rfc9440, sequence(alice), chain: many) == "it has more than 16 certificates")
    #expect(reason(.rfc9440, sequence(alice), chain: String(many.dropLast(one.utf8.count + 1))) == "16 certificates")
    #expect(reason(.der, String(repeating: "A", count: 65_537)) == "the value is longer than 65536 bytes")
  }

  @Test func `PEM that is not of certificates alone`() {
    let text = escaped(alice)
    for value in [
      "", "%", "%4", "%zz", text + "x", "x" + text, text.replacing("%20", with: "+"), String(text.dropLast(9)),
      text.replacing("CERTIFICATE", with: "TRUSTED%20CERTIFICATE"),
      text.replacing("CERTIFICATE", with: "PRIVATE%20KEY"),
      text.replacing("BEGIN", with: "END"), text + text.prefix(60), text.replacing("%0A", with: "%00"),
      text.replacing("%0AMI", with: "%0AX-A: b%0A%0AMI"), text + "%00",
    ] {
      #expect(!reason(.pem, value).hasSuffix("certificates"), "\(value.prefix(40))")
    }
  }

  @Test func `of several elements the last one counts, which is the front's own`() throws {
    let own = "Hash=1;Cert=\"\(escaped(alice))\"", other = "Hash=2;Cert=\"\(escaped(middle))\""
    #expect(try read(.xfcc, "\(other),\(own)").get() == [alice])
    #expect(try read(.xfcc, "\(own), \(other)").get() == [middle])
    #expect(try read(.xfcc, "cErT=\(escaped(alice))").get() == [alice])
    #expect(try read(.xfcc, "Chain=\"\(escaped(alice, middle))\"").get() == [alice, middle])
    #expect(try read(.xfcc, #"Subject="CN=\"a,b;c=\" \d";Cert="\#(escaped(alice))""#).get() == [alice])
    #expect(reason(.xfcc, "\(own),Hash=3") == "its last element has neither Cert nor Chain")
    #expect(reason(.xfcc, "\(own);Cert=\"\"") == "an element of it has two Cert")
    #expect(reason(.xfcc, "\(own);cert=x,\(own)") == "an element of it has two Cert")
    #expect(reason(.xfcc, "Chain=x;Chain=x") == "an element of it has two Chain")
    #expect(reason(.xfcc, "Cert=\"\"") == "Cert or Chain of its last element is empty")
    #expect(
      reason(.xfcc, "Cert=\"\(escaped(alice))\";Chain=\"\(escaped(middle, alice))\"")
        == "Cert and Chain of its last element differ")
    #expect(
      reason(.xfcc, Array(repeating: own, count: 33).joined(separator: ",")).hasPrefix("it has more than 32")
        || own.utf8.count * 33 > CertificateField.mostBytes)
    #expect(reason(.xfcc, Array(repeating: "A=", count: 33).joined(separator: ",")) == "it has more than 32 elements")
  }

  /// What a client sends stands before what its front appends.
  @Test func `no beginning that a client writes takes the front's element from it`() throws {
    let own = "By=spiffe://lb;Hash=00;Cert=\"\(escaped(alice))\";Subject=\"CN=a\";URI=x"
    let theirs = escaped(middle)
    for beginning in [
      "Subject=\"", "Cert=\"\(theirs)\";Subject=\"", "Cert=\(theirs);Subject=\"", "Cert=\"\(theirs)\",By=\"",
      "Cert=\"\(theirs)\"\\", "Subject=\"\\", "Subject=\"\\\\\"", "Subject=\"a\\\\\\\"",
      "Cert=\"\(theirs)\";Subject=\"x\\",
      "\"", "a", ";", ",", "=", "Cert=\(theirs)\"", "Subject=\"x\"y",
    ] {
      switch read(.xfcc, "\(beginning),\(own)") {
      case .failure: break
      case .success(let certificates): #expect(certificates == [alice], "\(beginning.prefix(30))")
      }
    }
  }

  @Test(arguments: [
    ("Cert", "a pair of it has no key"), ("=x", "a pair of it has no key"), ("Cert =x", "a pair of it has no key"),
    ("A=1;;Cert=x", "a pair of it has no key"), ("A=1;", "a pair of it has no key"),
    ("A=1,", "a pair of it has no key"),
    ("A=\"x", "a quoted value of it has no end"), ("A=\"x\"y", "a text follows a quoted value of it"),
    ("A=x\"y", "a value of it has a quotation mark in it"),
    ("A=\"x\\\\\";B=1", "backslashes before a quotation mark of it can be read in two ways"),
  ]) func `elements that have two readings, or none`(value: String, reason: String) {
    #expect(self.reason(.xfcc, value) == reason)
  }
}

import Bytes
import Crypto

extension InspectionPage {
  init(_ certificate: Certificate, _ number: String, at now: Int64) {
    let usage = certificate.usage
    self.init(kind: "certificate", title: "\(number)\(Self.title(usage))")
    let names = certificate.subjectAltNames
    let subject = certificate.subject.rfc2253
    say("for", "subject", .text(subject.isEmpty ? "(no subject)" : subject))
    say("issued by", "issuer", .text(certificate.issuer.rfc2253), note: certificate.isSelfIssued ? "itself" : nil)
    sayValidity(certificate, now)
    say("names", "names", .list(names.all.map { "\($0.kind.label):\($0)" }))
    sayUse(usage)
    say(certificate.keyKind, pin: certificate.spkiSHA256)
    say("serial", "serial", .text(certificate.serial))
    say("fingerprint", "sha256_fingerprint", .text(Hex.encode(certificate.sha256)), note: "SHA-256")
    // Nobody verifies the signature of a certificate that is trusted by itself.
    say(certificate.signatureAlgorithm, isJudged: !certificate.isSelfIssued)
    let responders = certificate.responderAddresses
    if !responders.isEmpty { say("asks OCSP at", "ocsp", .list(responders)) }
    let lists = certificate.listAddresses
    if !lists.isEmpty { say("has lists at", "crl", .list(lists)) }
    judge(certificate, usage, names)
  }

  private static func title(_ usage: CertificateUsage) -> String {
    switch (usage.isAuthority, usage.purposes) {
    case (true, _): "the certificate of a CA"
    case (_, let purposes?) where purposes.contains("serverAuth") && purposes.contains("clientAuth"):
      "a certificate for servers and clients"
    case (_, let purposes?) where purposes.contains("serverAuth"): "a server's certificate"
    case (_, let purposes?) where purposes.contains("clientAuth"): "a client's certificate"
    default: "a certificate"
    }
  }

  private mutating func sayValidity(_ certificate: Certificate, _ now: Int64) {
    let (start, end) = (certificate.notBefore, certificate.notAfter)
    say("valid from", "not_before", .text(AuthorityTime.rfc3339(start)))
    let hasEnded = end.hasEnded(at: now)
    say(
      hasEnded ? "ended" : "until", "not_after", .text(AuthorityTime.rfc3339(end)),
      note: end.seconds.map { Self.distance($0, from: now) })
    say(nil, "expired", .truth(hasEnded))
    warn("it has ended", when: hasEnded)
    warn("it is not valid yet", when: !start.hasBegun(at: now))
    if !hasEnded, let days = end.days(from: now), days < 30 { warn("it ends soon") }
  }

  private mutating func sayUse(_ usage: CertificateUsage) {
    var sentences: [String] = []
    if usage.isAuthority == true {
      let below =
        switch usage.pathLength {
        case nil: "with any number of CAs below it"
        case 0: "but none of other CAs"
        case let length?: "with at most \(length) CAs below it"
        }
      sentences.append(usage.maySignCertificates ? "sign certificates, \(below)" : "sign no certificates")
    }
    if usage.purposes == nil, usage.isAuthority != true { sentences.append("do anything: it names no purpose") }
    sentences += (usage.purposes ?? []).map(Self.purpose)
    say("may", "uses", .list(sentences))
    say(nil, "is_ca", .truth(usage.isAuthority == true))
    say(nil, "extended_key_usage", .list(usage.purposes ?? []))
    if let keyUsages = usage.keyUsages { say("its key may", "key_usage", .list(keyUsages)) }
  }

  private static func purpose(_ name: String) -> String {
    switch name {
    case "serverAuth": "authenticate a server (serverAuth)"
    case "clientAuth": "authenticate a client (clientAuth)"
    case "OCSPSigning": "sign OCSP responses (OCSPSigning)"
    case "codeSigning": "sign programs (codeSigning)"
    case "emailProtection": "sign and encrypt email (emailProtection)"
    default: name
    }
  }

  private mutating func judge(
    _ certificate: Certificate, _ usage: CertificateUsage, _ names: SubjectAlternativeNames
  ) {
    warn("OpenSSL can't read one of its extensions, and refuses it", when: usage.isMalformed)
    warn("its names can't be read", when: names.isMalformed)
    let odd = names.all.contains { !$0.isWellFormed }
    warn("a name has control characters or is no address; no rule matches it", when: odd)
    if case .ambiguous = certificate.subject.commonName {
      warn("its common name is not one plain text; no rule matches it")
    }
    if usage.isAuthority == true {
      warn("a CA without key usage", when: usage.keyUsages == nil)
      warn(
        "a CA whose key usage forbids to sign certificates", when: usage.keyUsages != nil && !usage.maySignCertificates)
    } else {
      let isServer = usage.purposes?.contains("serverAuth") != false
      warn(
        "it has no DNS name or IP address as alternative name; clients accept it for no server",
        when: isServer && names.dns.isEmpty && names.ips.isEmpty)
      warn("it names no purpose; it counts for servers and for clients", when: usage.purposes == nil)
    }
  }
}

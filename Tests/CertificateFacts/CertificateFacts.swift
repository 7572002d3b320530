import Bytes
import Crypto
import Features
import Forward
import Identity
import Observability
import Patterns
import Review
import TLS
import Traffic
import Transport

/// What holds of every certificate that anybody may show, however broken: it goes through each `$ssl_client_…` variable,
/// the rules on clients, both escapes of a log, the fields for upstreams and what `sallyport probe` prints.
package struct CertificateFacts {
  /// What does not hold.
  package struct Violation: Error, CustomStringConvertible {
    package let description: String
  }

  private let certificate: Certificate
  /// The clock, which may say anything.
  private let now: Int64

  /// nil for what OpenSSL does not parse. An even first byte: the rest is DER; an odd one: the rest says the fields of a
  /// certificate (`ComposedCertificate`). The second byte sets the clock.
  package init?(_ input: [UInt8]) {
    guard input.count > 2 else { return nil }
    let der = input[0] & 1 == 0 ? Array(input[2...]) : ComposedCertificate(input[2...]).der
    guard let certificate = try? Certificate(der: der) else { return nil }
    self.certificate = certificate
    now = [0, .min, .max, 1_800_000_000, -62_167_219_201, 253_402_300_800][Int(input[1] % 6)]
  }

  package func check() throws(Violation) {
    try checkTimes()
    try checkVariables()
    try checkRules()
    try checkFields()
    try checkProbe()
    try require(OpenSSLError.drain().codes.isEmpty, "an error was left in OpenSSL's queue")
  }

  private func require(_ holds: Bool, _ what: String) throws(Violation) {
    if !holds { throw Violation(description: what) }
  }

  private static func isControl(_ byte: UInt8) -> Bool { byte < 0x20 || byte == 0x7F }

  private func checkTimes() throws(Violation) {
    let end = certificate.notAfter
    try require((end == .unreadable) == certificate.notAfterText.isEmpty, "a time is text where it is a number")
    try require(end != .unreadable || end.hasEnded(at: now), "an unreadable end has ended")
    try require(certificate.notBefore != .unreadable || !certificate.notBefore.hasBegun(at: now), "and not begun")
    try require(CertificateTime.earliest([end, .at(now)]) != nil, "two instants have a first")
  }

  private func checkVariables() throws(Violation) {
    for variable in CertificateVariable.allCases {
      let value = variable.value(of: certificate, at: now)
      switch variable {
      case .ssl_client_v_remain:
        try require(value.allSatisfy { (0x30...0x39).contains($0) }, "\(variable) is no number")
        try require(value.isEmpty == (certificate.notAfter == .unreadable), "\(variable) is known where the end is not")
      case .ssl_client_raw_cert, .ssl_client_cert: break
      case .ssl_client_s_dn_legacy, .ssl_client_i_dn_legacy: break
      default: try require(!value.contains { Self.isControl($0) }, "\(variable) has a control character")
      }
      for escape in [LogEscape.default, LogEscape.json] {
        var line = ByteBuffer()
        value.withUnsafeBytes { escape($0, &line) }
        try require(!line.readable.contains { $0 < 0x20 }, "\(variable) ends a log line")
      }
    }
  }

  private static let words = [
    "cn=**", "o=~.*", "ou=a*", "dns=**", "email=*@**", "uri=**", "ip=*.*.*.*", "serial=*", "issuer=**",
    "fingerprint=" + String(repeating: "00", count: 32),
  ]
  private static let place = SourceLocation(file: "x.conf", line: 1, column: 1)
  /// One rule each; compiled once, since that takes longer than all the rest.
  private static let rules = words.flatMap { word in
    [ClientRule.Effect.allow, .deny].map { effect in
      let rule = ClientRule.parse(effect, [(word, place)], at: place).rule.map { [$0] } ?? []
      let rules = ClientRules(allow: effect == .allow ? rule : [], deny: effect == .deny ? rule : [])
      return (word: word, effect: effect, rules: rules)
    }
  }
  private static let selectors = words.map { ClientSelector(parsing: $0) }

  /// Makes what every check shares.
  package static func prepare() { _ = (rules.count, selectors.count) }

  private func checkRules() throws(Violation) {
    let client = ClientRules.Client(.verified(VerifiedChain(unjudged: certificate)))
    let scratch = RegularExpression.Scratch()
    for (word, effect, rules) in Self.rules {
      guard let rules else { throw Violation(description: "\(word) is no rule") }
      let verdict = rules.judge(client, scratch: scratch)
      if word == "cn=**" {
        let isNamed = certificate.subject.commonName.sole != nil
        try require(verdict != .admitted || effect == .deny || isNamed, "nobody's name is let in")
        if case .ambiguous = certificate.subject.commonName {
          try require(verdict != .admitted, "an ambiguous name is let in")
        }
      }
      guard case .denied(_, let reason) = verdict else { continue }
      try require(!reason.isEmpty && !ClientRules.message(Self.place, reason).isEmpty, "a denial says why")
    }
    for selector in Self.selectors {
      guard let selector else { throw Violation(description: "no selector") }
      _ = selector.match(client, scratch: scratch)
    }
    let name = CertificateVariable.ssl_client_s_dn_cn.value(of: certificate, at: now)
    try require(name.isEmpty || name == certificate.subject.commonName.sole, "a CN means two things")
  }

  /// Values that end no line.
  private func checkFields() throws(Violation) {
    for form in [IdentityFieldForm.rfc9440, .xfcc] {
      let chain = VerifiedChain(unjudged: certificate, others: [certificate, certificate])
      let fields = IdentityFields.fields(form, chain, server: [certificate])
      try require(!fields.isEmpty, "\(form) says nothing")
      for field in fields {
        try require(!field.value.utf8.contains { Self.isControl($0) }, "\(form) has a control character")
      }
    }
  }

  private func checkProbe() throws(Violation) {
    var report = ProbeReport()
    report.certificates = [certificate, certificate]
    report.presented = certificate
    report.certificateRequest = [certificate.issuer.rfc2253]
    report.applicationProtocol = certificate.subject.legacy
    report.failure = certificate.subject.description
    report.trust = .refused(kind: "chain", reason: certificate.issuer.description)
    report.acceptance = .refused(certificate.subjectAltNames.all.map(\.description).joined())
    let address = SocketAddress.unix(path: "/x")
    let text = ProbeText(report, of: "https://a.test/", at: address, isColoured: false, now: now).text
    let controls = text.unicodeScalars.filter { $0.properties.generalCategory == .control && $0 != "\n" }
    try require(controls.isEmpty, "probe prints a control character")
    let summary = certificate.summary.unicodeScalars
    try require(!summary.contains { $0.properties.generalCategory == .control }, "pin prints a control character")
    let json = ProbeJSON(report, of: "https://a.test/", at: address).text
    try require(!json.utf8.contains { $0 < 0x20 }, "probe's JSON holds a control character")
  }
}

import Crypto
import Negotiation
import Observability
package import TLS
package import Transport

/// A probe's report for a person: the handshake, the server's identity, and the two answers.
///
/// The server supplies nearly all of the values. Control characters in them are escaped, so that no server can write to
/// the terminal.
package struct ProbeText {
  private var lines: [String] = []
  private let isColoured: Bool
  /// Seconds since 1970.
  private let now: Int64

  package var text: String { lines.joined(separator: "\n") }

  /// `places`: the locations of a configuration that pass on to this server.
  package init(
    _ report: ProbeReport, of url: String, at address: SocketAddress, places: [String] = [], isColoured: Bool,
    now: Int64
  ) {
    self.isColoured = isColoured
    self.now = now
    add("\(url) at \(address)")
    for place in places { add("for", place) }
    add("before TLS", report.negotiated.map { "it agreed to TLS, asked in the words of \($0.title)" } ?? "")
    steps(report)
    add("protocol", report.protocolName.isEmpty ? "none" : report.protocolName)
    add("cipher", report.cipher)
    add("key exchange", KeyExchange.inWords(report.group))
    add("signature", report.signature)
    add("application", report.applicationProtocol)
    if let authorities = report.certificateRequest {
      add("it requests", authorities.isEmpty ? "a certificate of any CA" : "a certificate of")
      for authority in authorities { add("    \(authority)") }
    } else {
      add("it requests", "no certificate")
    }
    add("we present", report.presented?.summary ?? "none")
    if report.presented?.allowsClients == false {
      add("    ", .bad, "not for clients", ": its extended key usage lacks clientAuth, so the server may refuse it")
    }
    add("certificates it sent")
    for (index, certificate) in report.certificates.enumerated() { add(certificate, index) }
    if report.certificates.isEmpty { add("    none") }
    add("stapled OCSP", words(report.stapled))
    add("")
    answers(report)
  }

  private mutating func add(_ label: String, _ value: String) {
    guard !value.isEmpty else { return }
    add(label + String(repeating: " ", count: max(1, 16 - label.count)) + value)
  }

  private enum Mood { case good, bad, none }

  /// Adds a line, the only way to do so. The coloured word is between `before` and `after`.
  private mutating func add(_ before: String, _ mood: Mood = .none, _ word: String = "", _ after: String = "") {
    let middle =
      isColoured && mood != .none
      ? "\u{1B}[\(mood == .good ? "32" : "31");1m\(LogEscape.visible(word))\u{1B}[0m" : LogEscape.visible(word)
    lines.append(LogEscape.visible(before) + middle + LogEscape.visible(after))
  }

  private mutating func steps(_ report: ProbeReport) {
    add("handshake")
    for step in report.steps {
      let time = "\(step.microseconds / 1000).\(step.microseconds % 1000 / 100) ms"
      let padding = String(repeating: " ", count: max(1, 12 - time.count))
      add("\(padding)\(time)  \(step.direction == .sent ? "->" : "<-") \(step.name)")
    }
    if let failure = report.failure { add("    ", .bad, "failed", ": \(failure)") }
  }

  private mutating func add(_ certificate: Certificate, _ index: Int) {
    add("  \(index) \(certificate.subject)")
    add("    issuer   \(certificate.issuer)")
    let (mood, validity) = judge(certificate)
    add("    valid    \(certificate.notBeforeWords) to \(certificate.notAfterWords), ", mood, validity)
    let names = certificate.subjectAltNames.all.map(\.description)
    if !names.isEmpty { add("    names    \(names.joined(separator: ", "))") }
    add("    pin      \(Pin.spelling(publicKeyDigest: certificate.spkiSHA256))")
  }

  private func judge(_ certificate: Certificate) -> (Mood, String) {
    guard let left = certificate.notAfter.days(from: now), certificate.notBefore != .unreadable else {
      return (.bad, "never valid")
    }
    if certificate.notAfter.hasEnded(at: now) { return (.bad, "expired") }
    if !certificate.notBefore.hasBegun(at: now) { return (.bad, "not yet valid") }
    return (.none, "\(left) days left")
  }

  private mutating func answers(_ report: ProbeReport) {
    let trust = "Do we trust the server?            "
    switch report.trust {
    case .trusted: add(trust, .good, "yes")
    case .refused(_, let reason): add(trust, .bad, "no", ": \(reason)")
    case .unverified:
      add(trust, .bad, "no policy", ": nothing is verified, any server would pass")
    case .reportOnly(let warning): add(trust, .good, "yes", ", though \(warning)")
    case .unknown:
      let reason = report.fault?.words ?? "the server did not prove possession of a certificate's key"
      add(trust, .bad, "unknown", ": \(reason)")
    }
    let question = "Does it accept our certificate?    "
    switch report.acceptance {
    case .notAsked(let status):
      add(question, .good, "it requests none", status.map { ", and answered \($0)" } ?? "")
    case .accepted(let status):
      let shown = report.presented == nil ? "it lets us in without one" : "yes"
      // PostgreSQL looks at its rules when it knows the user.
      let unknown =
        report.presented == nil && report.negotiated == .postgres ? " so far: its rules for a user may demand one" : ""
      add(question, .good, shown, unknown + (status.map { ", and answered \($0)" } ?? ""))
    case .refused(let reason): add(question, .bad, "no", ": \(reason)")
    case .undecided(let status): add(question, .bad, "unknown", ": \(ProbeReport.reason(ofUndecided: status))")
    case .unknown(let reason): add(question, .bad, "unknown", ": \(report.fault?.words ?? reason)")
    }
    if let advice = report.advice { add("What to do: \(advice)") }
  }

  private func words(_ stapled: ProbeReport.Stapled) -> String {
    switch stapled {
    case .none: "none"
    case .good(let until): "good, for another \(max(0, until - now) / 3600) hours"
    case .revoked: "REVOKED"
    case .unknown: "the responder does not know the certificate"
    case .fault(let reason): "invalid: \(reason)"
    }
  }
}

extension ProbeReport {
  /// What to do about the report; nil when nothing need be done.
  package var advice: String? {
    if let fault { return fault.advice(port: port) }
    switch trust {
    case .refused: return anchorAdvice
    case .unverified:
      return
        "name the CA that its certificate must come from: `proxy_ssl_trusted_certificate FILE; proxy_ssl_verify on;`.\(pinAdvice)"
    case .trusted, .reportOnly, .unknown:
      guard case .undecided = acceptance else { return nil }
      return "give the path of something that every client may read, as https://HOST/PATH"
    }
  }

  static func reason(ofUndecided status: Int) -> String {
    "it answered \(status), which may be for the certificate or for the request"
  }

  private var anchorAdvice: String? {
    guard let anchorFault else { return nil }
    let issuer = certificates.last.map { " \"\($0.issuer)\"" } ?? ""
    let named = "--cafile FILE, or in a configuration `proxy_ssl_trusted_certificate FILE;`"
    return switch anchorFault {
    case .noneNamed:
      "only the CAs of the system were believed: name the file of the server's CA\(issuer): \(named).\(pinAdvice)"
    case .notOfTheNamed:
      "none of the named CAs certified it: take the file of its CA\(issuer): \(named). If the server sends only its own certificate, it must send the intermediates too"
    }
  }

  private var pinAdvice: String {
    certificates.first.map {
      " Or pin the key that it showed once its owner has confirmed it: `proxy_ssl_pin \(Pin.spelling(publicKeyDigest: $0.spkiSHA256));`"
    } ?? ""
  }
}

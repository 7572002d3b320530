import Crypto
import Daemon
import Glibc
import TLS
import Transport

/// A probe's report as a person reads it: what happened, who it was, and the two answers.
struct ProbeText {
  private(set) var lines: [String] = []
  private let isColoured = isatty(STDOUT_FILENO) == 1 && getenv("NO_COLOR") == nil

  var text: String { lines.joined(separator: "\n") }

  init(_ probe: (report: ProbeReport, address: SocketAddress), _ target: ProbeTarget) {
    let report = probe.report
    lines.append("\(target.url) at \(probe.address)")
    steps(report)
    add("protocol", report.protocolName.isEmpty ? "none" : report.protocolName)
    add("cipher", report.cipher)
    add("key exchange", report.group)
    add("its key signed", report.signature)
    add("application", report.applicationProtocol)
    if let authorities = report.certificateRequest {
      add("it asks for", authorities.isEmpty ? "a certificate, of no CA in particular" : "a certificate of")
      for authority in authorities { lines.append("    \(authority)") }
    } else {
      add("it asks for", "no certificate")
    }
    add("we show", report.presented?.summary ?? "none")
    lines.append("certificates it sent")
    for (index, certificate) in report.certificates.enumerated() { add(certificate, index) }
    if report.certificates.isEmpty { lines.append("    none") }
    add("stapled OCSP", Self.words(report.stapled))
    lines.append("")
    answers(report)
  }

  private mutating func add(_ label: String, _ value: String) {
    guard !value.isEmpty else { return }
    lines.append(label + String(repeating: " ", count: max(1, 16 - label.count)) + value)
  }

  private mutating func steps(_ report: ProbeReport) {
    lines.append("handshake")
    for step in report.steps {
      let time = "\(step.microseconds / 1000).\(step.microseconds % 1000 / 100) ms"
      let padding = String(repeating: " ", count: max(1, 12 - time.count))
      lines.append("\(padding)\(time)  \(step.direction == .sent ? "->" : "<-") \(step.name)")
    }
    if let failure = report.failure { lines.append("    \(colour(.bad, "failed")): \(failure)") }
  }

  private mutating func add(_ certificate: Certificate, _ index: Int) {
    let now = Int64(time(nil))
    lines.append("  \(index) \(certificate.subject)")
    lines.append("    issuer   \(certificate.issuer)")
    let left = (certificate.notAfter - now) / 86_400
    let validity =
      if certificate.notAfter < now { colour(.bad, "expired") } else if certificate.notBefore > now {
        colour(.bad, "not yet valid")
      } else { "\(left) days left" }
    lines.append("    valid    \(certificate.notBeforeText) to \(certificate.notAfterText), \(validity)")
    let names = certificate.subjectAltNames.all.map(\.description)
    if !names.isEmpty { lines.append("    names    \(names.joined(separator: ", "))") }
    lines.append("    pin      \(Pin.spelling(publicKeyDigest: certificate.spkiSHA256))")
  }

  private mutating func answers(_ report: ProbeReport) {
    switch report.trust {
    case .trusted: lines.append("Do we trust the server?            \(colour(.good, "yes"))")
    case .refused(_, let reason): lines.append("Do we trust the server?            \(colour(.bad, "no")): \(reason)")
    case .unverified:
      lines.append(
        "Do we trust the server?            \(colour(.bad, "no policy to trust by")): nothing is verified, anybody may be it"
      )
    case .reportOnly(let warning):
      lines.append("Do we trust the server?            \(colour(.good, "yes")), though \(warning)")
    case .unknown:
      lines.append(
        "Do we trust the server?            \(colour(.bad, "unknown")): nobody proved to hold a certificate's key")
    }
    let question = "Does it accept our certificate?    "
    switch report.acceptance {
    case .notAsked(let status):
      lines.append("\(question)\(colour(.good, "it asks for none"))\(status.map { ", and answered \($0)" } ?? "")")
    case .accepted(let status):
      let shown = report.presented == nil ? "it lets us in without one" : "yes"
      lines.append("\(question)\(colour(.good, shown)), and answered \(status)")
    case .refused(let reason): lines.append("\(question)\(colour(.bad, "no")): \(reason)")
    case .unknown(let reason): lines.append("\(question)\(colour(.bad, "unknown")): \(reason)")
    }
  }

  private static func words(_ stapled: ProbeReport.Stapled) -> String {
    switch stapled {
    case .none: "none"
    case .good(let until): "good, for another \(max(0, until - Int64(time(nil))) / 3600) hours"
    case .revoked: "REVOKED"
    case .unknown: "the responder does not know the certificate"
    case .fault(let reason): "worth nothing: \(reason)"
    }
  }

  private enum Mood { case good, bad }

  private func colour(_ mood: Mood, _ text: String) -> String {
    guard isColoured else { return text }
    return "\u{1B}[\(mood == .good ? "32" : "31");1m\(text)\u{1B}[0m"
  }
}

import Crypto
import Negotiation
import Observability
package import TLS
package import Transport

/// A probe's report for programs. Names never change; new ones may be added.
package struct ProbeJSON {
  package let text: String

  /// `address`: nil where none was reached. `places`: the locations of a configuration that pass on to this server.
  package init(_ report: ProbeReport, of url: String, at address: SocketAddress?, places: [String] = []) {
    var json = JSONText()
    json.object { json in
      json.array("locations", places) { $1.value($0) }
      json.member("url", url)
      json.member("address", address?.description)
      json.member("starttls", report.negotiated?.rawValue)
      json.array("handshake", report.steps) { step, json in
        json.object { json in
          json.member("direction", step.direction.rawValue)
          json.member("message", step.name)
          json.member("microseconds", step.microseconds)
        }
      }
      json.member("failure", report.failure)
      json.member("fault", report.fault?.name)
      json.member("advice", report.advice)
      json.member("protocol", report.protocolName.isEmpty ? "none" : report.protocolName)
      json.member("cipher", report.cipher)
      json.member("group", report.group)
      if !report.group.isEmpty { json.member("post_quantum", KeyExchange(report.group).isPostQuantum) }
      json.member("signature", report.signature)
      json.member("alpn", report.applicationProtocol)
      if let authorities = report.certificateRequest {
        json.array("certificate_request", authorities) { $1.value($0) }
      } else {
        json.member("certificate_request", String?.none)
      }
      json.member("presented", report.presented?.subject.rfc2253)
      if let presented = report.presented { json.member("presented_is_for_clients", presented.allowsClients) }
      json.array("certificates", report.certificates) { certificate, json in
        json.object { json in
          json.member("subject", certificate.subject.rfc2253)
          json.member("issuer", certificate.issuer.rfc2253)
          json.member("not_before", certificate.notBefore.seconds)
          json.member("not_after", certificate.notAfter.seconds)
          json.array("names", certificate.subjectAltNames.all) { $1.value($0.description) }
          json.member("pin", Pin.spelling(publicKeyDigest: certificate.spkiSHA256))
        }
      }
      json.member("stapled_ocsp", report.stapled.word)
      json.member("trusted", report.trustsServer)
      json.member("trust_reason", report.trust.reason)
      json.member("accepted", report.isAccepted)
      json.member("acceptance", report.acceptance.word)
      json.member("acceptance_reason", report.acceptance.reason)
      json.member("status", report.acceptance.status)
    }
    text = json.text
  }

  /// An upstream that was not looked at.
  package init(unprobed: ProbePlan.Unprobed) {
    var json = JSONText()
    json.object { json in
      json.array("locations", [unprobed.place]) { $1.value($0) }
      json.member("url", unprobed.target)
      json.member("skipped", unprobed.reason)
    }
    text = json.text
  }
}

extension ProbeReport.Stapled {
  fileprivate var word: String {
    switch self {
    case .none: "none"
    case .good: "good"
    case .revoked: "revoked"
    case .unknown: "unknown"
    case .fault: "invalid"
    }
  }
}

extension ProbeReport.Trust {
  fileprivate var reason: String? {
    switch self {
    case .trusted: nil
    case .refused(_, let reason), .reportOnly(let reason): reason
    case .unverified: "no policy: nothing is verified"
    case .unknown: "the server did not prove possession of a certificate's key"
    }
  }
}

extension ProbeReport.Acceptance {
  fileprivate var word: String {
    switch self {
    case .notAsked: "not-asked"
    case .accepted: "accepted"
    case .refused: "refused"
    case .undecided, .unknown: "unknown"
    }
  }

  fileprivate var reason: String? {
    switch self {
    case .notAsked, .accepted: nil
    case .refused(let reason), .unknown(let reason): reason
    case .undecided(let status): ProbeReport.reason(ofUndecided: status)
    }
  }

  fileprivate var status: Int? {
    switch self {
    case .notAsked(let status): status
    case .accepted(let status): status
    case .undecided(let status): status
    case .refused, .unknown: nil
    }
  }
}

import Enrolment
import Forward
import Language
import Observability
import Traffic

/// Errors and warnings for a location that issues certificates.
enum EnrolmentRule {
  static func check(_ level: Level, _ scope: Scope, _ features: FeatureDirectives) -> [Diagnostic] {
    guard let line = EnrolmentSettings.line(in: scope) else { return [] }
    var found: [Diagnostic] = []
    let others = features.contents(of: .http).filter { $0 != EnrolmentSettings.self }.map {
      $0.line(in: scope, of: features)
    }
    for case let other? in others {
      let name = other.name
      found.append(
        Diagnostic(
          .error, at: line.location, "\"enrolment\" beside \"\(name)\": a location can have only one content handler",
          hint: "use a separate location; \(name) is at \(other.location)"))
    }
    let lifetime =
      EnrolmentSettings.lifetimeRow.seconds(in: scope).map { Int64($0) } ?? CertificateProfile.clientDays * 86_400
    if let asked = EnrolmentSettings.renewBeforeRow.seconds(in: scope), asked >= lifetime,
      let place = EnrolmentSettings.renewBeforeRow.line(in: scope)?.location
    {
      found.append(
        Diagnostic(
          .warning, at: place,
          "\"enrolment_renew_before\" is not shorter than the validity of a certificate: a device could renew at any time, without limit",
          hint: "less than \(lifetime % 86_400 == 0 ? "\(lifetime / 86_400)d" : "\(lifetime)s")"))
    }
    if !level.isEncrypted {
      found.append(
        Diagnostic(
          .warning, at: line.location,
          "\"enrolment\" without TLS: passwords and pass phrases are sent unencrypted",
          hint: "listen … ssl"))
    }
    return found
  }
}

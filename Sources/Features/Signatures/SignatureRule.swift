import Forward
import Language
import Observability
import Signature
import Traffic

/// Errors in `message_signature` that only other directives show.
enum SignatureRule {
  /// Allowed times, in seconds: a signature of a year is a password.
  static let times = 1...86_400
  static let timeHint = "a time in whole seconds, from 1s to 1d"

  /// Warns of directives for the other mode.
  static func withoutEffect(_ scope: Scope, _ mode: SignatureSettings.Mode) -> Diagnostic? {
    let other = mode == .verify ? SignatureSettings.expiresRow : SignatureSettings.maxAgeRow
    return other.ownLine(in: scope).map {
      Diagnostic(
        .warning, at: $0.location,
        "\"\(other.name)\" has no effect with \"message_signature \(Signatures.row.text(in: scope) ?? "")\"",
        hint: mode == .verify ? "message_signature_max_age limits the age" : "message_signature_expires sets the end")
    }
  }

  /// Warns of directives where signatures are off, and of signing without an upstream.
  static func hasNoEffect(_ scope: Scope, _ features: FeatureDirectives) -> Diagnostic? {
    if Signatures.mode(scope) == nil {
      guard let line = scope.directives.first(where: { $0.name.hasPrefix("message_signature_") }),
        !scope.hasInnerLevels
      else { return nil }
      return Diagnostic(
        .warning, at: line.location, "\"\(line.name)\" has no effect here: message_signature is off",
        hint: "message_signature verify; or sign")
    }
    guard Signatures.mode(scope) == .sign, let line = Signatures.row.ownLine(in: scope),
      !UpstreamPass.forwards(scope, features), scope.ownLocations.isEmpty
    else { return nil }
    return Diagnostic(
      .warning, at: line.location,
      "\"message_signature sign\" without proxy_pass: sallyport signs only requests for upstreams",
      hint: "use it together with proxy_pass")
  }

  /// Finds contradictions with the directives beside a `proxy_pass` or `grpc_pass`.
  static func besidePass(_ pass: PassDraft, _ settings: SignatureSettings) -> [Diagnostic] {
    let scope = pass.scope, sendsStreams = pass.dialect.callsMethods
    let line = SignatureSettings.componentsRow.line(in: scope)?.location ?? settings.location
    let coversDigest = settings.components.contains(where: \.coversDigest)
    var found: [Diagnostic] = []
    if coversDigest, sendsStreams {
      found.append(
        Diagnostic(
          .error, at: line,
          "a signature with \"content-digest\" covers a whole body, and \(pass.dialect.name) sends streams",
          hint: "message_signature_components without content-digest"))
    }
    guard settings.mode == .sign else { return found }
    if coversDigest, !sendsStreams, let buffering = scope.streamingLine {
      found.append(
        Diagnostic(
          .error, at: buffering.location,
          "\"proxy_request_buffering off\" beside a signature with \"content-digest\": the digest of a body is known only when the body is whole",
          hint:
            "message_signature_components without content-digest, or proxy_request_buffering on; the signature is at \(line)"
        ))
    }
    if let auth = scope.upstreamAuth {
      found.append(
        Diagnostic(
          .error, at: auth.location,
          "\"proxy_auth\" beside \"message_signature sign\": the answer to a challenge would change a signed request",
          hint: "remove one of the two; the signature is at \(settings.location)"))
    }
    let ours = Set(["signature", "signature-input"]).union(coversDigest ? ["content-digest"] : [])
    for field in scope.setFieldLines where ours.contains(field.text(0).lowercased()) {
      found.append(
        Diagnostic(
          .error, at: field.location, "\"\(field.text(0))\" is set here, but message_signature writes this field",
          hint: "remove one of the two; the signature is at \(settings.location)"))
    }
    return found
  }
}

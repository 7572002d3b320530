import Forward
import Language
import Observability
import Traffic
import Transport
import UpstreamAuth

/// Builds what concerns the request that goes to an upstream, and what sallyport makes of its response's fields.
extension ProxyPass {
  /// As in nginx, a name that stands twice is a warning.
  static func ignoredFields(_ line: Directive, _ builder: inout SettingsBuilder) -> IgnoredResponseFields {
    var fields: IgnoredResponseFields = []
    for word in line.arguments {
      guard let field = IgnoredResponseFields.named[word.text.lowercased()] else { continue }
      if fields.contains(field) {
        builder.warning(word.location, "duplicate value \"\(word.text)\"", hint: "write it once")
      }
      fields.insert(field)
    }
    return fields
  }

  // MARK: How connections to upstreams begin

  static func readBind(_ line: Directive, into origin: inout OriginSettings, _ builder: inout SettingsBuilder) {
    if let word = line.arguments.dropFirst().first {
      if word.text == "transparent" {
        builder.error(
          word.location, "\"transparent\" needs CAP_NET_ADMIN, which sallyport doesn't keep",
          hint: "a header of the PROXY protocol tells the upstream the client's address")
      } else {
        builder.refuse(word, hint: "proxy_bind ADDRESS[:PORT] | off")
      }
    }
    let text = line.text(0)
    if text == "off" { return }
    let template = builder.template(line, 0)
    guard template.constant != nil else {
      origin.local = template
      return
    }
    if text.isEmpty { return }
    origin.fixed.local = SocketAddress(binding: text)
    if origin.fixed.local == nil {
      builder.error(
        line.place(0), "invalid address \"\(text)\"", hint: "such as 192.0.2.1, 192.0.2.1:8000 or [2001:db8::1], or off"
      )
    }
  }

  static func headerForm(_ scope: Scope, _ builder: inout SettingsBuilder) -> ProxyHeaderForm? {
    guard let line = header.line(in: scope) else { return nil }
    let form: ProxyHeaderForm?
    switch line.arguments.map({ $0.text.lowercased() }) {
    case ["off"]: return nil
    case ["on"]: form = .version1
    case ["v2"]: form = .version2(hasCertificate: false)
    case ["v2", "certificate"]: form = .version2(hasCertificate: true)
    default:
      form = nil
      builder.error(
        line.place(0),
        "invalid form \"\(line.arguments.map(\.text).joined(separator: " "))\" of the PROXY header",
        hint: "on, off, v2, or v2 certificate")
    }
    if scope.authSchemes.contains(.ntlm) {
      builder.error(
        line.location, "a PROXY header beside \"proxy_auth ntlm\", which keeps a connection for a user",
        hint: "the header is of one client; remove one of the two")
    }
    return form
  }
}

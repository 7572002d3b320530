import Observability
import Proxy

/// Builds what concerns the request that goes to an upstream, and what sallyport makes of its response's fields.
extension SettingsBuilder {
  /// As in nginx, a name that stands twice is a warning.
  mutating func ignoredHeaders(_ scope: Scope) -> IgnoredResponseFields {
    guard let line = scope.value("proxy_ignore_headers") else { return [] }
    var fields: IgnoredResponseFields = []
    for word in line.arguments {
      guard let field = IgnoredResponseFields.named[word.text.lowercased()] else { continue }
      if fields.contains(field) {
        warning(word.location, "duplicate value \"\(word.text)\"", hint: "write it once")
      }
      fields.insert(field)
    }
    return fields
  }
}

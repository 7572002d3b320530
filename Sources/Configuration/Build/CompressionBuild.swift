import Observability
import Patterns
import Proxy

/// Builds `gzip` and the directives beside it.
extension SettingsBuilder {
  mutating func compression(_ scope: Scope) -> CompressionSettings? {
    guard scope.flag("gzip") == true else { return nil }
    var settings = CompressionSettings()
    settings.level = scope.number("gzip_comp_level") ?? settings.level
    settings.minLength = scope.size("gzip_min_length").map { UInt64($0) } ?? settings.minLength
    settings.takesHTTP10 = scope.text("gzip_http_version") == "1.0"
    settings.sendsVary = scope.flag("gzip_vary") ?? false
    for word in scope.list("gzip_types").flatMap(\.arguments) {
      if word.text == "*" {
        settings.takesAnyType = true
      } else {
        settings.types.insert(Array(word.text.lowercased().utf8))
      }
    }
    settings.proxied = proxied(scope.value("gzip_proxied"))
    for word in scope.list("gzip_disable").flatMap(\.arguments) {
      if word.text == "msie6" {
        settings.disablesOldExplorer = true
        continue
      }
      do throws(PatternError) {
        settings.disabledAgents.append(try RegularExpression(word.text, caseless: true))
      } catch {
        self.error(word.location, "invalid regular expression \"\(word.text)\": \(error)")
      }
    }
    return settings
  }

  private static let conditions: [String: ProxiedCompression] = [
    "expired": .expired, "no-cache": .noCache, "no-store": .noStore, "private": .private,
    "no_last_modified": .noLastModified, "no_etag": .noETag, "auth": .auth, "any": .any,
  ]

  private mutating func proxied(_ line: Directive?) -> ProxiedCompression {
    guard let line else { return [] }
    let words = line.arguments.map { $0.text.lowercased() }
    if words.contains("off"), words.count > 1 {
      error(line.location, "\"off\" beside other words in \"gzip_proxied\"", hint: "off alone, or the other words")
    }
    return words.reduce(into: []) { set, word in if let one = Self.conditions[word] { set.formUnion(one) } }
  }
}

/// What `gzip` doesn't compress, and why.
enum CompressionRule {
  /// Tells, for a server with TLS, that responses to clients with an identity stay as they are.
  static func sparesIdentities(_ scope: Scope, _ root: LocationSettings) -> Diagnostic? {
    let proxied = root.withNested.filter { if case .proxy = $0.action { $0.compression != nil } else { false } }
    guard let first = proxied.first else { return nil }
    return Diagnostic(
      .notice, at: scope.value("gzip")?.location ?? first.location,
      "over TLS, \"gzip\" leaves responses to clients with a certificate, a Cookie or Authorization as they are",
      hint: "the size of a compressed response can tell its secrets (BREACH); the upstream may compress what is public")
  }
}

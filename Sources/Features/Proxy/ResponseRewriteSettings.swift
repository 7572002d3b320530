import Forward
package import Patterns
package import Traffic

/// What `proxy_…` changes of responses: their fields, and how fast they are read.
struct ResponseRewriteSettings: PassPart {
  let redirects: [RedirectRewrite]
  let cookies: CookieRewriteSettings
  /// `proxy_limit_rate`, with buffering: bytes per second of a response that are read from the upstream.
  let readRate: Template?

  func compile(_ parts: inout PassParts, _ makers: LiveMakers) {
    if !redirects.isEmpty { parts.responseHooks.append(RedirectRewrites(redirects)) }
    if !cookies.isEmpty { parts.responseHooks.append(CookieRewrite(cookies)) }
    if let rate = self.readRate { parts.filters.append(UpstreamRate(rate)) }
  }
}

/// What a value must be for a rule of `proxy_redirect` or `proxy_cookie_…`.
package enum RewritePattern: Sendable {
  case text(Template)
  case regex(RegularExpression, slots: [NamedCapture])
}

/// One `proxy_redirect FROM TO`, or its default.
package struct RedirectRewrite: Sendable {
  package var from: RewritePattern
  package var to: Template
}

/// `proxy_cookie_domain`, `proxy_cookie_path` and `proxy_cookie_flags`: of each, the first rule that matches applies.
package struct CookieRewriteSettings: Sendable {
  /// A flag of `proxy_cookie_flags`: what becomes of an attribute.
  package enum Flag: String, Sendable, CaseIterable {
    case secure, nosecure, httponly, nohttponly, nosamesite
    case samesiteStrict = "samesite=strict"
    case samesiteLax = "samesite=lax"
    case samesiteNone = "samesite=none"
  }

  package struct Rule: Sendable {
    package var from: RewritePattern
    package var to: Template
  }

  package struct FlagRule: Sendable {
    package var name: RewritePattern
    /// Each is read for a response, because it may have variables.
    package var flags: [Template]
  }

  package var domains: [Rule]
  package var paths: [Rule]
  package var flags: [FlagRule]
  package var isEmpty: Bool { domains.isEmpty && paths.isEmpty && flags.isEmpty }
}

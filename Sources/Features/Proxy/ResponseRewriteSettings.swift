public import Patterns

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
public enum RewritePattern: Sendable {
  case text(Template)
  case regex(RegularExpression, slots: [NamedCapture])
}

/// One `proxy_redirect FROM TO`, or its default.
public struct RedirectRewrite: Sendable {
  public var from: RewritePattern
  public var to: Template
}

/// `proxy_cookie_domain`, `proxy_cookie_path` and `proxy_cookie_flags`: of each, the first rule that matches applies.
public struct CookieRewriteSettings: Sendable {
  /// A flag of `proxy_cookie_flags`: what becomes of an attribute.
  public enum Flag: String, Sendable, CaseIterable {
    case secure, nosecure, httponly, nohttponly, nosamesite
    case samesiteStrict = "samesite=strict"
    case samesiteLax = "samesite=lax"
    case samesiteNone = "samesite=none"
  }

  public struct Rule: Sendable {
    public var from: RewritePattern
    public var to: Template
  }

  public struct FlagRule: Sendable {
    public var name: RewritePattern
    /// Each is read for a response, because it may have variables.
    public var flags: [Template]
  }

  public var domains: [Rule]
  public var paths: [Rule]
  public var flags: [FlagRule]
  public var isEmpty: Bool { domains.isEmpty && paths.isEmpty && flags.isEmpty }
}

import Observability
import Language

/// The regular expressions of `proxy_redirect` and `proxy_cookie_…`.
extension ProxyPass {
  // As in nginx, domains and names of cookies have no case; others have after `~`, and not after `~*`.
  static let definitions: [String: Definition] = [
    "proxy_redirect": { define($0, hasCase: true, &$1) }, "proxy_cookie_path": { define($0, hasCase: true, &$1) },
    "proxy_cookie_domain": { define($0, hasCase: false, &$1) },
    "proxy_cookie_flags": { define($0, hasCase: false, &$1) },
  ]

  private static func define(_ line: Directive, hasCase: Bool, _ defined: inout DefinedVariables) {
    guard let word = line.arguments.first, word.text.hasPrefix("~") else { return }
    let isCaseless = word.text.hasPrefix("~*")
    defined.compile(
      String(word.text.dropFirst(isCaseless ? 2 : 1)), at: word, caseless: isCaseless || !hasCase, what: line.name)
  }
}

/// `proxy_redirect` and `proxy_cookie_…`.
extension SettingsBuilder {
  mutating func redirectRewrites(_ draft: PassDraft) -> [RedirectRewrite] {
    if draft.dialect.callsMethods { return [] }
    let (url, lines) = (draft.url, draft.scope.list("proxy_redirect"))
    let standard: RedirectRewrite? =
      url.authority == nil
      ? nil
      : url.uri.map { uri in
        RedirectRewrite(
          from: .text(Template(literal: url.base + String(decoding: uri, as: UTF8.self))),
          to: Template(literal: draft.level.match.spelling))
      } ?? RedirectRewrite(from: .text(Template(literal: url.base + "/")), to: Template(literal: "/"))
    if lines.isEmpty { return standard.map { [$0] } ?? [] }
    if lines.contains(where: { $0.arguments.count == 1 && $0.text(0) == "off" }) { return [] }
    return lines.compactMap { line in
      if line.arguments.count == 2 {
        return rewritePattern(line).map { RedirectRewrite(from: $0, to: template(line, 1)) }
      }
      guard line.text(0) == "default" else {
        error(line.place(0), "invalid parameter \"\(line.text(0))\"", hint: "default, off, or FROM TO")
        return nil
      }
      if standard == nil {
        error(
          line.location, "\"proxy_redirect default\" cannot be used with \"proxy_pass\" directive with variables",
          hint: "proxy_redirect off, or FROM TO")
      }
      return standard
    }
  }

  /// The first word of a line: text, or an expression after `~`. nil for an expression that `DefinedVariables` reported.
  private mutating func rewritePattern(_ line: Directive) -> RewritePattern? {
    guard let word = line.arguments.first, word.text.hasPrefix("~") else { return .text(template(line, 0)) }
    return variables.pattern(at: word).map { .regex($0, slots: variables.namedCaptures(of: $0)) }
  }

  mutating func cookieRewrites(_ scope: Scope) -> CookieRewriteSettings {
    CookieRewriteSettings(
      domains: cookieRules(scope, "proxy_cookie_domain"), paths: cookieRules(scope, "proxy_cookie_path"),
      flags: cookieFlags(scope))
  }

  private mutating func cookieRules(_ scope: Scope, _ name: String) -> [CookieRewriteSettings.Rule] {
    let lines = scope.list(name)
    if lines.contains(where: { $0.arguments.count == 1 && $0.text(0) == "off" }) { return [] }
    return lines.compactMap { line in
      guard line.arguments.count == 2 else {
        error(line.place(0), "invalid parameter \"\(line.text(0))\"", hint: "off, or FROM TO")
        return nil
      }
      return rewritePattern(line).map { CookieRewriteSettings.Rule(from: $0, to: cookieReplacement(line)) }
    }
  }

  /// As in nginx, a dot before a domain counts for nothing, and that of the upstream's attribute stays. What replaces a
  /// regular expression's match replaces all of it.
  private mutating func cookieReplacement(_ line: Directive) -> Template {
    let word = line.arguments[1]
    guard line.name == "proxy_cookie_domain", !line.text(0).hasPrefix("~"), word.text.hasPrefix(".") else {
      return template(word)
    }
    return template(Word(String(word.text.dropFirst()), at: word.location))
  }

  private mutating func cookieFlags(_ scope: Scope) -> [CookieRewriteSettings.FlagRule] {
    let lines = scope.list("proxy_cookie_flags")
    if lines.contains(where: { $0.arguments.count == 1 && $0.text(0) == "off" }) { return [] }
    return lines.compactMap { line in
      for word in line.arguments.dropFirst() where !word.text.contains("$") {
        guard CookieRewriteSettings.Flag(rawValue: word.text.lowercased()) == nil else { continue }
        error(
          word.location, "invalid parameter \"\(word.text)\"",
          hint: "one of \(CookieRewriteSettings.Flag.allCases.map(\.rawValue).joined(separator: ", "))")
      }
      let flags = line.arguments.dropFirst().map { template($0) }
      return rewritePattern(line).map { CookieRewriteSettings.FlagRule(name: $0, flags: flags) }
    }
  }
}

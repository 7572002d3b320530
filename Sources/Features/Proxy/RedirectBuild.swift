import Forward
import Language
import Observability
import Traffic

/// The regular expressions of `proxy_redirect` and `proxy_cookie_…`.
extension ProxyPass {
  // As in nginx, domains and names of cookies have no case; others have after `~`, and not after `~*`.
  static let definitions: [String: Definition] = [
    redirect.name: { define($0, hasCase: true, &$1) }, cookiePath.name: { define($0, hasCase: true, &$1) },
    cookieDomain.name: { define($0, hasCase: false, &$1) },
    cookieFlags.name: { define($0, hasCase: false, &$1) },
  ]

  private static func define(_ line: Directive, hasCase: Bool, _ defined: inout DefinedVariables) {
    guard let word = line.arguments.first, word.text.hasPrefix("~") else { return }
    let isCaseless = word.text.hasPrefix("~*")
    defined.compile(
      String(word.text.dropFirst(isCaseless ? 2 : 1)), at: word, caseless: isCaseless || !hasCase, what: line.name)
  }
}

/// `proxy_redirect` and `proxy_cookie_…`.
extension ProxyPass {
  static func redirectRewrites(_ draft: PassDraft, _ builder: inout SettingsBuilder) -> [RedirectRewrite] {
    if draft.dialect.callsMethods { return [] }
    let (url, lines) = (draft.url, redirect.lines(in: draft.scope))
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
        return rewritePattern(line, &builder).map { RedirectRewrite(from: $0, to: builder.template(line, 1)) }
      }
      guard line.text(0) == "default" else {
        builder.error(line.place(0), "invalid parameter \"\(line.text(0))\"", hint: "default, off, or FROM TO")
        return nil
      }
      if standard == nil {
        builder.error(
          line.location, "\"proxy_redirect default\" cannot be used with \"proxy_pass\" directive with variables",
          hint: "proxy_redirect off, or FROM TO")
      }
      return standard
    }
  }

  /// The first word of a line: text, or an expression after `~`. nil for an expression that `DefinedVariables` reported.
  private static func rewritePattern(_ line: Directive, _ builder: inout SettingsBuilder) -> RewritePattern? {
    guard let word = line.arguments.first, word.text.hasPrefix("~") else { return .text(builder.template(line, 0)) }
    return builder.variables.pattern(at: word).map { .regex($0, slots: builder.variables.namedCaptures(of: $0)) }
  }

  static func cookieRewrites(_ scope: Scope, _ builder: inout SettingsBuilder) -> CookieRewriteSettings {
    CookieRewriteSettings(
      domains: cookieRules(cookieDomain.lines(in: scope), &builder),
      paths: cookieRules(cookiePath.lines(in: scope), &builder),
      flags: cookieFlags(scope, &builder))
  }

  private static func cookieRules(
    _ lines: [Directive], _ builder: inout SettingsBuilder
  ) -> [CookieRewriteSettings.Rule] {
    if lines.contains(where: { $0.arguments.count == 1 && $0.text(0) == "off" }) { return [] }
    return lines.compactMap { line in
      guard line.arguments.count == 2 else {
        builder.error(line.place(0), "invalid parameter \"\(line.text(0))\"", hint: "off, or FROM TO")
        return nil
      }
      return rewritePattern(line, &builder).map {
        CookieRewriteSettings.Rule(from: $0, to: cookieReplacement(line, &builder))
      }
    }
  }

  /// As in nginx, a dot before a domain counts for nothing, and that of the upstream's attribute stays. What replaces a
  /// regular expression's match replaces all of it.
  private static func cookieReplacement(_ line: Directive, _ builder: inout SettingsBuilder) -> Template {
    let word = line.arguments[1]
    guard line.name == cookieDomain.name, !line.text(0).hasPrefix("~"), word.text.hasPrefix(".") else {
      return builder.template(word)
    }
    return builder.template(Word(String(word.text.dropFirst()), at: word.location))
  }

  private static func cookieFlags(
    _ scope: Scope, _ builder: inout SettingsBuilder
  ) -> [CookieRewriteSettings.FlagRule] {
    let lines = Self.cookieFlags.lines(in: scope)
    if lines.contains(where: { $0.arguments.count == 1 && $0.text(0) == "off" }) { return [] }
    return lines.compactMap { line in
      for word in line.arguments.dropFirst() where !word.text.contains("$") {
        guard CookieRewriteSettings.Flag(rawValue: word.text.lowercased()) == nil else { continue }
        builder.refuse(
          word, hint: "one of \(CookieRewriteSettings.Flag.allCases.map(\.rawValue).joined(separator: ", "))")
      }
      let flags = line.arguments.dropFirst().map { builder.template($0) }
      return rewritePattern(line, &builder).map { CookieRewriteSettings.FlagRule(name: $0, flags: flags) }
    }
  }
}

import Language

/// proxy_pass of `http` (nginx: ngx_http_proxy_module).
enum ProxyPass: UpstreamFeature, PassFeature {
  static let chapter = Chapter.proxy
  static let directives = proxyDirectives
  static let dialect = PassDialect(name: "HTTP", prefix: "proxy_")

  static func line(in scope: Scope) -> Directive? { scope.own("proxy_pass").first }

  static func pass(_ line: Directive, _ level: Level, _ builder: inout SettingsBuilder) -> UpstreamPass? {
    builder.passedURL(line, level, dialect).map { builder.pass(line, level, $0, dialect) }
  }

  static func judge(_ level: Level, _ builder: inout SettingsBuilder) {
    LostFieldsRule.judge(level, &builder)
    ChosenTargetRule.judge(level, &builder)
  }
}

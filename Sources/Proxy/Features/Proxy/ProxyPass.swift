import Language

extension UpstreamPass: ContentFeature {
  static let chapter = Chapter.proxy
  static let directives = proxyDirectives

  static func ownLine(in scope: Scope) -> Directive? { scope.own("proxy_pass").first }

  static func line(in scope: Scope) -> Directive? { ownLine(in: scope) ?? GRPC.line(in: scope) }

  /// Whether requests of the level itself go to an upstream.
  static func forwards(_ scope: Scope) -> Bool { line(in: scope) != nil }

  static let kinds: Set<TrafficKind> = [.http, .stream]

  static func judge(_ level: Level, _ builder: inout SettingsBuilder) {
    LostFieldsRule.judge(level, &builder)
    ChosenTargetRule.judge(level, &builder)
  }

  static func read(_ level: Level, _ builder: inout SettingsBuilder) -> UpstreamPass? {
    if level.isOfStream { return ownLine(in: level.scope).flatMap { builder.streamPass($0, level) } }
    if let line = GRPC.line(in: level.scope), let settings = builder.grpcPass(line, level) { return settings }
    return ownLine(in: level.scope).flatMap { builder.proxyPass($0, level) }
  }

  func compile(_ parts: inout LocationParts, _ makers: LiveMakers) {
    parts.content = CompiledPass(self, tokens: parts.settings.redirects.serverTokens, makers: makers)
  }
}

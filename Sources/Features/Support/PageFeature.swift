import Forward
import Language
import Traffic

/// A content that shows the process to everybody whom its server lets in.
protocol PageFeature: ContentFeature {
  init()
  /// What it serves, for the warning that nothing keeps clients out.
  static var subject: String { get }
}

extension PageFeature {
  static var chapter: Chapter { .http }
  static var isForOperators: Bool { true }

  static func judge(_ level: Level, _ builder: inout SettingsBuilder) {
    OpenPageRule.judge(line(in: level.scope), what: subject, level, &builder)
  }

  static func read(_ level: Level, _ builder: inout SettingsBuilder) -> Self? {
    guard let line = line(in: level.scope) else { return nil }
    builder.refuseSecondContent(at: line, level.scope)
    return Self()
  }

  var policy: [(label: String, text: String)] {
    [(Self.directives[0].name, "for every client that this server lets in")]
  }

  func words(_ http: HTTPSettings) -> String { "serves \(Self.directives[0].name)" }
}

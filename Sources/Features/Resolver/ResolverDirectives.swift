import Forward
import Language
import Traffic
import Upstream

/// How names are resolved while requests are served (nginx: core module).
enum NameResolution: PassFeature {
  static let chapter = Chapter.resolver
  static let kinds: Set<TrafficKind> = [.http, .stream]

  /// A wrong line is an error also where no upstream needs it.
  static func judge(_ level: Level, _ builder: inout SettingsBuilder) {
    _ = NameResolutionSettings.read(level.scope, &builder)
  }

  static func readPass(_ draft: inout PassDraft, _ builder: inout SettingsBuilder) {
    draft.target.nameResolution = NameResolutionSettings.read(draft.scope, &builder)
  }

  static let directives = NameResolutionSettings.directives
}

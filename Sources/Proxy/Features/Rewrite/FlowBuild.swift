import Observability
import Language

/// Builds what decides the way of a request through the phases: `satisfy` and others.
extension SettingsBuilder {
  mutating func flow(_ level: Level) -> FlowSettings {
    let scope = level.scope
    var flow = FlowSettings()
    flow.satisfy = scope.text("satisfy")?.lowercased() == "any" ? .any : .all
    flow.denialDelay = scope.milliseconds("auth_delay") ?? 0
    return flow
  }

}

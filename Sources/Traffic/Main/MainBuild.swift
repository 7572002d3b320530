import Observability
import Language

extension SettingsBuilder {
  /// Builds the settings of the main context and `events {}`.
  mutating func mainSettings(_ scope: Scope) -> MainSettings {
    var main = MainSettings()
    let events = Scope(scope.own("events").first?.block ?? [], outer: nil)
    main.workers = workerCount(scope.value("worker_processes"))
    if let user = scope.value("user") {
      main.user = user.text(0)
      main.group = user.arguments.count > 1 ? user.text(1) : nil
    }
    main.sandbox = scope.text("sandbox").flatMap { SandboxSettings(rawValue: $0) } ?? .on
    if let pid = scope.value("pid"), pid.text(0) != "off" {
      main.pidFile = resolve(pid.text(0), in: folder)
      main.pidFileLocation = pid.place(0)
    }
    main.openFiles = scope.number("worker_rlimit_nofile").map { UInt64($0) }
    main.coreSize = UInt64(clamping: scope.size("worker_rlimit_core") ?? 0)
    main.shutdownTimeout = scope.milliseconds("worker_shutdown_timeout") ?? 0
    main.workerConnections = events.number("worker_connections") ?? 512
    for feature in Features.all { feature.begin(scope, &main, &self) }
    return main
  }

  private mutating func workerCount(_ directive: Directive?) -> WorkerCount {
    guard let directive else { return .fixed(1) }
    if directive.text(0) == "auto" { return .auto }
    guard let count = Quantity.number(directive.text(0)), (1...1024).contains(count) else {
      refuse(directive, 0, hint: "it must be \"auto\" or a number from 1 to 1024")
      return .fixed(1)
    }
    return .fixed(count)
  }
}

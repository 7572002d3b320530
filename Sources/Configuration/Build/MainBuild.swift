import Glibc
import Observability
import Proxy

extension SettingsBuilder {
  /// The main context and `events {}`.
  mutating func mainSettings(_ scope: Scope) -> MainSettings {
    var main = MainSettings()
    let events = Scope(scope.own("events").first?.block ?? [], outer: nil)
    main.workers = workerCount(scope.value("worker_processes"))
    if let user = scope.value("user") {
      main.user = user.text(0)
      main.group = user.arguments.count > 1 ? user.text(1) : nil
    }
    if let pid = scope.text("pid"), pid != "off" { main.pidFile = resolve(pid, in: folder) }
    main.errorLogs = errorLogs(scope)
    main.openFiles = scope.number("worker_rlimit_nofile").map { UInt64($0) }
    main.shutdownTimeout = scope.milliseconds("worker_shutdown_timeout") ?? 0
    main.workerConnections = events.number("worker_connections") ?? 512
    main.cpuMasks = cpuMasks(scope.value("worker_cpu_affinity"))
    for line in scope.own("env") where line.text(0).contains("=") {
      error(
        line.place(0), "`env NAME=VALUE` is not supported yet",
        hint: "set it in the service manager; all variables of the environment are kept")
    }
    return main
  }

  private mutating func workerCount(_ directive: Directive?) -> WorkerCount {
    guard let directive else { return .fixed(1) }
    if directive.text(0) == "auto" { return .auto }
    guard let count = Quantity.number(directive.text(0)), (1...1024).contains(count) else {
      error(
        directive.place(0), "invalid value \"\(directive.text(0))\" in \"worker_processes\" directive",
        hint: "it must be \"auto\" or a number from 1 to 1024")
      return .fixed(1)
    }
    return .fixed(count)
  }

  /// `auto` gives each usable core a worker; a mask after it leaves out the cores that it does not name.
  private mutating func cpuMasks(_ directive: Directive?) -> [UInt64] {
    guard let directive else { return [] }
    let isAuto = directive.text(0) == "auto"
    var masks: [UInt64] = []
    for word in directive.arguments.dropFirst(isAuto ? 1 : 0) {
      guard (1...64).contains(word.text.utf8.count), let mask = UInt64(word.text, radix: 2), word.text.first != "+"
      else {
        error(
          word.location, "invalid CPU mask \"\(word.text)\" in \"worker_cpu_affinity\" directive",
          hint: "it must be \"auto\" or 1 to 64 binary digits, the last for CPU 0")
        return []
      }
      masks.append(mask)
    }
    guard isAuto else { return masks }
    let allowed = masks.first ?? UInt64.max
    let cores = max(1, min(64, sysconf(Int32(_SC_NPROCESSORS_ONLN))))
    return (0..<cores).map { UInt64(1) << UInt64($0) }.filter { $0 & allowed != 0 }
  }
}

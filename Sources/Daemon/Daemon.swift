import CLinux
import Configuration
import Dispatch
import Features
import Forward
import Glibc
package import Language
import Loading
package import Observability
import Systemd
import Traffic
import Transport

/// Runs the daemon, for `sallyport run` and `sallyport demo`.
package enum Daemon {
  /// Serves a configuration until a signal ends the process with exit status 0. If the start is refused, prints every
  /// reason to stderr and exits with the status of the cause (`Refusal.Cause.exitStatus`).
  ///
  /// Call this on the main thread, before other threads exist. `announced` runs once every socket listens.
  /// `wording`: says diagnostics in the words of the command that made the configuration.
  package static func run(
    _ source: ConfigurationSource, wording: @escaping @Sendable (Diagnostic) -> Diagnostic = { $0 },
    announced: @escaping @MainActor () -> Void = {}
  ) -> Never {
    Predecessor.detach()
    // Dispatch can't give its threads the priorities that it wants, and would say so in syslog for each. Nothing that it
    // logs concerns an operator.
    setenv("LIBDISPATCH_LOG", "NO", 0)
    // These signals have a meaning only while the daemon serves; before that they must not kill it.
    Signals.block([SIGHUP, SIGUSR1, SIGUSR2])
    signal(SIGPIPE, SIG_IGN)
    // As process 1, of a container, every orphan is a child of this process. The kernel forgets the ended ones at once then;
    // who waits for a child of its own learns that it has ended.
    if getpid() == 1 { signal(SIGCHLD, SIG_IGN) }
    Signals.endByFaults()
    let pause = ActivationPause()
    do throws(Refusal) {
      let start = try Start(source, wording: wording)
      // The supervisor writes them to the log, so the journal would have them twice.
      let reachJournal = start.preparation.settings.main.errorLogs.contains {
        $0.destination == .journal && $0.level <= .warn
      }
      if !(reachJournal && LogFile.isStandardErrorJournal) {
        print(start.diagnostics.filter { $0.severity == .warning }.map(wording))
      }
      let fleet = try fleet(start)
      MainActor.assumeIsolated { Supervisor(start, fleet: fleet, announced: announced).start() }
    } catch {
      print(error.diagnostics.filter { $0.severity != .notice }.map(wording))
      // systemd shows it, with the exit status, where the operator looks first.
      Notification.send(.status("Start refused, \(error.summary(wording))"))
      // Any other status has systemd wait before the next start.
      if case .configuration = error.cause { pause.ask() }
      exit(error.cause.exitStatus)
    }
    dispatchMain()
  }

  /// Prints diagnostics for people, on stderr.
  package static func print(_ diagnostics: [Diagnostic]) {
    for diagnostic in diagnostics {
      LogFile.tell("\(diagnostic)", level: diagnostic.isOutage ? 2 : diagnostic.severity.level)
    }
  }

  private static func fleet(_ start: Start) throws(Refusal) -> WorkerFleet {
    do throws(SocketError) {
      return try WorkerFleet(
        count: start.workers, connections: start.connections,
        wanted: start.preparation.settings.main.workerConnections, shared: start.shared)
    } catch {
      start.pidFile?.abandon()
      start.confinement.close()
      throw Refusal([Diagnostic(.error, at: nil, "the event loops can't be made: \(error)")], cause: .environment)
    }
  }
}

enum Signals {
  /// Lets a fault, and SIGABRT of systemd's watchdog, end the process at once.
  ///
  /// Swift's runtime catches these signals, to start `swift-backtrace`. The sandbox lets no program be started, and then the
  /// handler returns. A signal that another process has sent doesn't come again, so the process would stay, with its threads
  /// stopped. `worker_rlimit_core` is how an operator gets a picture of the fault.
  static func endByFaults() {
    // A sanitizer reports faults by its own handlers.
    guard linux_has_sanitizer() == 0 else { return }
    for number in [SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGFPE, SIGSYS] { signal(number, SIG_DFL) }
  }

  /// Blocks signals in this thread and the threads that it starts. Dispatch's signal sources still receive them.
  static func block(_ numbers: [Int32]) {
    var set = sigset_t()
    sigemptyset(&set)
    for number in numbers { sigaddset(&set, number) }
    pthread_sigmask(SIG_BLOCK, &set, nil)
  }
}

extension Diagnostic.Severity {
  /// As in syslog(3): LOG_ERR, LOG_WARNING, LOG_NOTICE.
  fileprivate var level: Int {
    switch self {
    case .error: 3
    case .warning: 4
    case .notice: 5
    }
  }
}

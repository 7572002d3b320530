import Configuration
import Dispatch
import Glibc
package import Observability
import Transport

/// The daemon as a whole: what `sallyport run` and `sallyport demo` do.
package enum Daemon {
  /// Serves what a configuration says until a signal ends it; then the exit status is 0. A start that is refused
  /// prints every reason to stderr and exits with 1.
  ///
  /// To be called on the main thread, before there are others. `announced` runs once everything listens.
  package static func run(configuration path: String, announced: @escaping @MainActor () -> Void = {}) -> Never {
    // They have a meaning only when we serve; before that they must not kill us.
    Signals.block([SIGHUP, SIGUSR1, SIGUSR2])
    signal(SIGPIPE, SIG_IGN)
    do throws(Refusal) {
      let start = try Start(path)
      print(start.diagnostics.filter { $0.severity == .warning })
      let fleet = try fleet(start)
      MainActor.assumeIsolated { Supervisor(start, fleet: fleet, announced: announced).start() }
    } catch {
      print(error.diagnostics.filter { $0.severity != .notice })
      exit(1)
    }
    dispatchMain()
  }

  /// Diagnostics for people, on stderr.
  package static func print(_ diagnostics: [Diagnostic]) {
    for diagnostic in diagnostics { LogFile.standardError.write(string: "\(diagnostic)\n") }
  }

  private static func fleet(_ start: Start) throws(Refusal) -> WorkerFleet {
    do throws(SocketError) {
      return try WorkerFleet(count: start.workers, connections: start.connections, shared: start.shared)
    } catch {
      start.pidFile?.abandon()
      throw Refusal([Diagnostic(.error, at: nil, "the event loops can't be made: \(error)")])
    }
  }
}

enum Signals {
  /// For this thread and those that it starts; Dispatch's sources get them all the same.
  static func block(_ numbers: [Int32]) {
    var set = sigset_t()
    sigemptyset(&set)
    for number in numbers { sigaddset(&set, number) }
    pthread_sigmask(SIG_BLOCK, &set, nil)
  }
}

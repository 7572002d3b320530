import ArgumentParser
import Daemon
import Glibc
import Observability

/// The process that runs a configuration, found as `sallyport health` finds it.
struct RunningProcess {
  let identifier: Int32
  /// What it said when it was found.
  let answer: HealthAnswer
  private let path: String

  /// Ends the command with status 1 if no process answers for the configuration.
  init(of file: ConfigurationFile) throws {
    path = file.likelyPath
    let report = Self.ask(path)
    guard let process = report.process, let answer = report.answer else {
      throw CommandFailure.told(report.facts.map(\.text).joined(separator: "; "))
    }
    (identifier, self.answer) = (process, answer)
  }

  /// What the process says that runs the configuration now: this one, or one that has taken its place.
  func ask() -> HealthReport { Self.ask(path) }

  private static func ask(_ path: String) -> HealthReport {
    HealthQuestion(HealthName.names(configuration: path), sought: path, within: 3, onlyLive: true).ask()
  }

  func signal(_ number: Int32) throws {
    guard kill(identifier, number) == 0 else {
      throw CommandFailure.told("kill(\(identifier)): \(String(cString: strerror(errno)))")
    }
  }

  var hasEnded: Bool { kill(identifier, 0) != 0 && errno == ESRCH }
}

enum CommandFailure {
  /// Tells why, and returns the exit status 1.
  static func told(_ text: String) -> ExitCode {
    LogFile.tell("error: \(text)", level: 3)
    return .failure
  }
}

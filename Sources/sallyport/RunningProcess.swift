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
  private let user: UInt32

  /// Ends the command with status 1 if no process answers for the configuration.
  init(of file: ConfigurationFile) throws {
    path = file.likelyPath
    let report = Self.ask(path)
    guard let process = report.process, let user = report.user, let answer = report.answer else {
      throw CommandFailure.told(report.facts.map(\.text).joined(separator: "; "))
    }
    (identifier, self.user, self.answer) = (process, user, answer)
  }

  /// What the process says that runs the configuration now: this one, or one that has taken its place.
  func ask() -> HealthReport { Self.ask(path) }

  private static func ask(_ path: String) -> HealthReport {
    HealthQuestion(HealthName.names(configuration: path), sought: path, within: 3, onlyLive: true).ask()
  }

  /// Root believes anybody's answer where nobody else gives one. The kernel tells who took the name, and this process may
  /// have left its number to another one since: root signals only one that is still of that user.
  func signal(_ number: Int32) throws {
    guard user == 0 || ProcessUser.of(identifier) == user else {
      throw CommandFailure.told("process \(identifier) is no longer of user \(user), who answers in its name")
    }
    guard kill(identifier, number) == 0 else {
      throw CommandFailure.told("kill(\(identifier)): \(String(cString: strerror(errno)))")
    }
  }

  /// Also true of a process whose parent hasn't taken note of its end yet.
  var hasEnded: Bool {
    if kill(identifier, 0) != 0 && errno == ESRCH { return true }
    return ProcessUser.isZombie(identifier)
  }
}

enum CommandFailure {
  /// Tells why, and returns the exit status 1.
  static func told(_ text: String) -> ExitCode {
    LogFile.tell("error: \(text)", level: 3)
    return .failure
  }
}

import Foundation
import Glibc
import Testing

/// What processor time tests spend in processes that they start: a run end to end takes as long as these need. Each process
/// that ended is a line of the file that SALLYPORT_TEST_TIMES names: milliseconds, test, command.
enum ChildTimes {
  private static let file: Int32? = ProcessInfo.processInfo.environment["SALLYPORT_TEST_TIMES"].flatMap { path in
    let descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
    return descriptor < 0 ? nil : descriptor
  }

  /// The source file and the name of the test that asks.
  static var currentTest: String {
    guard file != nil, let test = Test.current else { return "-" }
    return "\(test.sourceLocation.fileName) \(test.displayName ?? test.name)"
  }

  static func note(_ used: rusage, of command: String, for test: String) {
    guard let file else { return }
    let milliseconds =
      (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000 + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1000
    let line = Array("\(milliseconds)\t\(test)\t\(command)\n".utf8)
    _ = write(file, line, line.count)
  }
}

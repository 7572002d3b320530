import Configuration
import Features
import Forward
package import Observability
package import Traffic

/// The opened logs of a configuration. Opening creates missing files, so it happens before privileges are dropped.
package struct OpenLogs {
  package private(set) var errorLog = ErrorLog([])
  package private(set) var errorLogs: [[ErrorLogSettings]: ErrorLog] = [:]
  package private(set) var accessLogs: [AccessLogDestination: AccessLog] = [:]
  /// The files of features that write them by themselves, by path.
  package private(set) var files: [String: LogFile] = [:]
  package private(set) var diagnostics: [Diagnostic] = []

  /// The default of `error_log`: stderr.
  static let standard = [ErrorLogSettings(destination: .stderr, level: .error)]

  /// Those that a generation of the same configuration has open.
  init(of generation: Generation) {
    errorLog = generation.errorLog
    errorLogs = generation.errorLogs
    accessLogs = generation.accessLogs
    files = generation.logFiles
  }

  package init(_ main: [ErrorLogSettings], _ http: HTTPSettings, in files: LogFiles) {
    errorLog = open(main.isEmpty ? Self.standard : main, in: files)
    errorLogs[main] = errorLog
    errorLogs[[]] = errorLog
    for log in http.features.all.flatMap({ $0.logFiles(http) }) where self.files[log.path] == nil {
      do throws(LogDestinationError) { self.files[log.path] = try files.file(log.path, isRead: true) } catch {
        report(error, at: log.location)
      }
    }
    var buffering: [AccessLogDestination: LogBuffering] = [:]
    for (_, location) in http.everyLocation {
      for line in location.accessLogs where line.buffering != nil { buffering[line.destination] = line.buffering }
    }
    for (_, location) in http.everyLocation {
      if errorLogs[location.errorLogs] == nil {
        errorLogs[location.errorLogs] = open(location.errorLogs, in: files)
      }
      for line in location.accessLogs where accessLogs[line.destination] == nil {
        do throws(LogDestinationError) {
          accessLogs[line.destination] = try files.accessLog(
            for: line.destination, buffering[line.destination] ?? .standard)
        } catch {
          report(error, at: line.location)
        }
      }
    }
  }

  private mutating func open(_ settings: [ErrorLogSettings], in files: LogFiles) -> ErrorLog {
    let log = ErrorLog(
      settings.compactMap { one in
        do throws(LogDestinationError) {
          return ErrorLogSink(level: one.level, handler: try files.handler(for: one.destination))
        } catch {
          report(error, at: one.location)
          return nil
        }
      }, errors: files.errors)
    files.levels.follow(log)
    return log
  }

  /// Reports each log once, however many locations name it.
  private mutating func report(_ error: LogDestinationError, at place: SourceLocation?) {
    let diagnostic = Diagnostic(.error, at: place, error.message)
    if !diagnostics.contains(where: { $0.message == diagnostic.message }) { diagnostics.append(diagnostic) }
  }
}

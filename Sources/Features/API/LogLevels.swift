import Observability
import Traffic
import Transport

/// Ends the level that the API has given error logs, once its time is over.
final class LogLevelEnd: WorkerPart {
  override func tick(now: UInt64) {
    // One worker is enough.
    guard worker.loop.index == 0, let log = worker.live?.generation.errorLog else { return }
    _ = worker.metrics.process.logLevels?.end {
      $0.rest() == 0
    } _: {
      log.notice("api: error logs take what error_log says again: the time that \($0.asker) asked for is over")
    }
  }
}

extension Exchange {
  func beginLogLevel(_ override: LogLevelOverride) {
    worker.metrics.process.logLevels?.begin(override)
    let time = DurationWords.of(seconds: Int64(clamping: override.rest()))
    tellOfLogLevel("error logs take the level \(override.level.name) for \(time), as \(override.asker) asked")
  }

  /// Returns false if there is nothing to end.
  func endLogLevel() -> Bool {
    worker.metrics.process.logLevels?.end {
      _ in
      true
    } _: { override in
      tellOfLogLevel("error logs take what error_log says again, as \(asker) asked")
    } ?? false
  }

  /// In the log of the main context, which has the end as well.
  private func tellOfLogLevel(_ words: String) {
    session.live.generation.errorLog.notice("api: \(words)")
    worker.shared.apiDidChange(words, by: asker)
  }
}

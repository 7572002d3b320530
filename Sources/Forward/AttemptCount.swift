import Observability
import Traffic
import Upstream

/// Counts the attempts that end without a response, or without the rest of it. An attempt whose head came was counted
/// with its status, and one of `stream` when its connection was open.
enum AttemptCount {
  /// No session could be begun. `server`: the one that was to be tried.
  static func unopened(_ failure: AttemptFailure, _ server: Int?, _ group: UpstreamGroup) {
    guard let meter = group.meter else { return }
    guard let result = AttemptMeter.Result(failure), let server else { return meter.exhausted.add(at: 0) }
    meter.server(server)?.didEnd(result)
  }

  /// The handshake failed, or the server was refused.
  static func judged(_ record: AttemptRecord, _ group: UpstreamGroup?, _ counters: WorkerCounters) {
    counters.upstreams.count(record.trust)
    guard let meter = group?.meter, let server = record.server else { return }
    meter.server(server)?.didJudge(record.trust)
  }

  /// `stream`: nil if `unopened` has counted the attempt.
  static func failed(_ stream: UpstreamStream?, _ failure: AttemptFailure, _ record: AttemptRecord?) {
    guard let meter = stream?.session.meter, let record else { return }
    if record.isCounted { return meter.didTruncate() }
    if let result = AttemptMeter.Result(failure) { meter.didEnd(result) }
  }

  static func abandoned(_ stream: UpstreamStream, _ record: AttemptRecord?) {
    guard let meter = stream.session.meter, let record, !record.isCounted else { return }
    meter.didEnd(.abandoned)
  }
}

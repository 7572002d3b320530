import Observability
import Synchronization
import TLS
import Traffic
import Transport

/// What all workers have counted of one server block's candidate since it was loaded.
final class CandidateTally: Sendable {
  /// The last client on which the trusts differed.
  struct Last: Sendable {
    let difference: CandidateDifference
    let client: String
    let reason: String
  }

  /// Of the candidate that is counted: another one begins at 0.
  let digest: [UInt8]
  private let same = Atomic<UInt64>(0), refused = Atomic<UInt64>(0), admitted = Atomic<UInt64>(0)
  private let latest = Mutex<Last?>(nil)

  init(_ digest: [UInt8]) { self.digest = digest }

  /// Counts a client on which the trusts agree.
  func count() { same.wrappingAdd(1, ordering: .relaxed) }

  func count(_ difference: CandidateDifference, _ client: String, _ reason: String) {
    switch difference {
    case .same: return count()
    case .wouldRefuse: refused.wrappingAdd(1, ordering: .relaxed)
    case .wouldAdmit: admitted.wrappingAdd(1, ordering: .relaxed)
    }
    latest.withLock { last in
      // Who would be locked out is more urgent.
      if difference == .wouldAdmit, last?.difference == .wouldRefuse { return }
      last = Last(difference: difference, client: client, reason: reason)
    }
  }

  var counts: [(difference: CandidateDifference, count: UInt64)] {
    [
      (.same, same.load(ordering: .relaxed)), (.wouldRefuse, refused.load(ordering: .relaxed)),
      (.wouldAdmit, admitted.load(ordering: .relaxed)),
    ]
  }
  var last: Last? { latest.withLock { $0 } }
}

/// The tallies of all candidates of the configuration, and the log's folding of their differences.
final class CandidateCounts: SharedPart {
  let log = CrowdLog<CandidateDifference>(.refusals)
  private let tallies = Mutex<[ServerSeries: CandidateTally]>([:])

  init(_ shared: SharedState) {}

  /// The tally of a server block's candidate. A reload that leaves the candidate as it is goes on counting.
  func tally(of server: ServerSeries, _ digest: [UInt8]) -> CandidateTally {
    tallies.withLock { tallies in
      if let known = tallies[server], known.digest == digest { return known }
      let fresh = CandidateTally(digest)
      tallies[server] = fresh
      return fresh
    }
  }

  func serve(_ generation: Generation) {
    let servers = generation.http.servers.indices.filter { generation.serverContexts[$0]?.candidate != nil }
    let kept = Set(servers.map { ServerSeries($0, of: generation.http) })
    tallies.withLock { tallies in tallies = tallies.filter { kept.contains($0.key) } }
  }

  var all: [(server: ServerSeries, tally: CandidateTally)] {
    tallies.withLock { $0.sorted { $0.key < $1.key } }.map { ($0.key, $0.value) }
  }
}

/// Tells of the lines that were folded: one worker does it for all.
final class CandidateSummary: WorkerPart {
  override func tick(now: UInt64) { tell(now: now, isLast: false) }
  override func flush() { tell(now: worker.loop.now, isLast: true) }

  private func tell(now: UInt64, isLast: Bool) {
    guard worker.loop.index == 0, let log = worker.live?.generation.errorLog,
      let summary = worker.shared[CandidateCounts.self].log.due(now: now, isLast: isLast)
    else { return }
    log.log(.info, "more clients were judged otherwise by a candidate trust: \(summary.words)")
  }
}

extension TrustCandidate {
  static func measure(_ snapshot: MetricsSnapshot, _ page: inout MetricsWriter) {
    let all = snapshot.shared[CandidateCounts.self].all
    if all.isEmpty { return }
    let name = "sallyport_client_candidate_total"
    page[.clients].family(
      name, .counter, "Clients that a candidate trust has judged, by how it differs from the trust that decides.")
    for (server, tally) in all {
      for (difference, count) in tally.counts {
        page[.clients].sample(
          name, ["server": server.server, "listen": server.listen, "result": difference.rawValue], count)
      }
    }
  }

  static func problems(_ shared: SharedState, _ generation: Generation, at now: Int64) -> [StatusProblem] {
    shared[CandidateCounts.self].all.compactMap { server, tally in
      guard let last = tally.last else { return nil }
      let words = tally.counts.filter { $0.difference != .same && $0.count > 0 }.map {
        "\($0.difference == .wouldRefuse ? "refuse" : "let in") \($0.count) more"
      }
      return StatusProblem(
        .certificates, .warning,
        "The candidate trust of server \(server.server.isEmpty ? server.listen : server.server) would "
          + "\(words.joined(separator: " and ")), last \(last.client): \(last.reason)")
    }
  }
}

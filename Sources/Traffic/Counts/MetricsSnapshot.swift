import Crypto
import Glibc
package import Observability
import TLS
import Transport
package import Upstream

/// What the process counts and knows at one moment, over all workers: the source of `metrics` and of `status`.
package struct MetricsSnapshot {
  /// A server of a group: what was counted of it, and what its health checks say.
  package struct UpstreamServer {
    package var series: UpstreamSeries
    package var totals: AttemptTotals
    /// nil: no health check concerns it.
    package var isUp: Bool?
  }

  /// A certificate that is loaded: shown to the other side, or trusted.
  package struct LoadedCertificate: Hashable {
    package enum Use: String { case shown, trusted }
    package var side: CertificateSide
    package var use: Use
    /// The server block that shows it; empty for another use.
    package var server: String
    package var subject: String
  }

  package enum CertificateSide: String { case client, upstream }

  package struct LoadedList: Hashable {
    package var side: CertificateSide
    package var issuer: String
  }

  package var now = Int64(time(nil))
  package let shared: SharedState
  package var generation: Generation
  package var traffic: TrafficTotals
  package var servers: [(series: ServerSeries, totals: RequestTotals)] = []
  /// Those of `stream`.
  package var streams: [(series: ServerSeries, totals: SessionTotals)] = []
  package var upstreams: [UpstreamServer] = []
  /// By group: requests for which no server could be tried.
  package var exhausted: [(upstream: GroupName, count: UInt64)] = []
  /// The earliest end of those that have the same names. An end that can't be read is left out.
  package var certificates: [(certificate: LoadedCertificate, begin: Int64, end: Int64)] = []
  /// The certificates that upstreams are shown although they are not for clients, by subject.
  package var presentedForServers: [String] = []
  package var notices: [CertificateNotices.Count] = []
  /// `isInForce`: wherever a list of this CA counts, one has begun and has not ended. Otherwise everybody of the CA is
  /// refused there.
  package var lists: [(list: LoadedList, update: Int64, end: Int64?, isInForce: Bool)] = []
  package var workers: [WorkerCounters]
  package var reloads: ReloadHistory
  package var startedAt: Int64
  /// Seconds since the start.
  package var age: Int64
  package var figures: ProcessFigures
  /// Of revocation lists, by URL.
  package var fetches: [(url: String, history: FetchHistory)] = []
  /// What goes on being wrong.
  package var ongoing: [OngoingFaults.Fault] = []
  /// The last line of an error log at `error` or above, and how many there were; nil: there was none.
  package var lastError: (entry: RecentErrors.Entry, total: UInt64)?
  /// What was counted within the last ten minutes.
  package var history: CountHistory
  /// The machine's name; empty if the kernel doesn't tell.
  package var host = Self.hostName
  /// How whoever started the process named the configuration.
  package var configuration: String
  package var files = WatchedFiles()
  /// By log: all that are in use, and those that have lost lines.
  package var lostLines: [(log: String, count: UInt64)] = []
  /// What requests to the API have changed.
  package var overrides: RuntimeOverrides
}

extension MetricsSnapshot {
  package init(_ metrics: Metrics, _ shared: SharedState, _ generation: Generation, _ overrides: RuntimeOverrides) {
    self.shared = shared
    self.generation = generation
    self.overrides = overrides
    history = metrics.history
    configuration = metrics.process.configuration
    lastError = metrics.process.errors?.last
    workers = metrics.all.sorted { $0.index < $1.index }
    traffic = metrics.traffic.totals
    reloads = metrics.process.reloads
    startedAt = metrics.process.startedAt
    age = metrics.process.age
    figures = metrics.process.figures
    fetches = metrics.process.fetches.map { ($0.key, $0.value) }.sorted { $0.0 < $1.0 }
    ongoing = shared.ongoing.current + metrics.process.losingLogs
    files = metrics.process.files
    let tables = workers.map { worker in worker.withMeters { $0 } }
    let requests = Set(tables.flatMap(\.requests.keys)).sorted()
    servers = requests.map { series in
      var totals = RequestTotals()
      for table in tables { table.requests[series]?.add(to: &totals) }
      return (series, totals)
    }
    let sessions = Set(tables.flatMap(\.sessions.keys)).sorted()
    streams = sessions.map { series in
      var totals = SessionTotals()
      for table in tables { table.sessions[series]?.add(to: &totals) }
      return (series, totals)
    }
    let isUp = shared.features.all.reduce(into: [:]) { $0.merge($1.serversUp(generation)) { $0 && $1 } }
    let attempts = Set(tables.flatMap(\.attempts.keys)).union(isUp.keys).sorted()
    upstreams = attempts.map { series in
      var totals = AttemptTotals()
      for table in tables { table.attempts[series]?.add(to: &totals) }
      return UpstreamServer(series: series, totals: totals, isUp: isUp[series])
    }
    exhausted = Set(tables.flatMap(\.exhausted.keys)).sorted().map { upstream in
      (upstream, tables.reduce(UInt64(0)) { $0 &+ ($1.exhausted[upstream]?.value(at: 0) ?? 0) })
    }
    notices = metrics.notices.all
    takeCertificates()
    takeLists()
    lostLines = Self.lostLines(metrics, generation)
  }

  private static var hostName: String {
    var name = [CChar](repeating: 0, count: 256)
    guard gethostname(&name, name.count - 1) == 0 else { return "" }
    return String(decoding: name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  private mutating func takeCertificates() {
    var lives: [LoadedCertificate: (begin: Int64, end: Int64)] = [:]
    func note(_ certificate: Certificate, _ side: CertificateSide, _ use: LoadedCertificate.Use, server: String = "") {
      guard let end = certificate.notAfter.seconds else { return }
      let key = LoadedCertificate(side: side, use: use, server: server, subject: certificate.subject.rfc2253)
      if let other = lives[key], other.end <= end { return }
      lives[key] = (certificate.notBefore.seconds ?? end, end)
    }
    for (server, context) in zip(generation.http.servers, generation.serverContexts) {
      for certificate in context?.certificates ?? [] { note(certificate, .client, .shown, server: server.primaryName) }
      for certificate in context?.authorities ?? [] { note(certificate, .client, .trusted) }
    }
    for context in generation.upstreamContexts.values {
      if let certificate = context.certificate { note(certificate, .upstream, .shown) }
      for certificate in context.authorities { note(certificate, .upstream, .trusted) }
    }
    let presented = generation.upstreamContexts.values.compactMap(\.certificate).filter { !$0.allowsClients }
    presentedForServers = Set(presented.map(\.subject.rfc2253)).sorted()
    certificates = lives.map { ($0.key, $0.value.begin, $0.value.end) }
      .sorted {
        ($0.end, $0.certificate.subject, $0.certificate.server) < (
          $1.end, $1.certificate.subject, $1.certificate.server
        )
      }
  }

  private mutating func takeLists() {
    var found: [LoadedList: (update: Int64, end: Int64?, isInForce: Bool)] = [:]
    func note(_ lists: [RevocationList], _ side: CertificateSide) {
      for (issuer, lists) in Dictionary(grouping: lists, by: \.issuer) {
        let key = LoadedList(side: side, issuer: issuer), former = found[key]
        let ends = lists.map(\.nextUpdate) + [former?.end], updates = lists.map(\.thisUpdate) + [former?.update ?? .max]
        found[key] = (
          updates.min() ?? .max, ends.compactMap { $0 }.min(),
          former?.isInForce != false && lists.contains { $0.isInForce(at: now) }
        )
      }
    }
    for context in generation.serverContexts.compactMap({ $0 }) { note(context.revocations, .client) }
    for context in generation.upstreamContexts.values { note(context.revocations, .upstream) }
    lists = found.map { ($0.key, $0.value.update, $0.value.end, $0.value.isInForce) }
      .sorted { ($0.list.side.rawValue, $0.list.issuer) < ($1.list.side.rawValue, $1.list.issuer) }
  }

  private static func lostLines(_ metrics: Metrics, _ generation: Generation) -> [(log: String, count: UInt64)] {
    let used =
      generation.accessLogs.keys.map(\.shownName)
      + generation.errorLogs.keys.flatMap { $0.map(\.destination.shownName) }
    let names = Dictionary(used.map { ($0, UInt64(0)) }, uniquingKeysWith: { first, _ in first })
    // A file that two logs name is one log.
    return names.merging(metrics.process.lostLines) { $1 }.map { (log: $0.key, count: $0.value) }.sorted {
      $0.log < $1.log
    }
  }
}

extension AccessLogDestination {
  /// As a label names it.
  fileprivate var shownName: String {
    switch self {
    case .fixed(let destination): destination.shownName
    case .folder(let settings): settings.text
    }
  }
}

extension LogDestination {
  /// As a label names it.
  fileprivate var shownName: String {
    switch self {
    case .stderr: "stderr"
    case .file(let path): path
    case .syslog(let settings):
      switch settings.server {
      case .unix(let path): "syslog:server=unix:\(path)"
      case .udp(let host, let port): "syslog:server=\(host):\(port)"
      }
    case .journal: "journal"
    }
  }
}

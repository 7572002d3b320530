import Bytes
import Forward
import Language
import Observability
import Traffic

/// limit_conn (nginx: ngx_http_limit_conn_module): how many requests of one key may be in progress.
///
/// The folder is the whole feature: the directives and what they set here, what happens to a request in `ConnectionLimit`,
/// and the counts of a zone in `ConnectionCounts`.
struct LimitConn: FeatureSettings, LocationFeature, APIFeature {
  /// One line. `count`: how many exchanges of one key may be in progress, 1 to 65,535.
  struct Line: Sendable, Hashable {
    var zone: LimitZoneSettings
    var count: Int
  }

  var lines: [Line] = []
  var response = LimitResponseSettings()

  // MARK: Directives

  static let chapter = Chapter.limits
  static let kinds: Set<TrafficKind> = [.http, .stream]

  static var apiObjects: [any APIObjects] {
    let absent = APIFault(status: 404, code: "LimitConnNotFound", text: "limit_conn not found")
    return [TrafficKind.http, .stream].map {
      LimitObjects(name: "limit_conns", kind: $0, hasRate: false, absent: absent)
    }
  }

  private static let name = "limit_conn"
  private static let httpLevels = DirectiveContexts.everyHTTP
  private static let levels = httpLevels.union(.everyStream)

  private static let zone = DirectiveEntry.local(
    "limit_conn_zone", [.http, .stream], .words(2...4, "KEY zone=NAME:SIZE [store=NAME [fail=open|closed|local]]"),
    "A zone for `limit_conn`. All workers share it, and a reload keeps it. If no further key fits, the request is"
      + " refused. With `store`, all machines with this `shared_store` count together; while it can't be asked, this"
      + " process counts (`fail=local`), or requests pass (`open`), or are refused (`closed`).", repeatable: true,
    example: "limit_conn_zone $binary_remote_addr zone=z:10m;", trust: .told)

  static let rows: [Row<LimitConn>] = [
    Row(zone),
    .lines(
      name, levels, .words(2...2, "ZONE NUMBER"),
      "The number of requests with one value of the zone's key that may be in progress. Each stream of HTTP/2 counts,"
        + " until the client has taken the response.", example: "limit_conn c 10;", trust: .told
    ) { $0.lines = lines($1, &$2) },
    .flag(
      "limit_conn_dry_run", levels, \.response.isDryRun,
      "Counts and logs the requests that `limit_conn` limits, and passes them.", example: "limit_conn_dry_run on;"),
    .number(
      "limit_conn_status", httpLevels, 400...599, \.response.status,
      "The status of a request that `limit_conn` refuses.",
      example: "limit_conn_status 429;"),
    .choice(
      "limit_conn_log_level", levels, LimitResponseSettings.levels, \.response.level,
      "The level of a refusal's line in the error log.", example: "limit_conn_log_level warn;"),
  ]

  static let variables = [
    FeatureVariable(
      ofBoth: "limit_conn_status",
      "What `limit_conn` made of the request: `PASSED`, `REJECTED` or `REJECTED_DRY_RUN`."
    ) { transaction, output in
      if let verdict = transaction.states.known(ConnectionLimitState.self)?.verdict { output.append(verdict.name) }
    }
  ]

  static func begin(_ http: Scope, _ builder: inout SettingsBuilder) {
    for line in zone.lines(in: http) {
      LimitZone.add(line, hasRate: false, &builder)
      builder[LoggedMembers.self].add(name, "\(name)_status")
    }
  }

  var isInEffect: Bool { !lines.isEmpty }

  private static func lines(_ written: [Directive], _ builder: inout SettingsBuilder) -> [Line] {
    var lines: [Line] = []
    for line in written {
      guard let limit = Self.line(line, &builder) else { continue }
      if lines.contains(where: { $0.zone.name == limit.zone.name }) {
        builder.error(
          line.location, "\"limit_conn\" directive is duplicate for zone \"\(limit.zone.name)\"", hint: "write it once")
        continue
      }
      lines.append(limit)
    }
    return lines
  }

  private static func line(_ line: Directive, _ builder: inout SettingsBuilder) -> Line? {
    guard let word = line.arguments.first,
      let zone = LimitZone.named(word.text, at: word, of: name, hasRate: false, &builder)
    else { return nil }
    guard let count = Quantity.number(line.text(1)), count > 0 else {
      builder.error(line.place(1), "invalid number of connections \"\(line.text(1))\"", hint: "1 to 65535")
      return nil
    }
    guard count <= 65_535 else {
      builder.error(line.place(1), "connection limit must be less 65536", hint: "1 to 65535")
      return nil
    }
    return Line(zone: zone.settings, count: count)
  }

  // MARK: Effect

  func compile(_ parts: inout LocationParts, _ makers: LiveMakers) {
    parts.steps.add(
      preaccess: ConnectionLimit(self, makers.shared[ConnectionZones.self], makers[LiveStores.self]))
  }

  var ways: LocationWays {
    response.ways(
      lines.map { "at most \($0.count) at a time for each \($0.zone.key.asWritten) (\(Self.name) \($0.zone.name))" })
  }

  static func measure(_ snapshot: MetricsSnapshot, _ page: inout MetricsWriter) {
    LimitZoneCounts.measure(
      snapshot, hasRate: false, "sallyport_limit_conn_requests_total",
      "Requests and sessions of stream that limit_conn has judged, by zone and by what became of them there.", &page)
  }

  static func problems(_ shared: SharedState, _ generation: Generation, at now: Int64) -> [StatusProblem] {
    LimitZoneCounts.problems(shared, generation, name, hasRate: false)
  }

  static func compare(_ old: Self?, _ new: Self?, _ names: ComparedNames, _ found: inout TrustChanges) {
    let before = Dictionary((old?.lines ?? []).map { ($0.zone.name, $0) }, uniquingKeysWith: { first, _ in first })
    let after = Dictionary((new?.lines ?? []).map { ($0.zone.name, $0) }, uniquingKeysWith: { first, _ in first })
    for name in Set(before.keys).union(after.keys).sorted() {
      found.limit(
        "the number of \(names.things) at a time by limit_conn of zone \(name)", before[name]?.count, after[name]?.count
      )
      StoreUse.compare(
        "the counts of limit_conn of zone \(name)", before[name]?.zone.store, after[name]?.zone.store, &found)
      if let one = before[name], let other = after[name],
        one.zone.key.text(names.old) != other.zone.key.text(names.new)
      {
        found.other(
          "limit_conn of zone \(name) counts for each \(other.zone.key.text(names.new)) (was \(one.zone.key.text(names.old)))"
        )
      }
    }
    LimitResponseSettings.compare(name, old?.response, new?.response, &found)
  }
}

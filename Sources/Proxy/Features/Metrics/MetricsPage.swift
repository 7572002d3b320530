import Crypto
import HTTP
import Observability
import SPIFFE
import TLS
import Transport
import Upstream

/// The page of `metrics`: a snapshot in Prometheus' text format.
///
/// The names, the labels and the values of the labels come from this program, from the configuration and from CAs that it
/// names, never from a client, so that no client can add series.
struct MetricsPage {
  private var page = PrometheusText()

  static func text(_ snapshot: MetricsSnapshot) -> String {
    var page = MetricsPage()
    page.process(snapshot)
    page.connections(snapshot)
    page.requests(snapshot.servers)
    page.sessions(snapshot.streams)
    page.clients(snapshot.workers)
    page.upstreams(snapshot)
    page.attempts(snapshot.upstreams)
    page.health(snapshot.generation.health)
    page.overrides(snapshot.overrides)
    page.certificates(snapshot)
    page.warnings(snapshot)
    page.notices(snapshot.notices)
    page.lists(snapshot)
    page.renewals(snapshot.renewals)
    page.ongoing(snapshot.ongoing)
    if let spans = snapshot.spans { page.spans(spans.counts) }
    page.stores(snapshot)
    page.gauge(
      "sallyport_spiffe_faults", "Parts of the SPIFFE agent's last message that are not in effect.", [:],
      Int64(snapshot.workload?.material?.faults.count ?? 0))
    if let workload = snapshot.workload { page.workload(workload) }
    return page.page.text
  }

  // MARK: The process

  private mutating func process(_ snapshot: MetricsSnapshot) {
    gauge("sallyport_build_info", "The version that runs.", ["version": "\(Product.version)"], 1)
    gauge(
      "sallyport_generation", "Configurations brought to life since the start; a reload counts one.", [:],
      Int64(snapshot.generation.number))
    reloads(snapshot.reloads)
    files(snapshot.files)
    gauge("process_start_time_seconds", "When the process started, in seconds since 1970.", [:], snapshot.startedAt)
    let figures = snapshot.figures
    if let time = figures.cpuTime {
      page.family("process_cpu_seconds_total", .counter, "CPU time of all threads.")
      page.seconds("process_cpu_seconds_total", [:], milliseconds: UInt64(clamping: time))
    }
    if let bytes = figures.residentMemory {
      gauge("process_resident_memory_bytes", "Memory of the process in RAM.", [:], bytes)
    }
    if let count = figures.openDescriptors { gauge("process_open_fds", "Open descriptors.", [:], count) }
    if let limit = figures.descriptorLimit { gauge("process_max_fds", "The limit of open descriptors.", [:], limit) }
    page.family(
      "sallyport_loop_lag_seconds", .histogram, "How late the event loop of a worker was, measured once a second.")
    for worker in snapshot.workers {
      page.histogram("sallyport_loop_lag_seconds", ["worker": "\(worker.index)"], worker.lag.times)
    }
    page.family(
      "sallyport_loop_lag_worst_seconds", .gauge, "The greatest lag of a worker's loop within the last minutes.")
    for worker in snapshot.workers {
      page.seconds(
        "sallyport_loop_lag_worst_seconds", ["worker": "\(worker.index)"], milliseconds: worker.lag.worst)
    }
    page.family(
      "sallyport_log_lost_lines_total", .counter, "Lines that a log couldn't take, by access log or error log.")
    for (log, count) in snapshot.lostLines {
      page.sample("sallyport_log_lost_lines_total", ["log": log], count)
    }
  }

  private mutating func files(_ files: WatchedFiles) {
    let stale = Set(files.stale.filter { $0.state == .changed }.flatMap(\.paths))
    let closed = Set(files.forbidden + files.stale.filter { $0.state == .unread }.flatMap(\.paths))
    page.family(
      "sallyport_file_stale", .gauge,
      "1 for a file that changed and can't be loaded: what it says now is not in effect.")
    let all = Set(files.paths).union(stale).union(closed).sorted()
    for path in all { page.sample("sallyport_file_stale", ["file": path], (stale.contains(path) ? 1 : 0) as Int64) }
    page.family(
      "sallyport_file_unreadable", .gauge,
      "1 for a file that the process may not read or can't read again: its changes have no effect.")
    for path in all {
      page.sample("sallyport_file_unreadable", ["file": path], (closed.contains(path) ? 1 : 0) as Int64)
    }
  }

  private mutating func reloads(_ reloads: ReloadHistory) {
    page.family("sallyport_reloads_total", .counter, "Reloads, by what asked for them and by their result.")
    for kind in ReloadKind.allCases {
      for result in ReloadResult.allCases {
        page.sample(
          "sallyport_reloads_total", ["kind": kind.rawValue, "result": result.rawValue], reloads.count(kind, result))
      }
    }
    gauge(
      "sallyport_reload_last_successful", "1 unless the last reload was refused.", [:], reloads.refusal == nil ? 1 : 0)
    gauge(
      "sallyport_reload_last_success_timestamp_seconds", "When what serves now was loaded.", [:], reloads.loadedAt)
  }

  // MARK: Clients

  private mutating func connections(_ snapshot: MetricsSnapshot) {
    let traffic = snapshot.traffic
    counter("sallyport_client_connections_accepted_total", "Connections of clients.", [:], traffic.accepted)
    counter(
      "sallyport_client_connections_handled_total",
      "Connections that got a place; the others found worker_connections used up.", [:], traffic.handled)
    page.family("sallyport_client_connections", .gauge, "Open connections of clients, by what they do.")
    for state in ClientState.allCases {
      page.sample("sallyport_client_connections", ["state": state.label], traffic.states[state.rawValue])
    }
    gauge(
      "sallyport_requests_in_progress", "Requests without a complete response.", [:], Int64(clamping: traffic.writing))
  }

  private mutating func requests(_ servers: [(series: ServerSeries, totals: RequestTotals)]) {
    page.family("sallyport_requests_total", .counter, "Requests, by server block and class of the status.")
    for (series, totals) in servers {
      for (place, code) in RequestMeter.classes.enumerated() {
        page.sample(
          "sallyport_requests_total", ["server": series.server, "listen": series.listen, "code": code],
          totals.classes[place])
      }
    }
    page.family(
      "sallyport_request_duration_seconds", .histogram,
      "From the first byte of a request to the end of its response; tunnels are left out.")
    for (series, totals) in servers {
      page.histogram(
        "sallyport_request_duration_seconds", ["server": series.server, "listen": series.listen], totals.times)
    }
    page.family("sallyport_request_bytes_total", .counter, "Bytes of request heads and bodies.")
    for (series, totals) in servers {
      page.sample(
        "sallyport_request_bytes_total", ["server": series.server, "listen": series.listen], totals.received)
    }
    page.family("sallyport_response_bytes_total", .counter, "Bytes of response heads and bodies.")
    for (series, totals) in servers {
      page.sample("sallyport_response_bytes_total", ["server": series.server, "listen": series.listen], totals.sent)
    }
  }

  private mutating func sessions(_ servers: [(series: ServerSeries, totals: SessionTotals)]) {
    guard !servers.isEmpty else { return }
    page.family(
      "sallyport_stream_connections_total", .counter,
      "Connections of stream that have ended, by server block and by how they ended.")
    for (series, totals) in servers {
      for (place, result) in SessionResult.allCases.enumerated() {
        page.sample(
          "sallyport_stream_connections_total",
          ["server": series.server, "listen": series.listen, "result": result.rawValue], totals.results[place])
      }
    }
    each(
      servers, "sallyport_stream_connections_open", .gauge,
      "Open connections of stream by server block, those in their handshake included."
    ) { $0.open }
    each(
      servers, "sallyport_stream_received_bytes_total", .counter,
      "Bytes from clients of stream, without TLS; those of open connections are counted each second."
    ) { $0.received }
    each(
      servers, "sallyport_stream_sent_bytes_total", .counter,
      "Bytes to clients of stream, without TLS; those of open connections are counted each second."
    ) { $0.sent }
    page.family(
      "sallyport_stream_connection_duration_seconds", .histogram,
      "From the begin of a connection of stream to its end.")
    for (series, totals) in servers {
      page.histogram(
        "sallyport_stream_connection_duration_seconds", ["server": series.server, "listen": series.listen],
        totals.times)
    }
  }

  private mutating func each(
    _ servers: [(series: ServerSeries, totals: SessionTotals)], _ name: String, _ kind: PrometheusText.Kind,
    _ help: String, _ value: (SessionTotals) -> UInt64
  ) {
    page.family(name, kind, help)
    for (series, totals) in servers {
      page.sample(name, ["server": series.server, "listen": series.listen], value(totals))
    }
  }

  private mutating func clients(_ workers: [WorkerCounters]) {
    page.tally(
      "sallyport_client_handshakes_total", "Handshakes of clients, by how the certificate was judged.",
      label: "verdict", workers.map(\.clients))
    page.tally(
      "sallyport_client_handshake_failures_total", "Handshakes of clients that did not complete, by cause.",
      label: "cause", workers.map(\.handshakeCauses))
    page.tally(
      "sallyport_client_certificate_refusals_total",
      "Handshakes in which a client showed a certificate that did not verify, by what was wrong with it.",
      label: "reason", workers.map(\.certificateFaults))
    page.tally(
      "sallyport_client_sessions_total", "Handshakes of clients that completed, in full or by a resumed session.",
      label: "kind", workers.map(\.sessions))
    keyExchanges("client", "clients", workers.map(\.keyExchanges))
    page.tally(
      "sallyport_client_refusals_total", "Requests refused for who the client is.", label: "reason",
      workers.map(\.refusals))
    page.tally(
      "sallyport_client_requests_cut_total",
      "Requests in progress that were cut because their client is refused by now: after a reload, or because its certificate or a revocation list has ended (ssl_revoked_connections).",
      label: "reason", workers.map(\.revoked))
    page.tally(
      "sallyport_upstream_requests_untrusted_total",
      "Requests in progress whose upstream is not trusted any more (proxy_ssl_revoked_connections).",
      label: "reason", workers.map(\.revokedUpstreams))
    page.tally(
      "sallyport_client_reports_total", "Requests let in whose client would be refused (ssl_verify_report_only).",
      label: "reason", workers.map(\.reports))
    page.tally(
      "sallyport_http2_limits_total", "Connections and streams of HTTP/2 that ended at a limit.", label: "limit",
      workers.map(\.http2))
    page.tally(
      "sallyport_limits_total", "What sallyport did because of a limit.", label: "event", workers.map(\.limits))
  }

  private mutating func keyExchanges(_ side: String, _ people: String, _ counters: [Counter<KeyExchange>]) {
    let name = "sallyport_\(side)_key_exchanges_total"
    page.family(name, .counter, "Handshakes with \(people) that completed, by the group of the key exchange.")
    for (place, group) in KeyExchange.allCases.enumerated() {
      page.sample(
        name, ["group": group.rawValue, "post_quantum": group.isPostQuantum ? "yes" : "no"],
        counters.reduce(UInt64(0)) { $0 &+ $1.all[place].count })
    }
  }

  // MARK: Upstreams

  private mutating func upstreams(_ snapshot: MetricsSnapshot) {
    page.tally(
      "sallyport_upstream_handshakes_total", "Handshakes with upstreams, by the result of trust.", label: "result",
      snapshot.workers.map(\.upstreams))
    page.tally(
      "sallyport_upstream_sessions_total", "Handshakes with upstreams that completed, in full or by a resumed session.",
      label: "kind", snapshot.workers.map(\.upstreamSessions))
    keyExchanges("upstream", "upstreams", snapshot.workers.map(\.upstreamKeyExchanges))
    page.family(
      "sallyport_upstream_exhausted_total", .counter, "Requests for which no server of the group could be tried.")
    for (upstream, count) in snapshot.exhausted {
      page.sample("sallyport_upstream_exhausted_total", upstream.labels, count)
    }
  }

  private mutating func attempts(_ servers: [MetricsSnapshot.UpstreamServer]) {
    page.family(
      "sallyport_upstream_attempts_total", .counter,
      "Attempts at a server, by the class of the status or by why there was no response; in stream connected, if the server took the connection."
    )
    for server in servers {
      for (place, result) in AttemptMeter.Result.allCases.enumerated() {
        page.sample(
          "sallyport_upstream_attempts_total",
          server.series.labels(result: result.rawValue),
          server.totals.results[place])
      }
    }
    page.family(
      "sallyport_upstream_trust_faults_total", .counter,
      "Handshakes for requests in which a server's certificate was not what the configuration demands.")
    for server in servers {
      for (place, result) in AttemptMeter.trustFaults.enumerated() {
        page.sample(
          "sallyport_upstream_trust_faults_total",
          server.series.labels(result: result.rawValue),
          server.totals.trustFaults[place])
      }
    }
    page.family(
      "sallyport_upstream_response_head_seconds", .histogram,
      "From the begin of an attempt to the head of its response, a new connection included; in stream to the open connection."
    )
    for server in servers {
      page.histogram(
        "sallyport_upstream_response_head_seconds",
        server.series.labels(), server.totals.times)
    }
    each(
      servers, "sallyport_upstream_truncated_responses_total", .counter,
      "Responses that broke off after their head, and connections of stream that the server broke off."
    ) {
      $0.truncated
    }
    each(servers, "sallyport_upstream_connections_opened_total", .counter, "Connections begun to a server.") {
      $0.opened
    }
    each(servers, "sallyport_upstream_connections_kept", .gauge, "Idle connections to a server, sampled each second.") {
      $0.idle
    }
    each(servers, "sallyport_upstream_connections_in_use", .gauge, "Connections with an attempt, sampled each second.")
    {
      $0.open > $0.idle ? $0.open - $0.idle : 0
    }
    each(
      servers, "sallyport_upstream_server_available", .gauge,
      "0 after max_fails failures in a worker, until fail_timeout passes or the server responds; sampled each second."
    ) { $0.isUnavailable ? 0 : 1 }
  }

  private mutating func each(
    _ servers: [MetricsSnapshot.UpstreamServer], _ name: String, _ kind: PrometheusText.Kind, _ help: String,
    _ value: (AttemptTotals) -> UInt64
  ) {
    page.family(name, kind, help)
    for server in servers {
      page.sample(
        name, server.series.labels(), value(server.totals))
    }
  }

  /// A group has a bounded number of servers. The certificates that are denied have no series of their own.
  private mutating func overrides(_ overrides: RuntimeOverrides) {
    page.family(
      "sallyport_upstream_server_override", .gauge,
      "What requests to the API have set of a server: a number, seconds, or 1 for yes and 0 for no.")
    for server in overrides.servers {
      page.sample(
        "sallyport_upstream_server_override",
        ["upstream": server.upstream, "server": server.server, "setting": server.change], server.value)
    }
    gauge(
      "sallyport_client_denials", "Clients' certificates that the API denies for a time.", [:],
      Int64(overrides.denials.count))
  }

  /// Each checked server once, however many checks concern it; nothing without checks.
  private mutating func health(_ records: HealthRecords) {
    let servers = records.byServer.map { server, checks in
      (
        server: server, checks: checks,
        series: UpstreamSeries(upstream: server.group, server: server.address.description)
      )
    }.sorted { $0.series < $1.series }
    guard !servers.isEmpty else { return }
    page.family("sallyport_upstream_server_up", .gauge, "Whether a server is up by its health checks.")
    for (_, checks, series) in servers {
      page.sample(
        "sallyport_upstream_server_up", series.labels(), Int64(checks.allSatisfy(\.isUp) ? 1 : 0))
    }
    page.family("sallyport_upstream_health_checks_total", .counter, "Health checks of a server, by their result.")
    for (server, _, series) in servers {
      for result in ServerHealth.Result.allCases {
        page.sample(
          "sallyport_upstream_health_checks_total",
          series.labels(result: result.rawValue),
          records.count(result, of: server))
      }
    }
  }

  // MARK: The SPIFFE agent

  private mutating func workload(_ state: WorkloadIdentity.State) {
    gauge(
      "sallyport_spiffe_up", "1 while the SPIFFE agent's stream is open and its last message is in use.", [:],
      state.condition == .current ? 1 : 0)
    counter("sallyport_spiffe_messages_total", "Messages of the SPIFFE agent that were used.", [:], state.taken)
    counter("sallyport_spiffe_messages_refused_total", "Messages of the SPIFFE agent with a fault.", [:], state.refused)
    counter(
      "sallyport_spiffe_stream_failures_total", "Streams from the SPIFFE agent that failed or could not begin.", [:],
      state.failures)
    page.family(
      "sallyport_spiffe_identity_end_timestamp_seconds", .gauge, "When an identity of the SPIFFE agent ends.")
    for svid in state.material?.svids ?? [] {
      page.sample("sallyport_spiffe_identity_end_timestamp_seconds", ["id": svid.id.description], svid.end)
    }
    page.family("sallyport_spiffe_bundle_authorities", .gauge, "Authorities of a trust domain.")
    for (domain, bundle) in (state.material?.bundles ?? [:]).sorted(by: { $0.key < $1.key }) {
      page.sample(
        "sallyport_spiffe_bundle_authorities", ["trust_domain": domain.name], Int64(bundle.authorities.count))
    }
  }

  // MARK: Ages

  private mutating func certificates(_ snapshot: MetricsSnapshot) {
    page.family(
      "sallyport_certificate_end_timestamp_seconds", .gauge,
      "When a loaded certificate ends: one that is shown to clients or upstreams, or one that is trusted.")
    for (certificate, _, end) in snapshot.certificates {
      page.sample(
        "sallyport_certificate_end_timestamp_seconds",
        [
          "side": certificate.side.rawValue, "use": certificate.use.rawValue, "server": certificate.server,
          "subject": certificate.subject,
        ], end)
    }
  }

  private mutating func warnings(_ snapshot: MetricsSnapshot) {
    page.family(
      "sallyport_certificate_warning_timestamp_seconds", .gauge,
      "From when a loaded certificate is told of as one that ends soon (ssl_expiry_warning).")
    let notice = snapshot.generation.http.expiryNotice
    for (certificate, begin, end) in snapshot.certificates {
      page.sample(
        "sallyport_certificate_warning_timestamp_seconds",
        [
          "side": certificate.side.rawValue, "use": certificate.use.rawValue, "server": certificate.server,
          "subject": certificate.subject,
        ], notice.start(from: begin, to: end))
    }
  }

  /// Nothing as long as no such client has come.
  private mutating func notices(_ notices: [CertificateNotices.Count]) {
    guard !notices.isEmpty else { return }
    page.family(
      "sallyport_client_certificate_notices_total", .counter,
      "Full handshakes of clients whose certificate ends soon or is not for clients, by its issuer.")
    for one in notices {
      page.sample(
        "sallyport_client_certificate_notices_total", ["notice": one.notice.rawValue, "issuer": one.issuer], one.count)
    }
  }

  private mutating func stores(_ snapshot: MetricsSnapshot) {
    guard !snapshot.stores.isEmpty else { return }
    page.family("sallyport_shared_store_connections", .gauge, "Connections to a shared store that are ready.")
    for (store, _, counts) in snapshot.stores {
      page.sample("sallyport_shared_store_connections", ["store": store], UInt64(clamping: counts.ready))
    }
    page.family("sallyport_shared_store_commands_total", .counter, "What a shared store was asked, by its answer.")
    for (store, _, counts) in snapshot.stores {
      for (result, count) in [
        ("answered", counts.answered), ("refused", counts.refused), ("unanswered", counts.unanswered),
      ] {
        page.sample("sallyport_shared_store_commands_total", ["store": store, "result": result], count)
      }
    }
  }

  /// How many there are of each kind. What they are is on the status page.
  private mutating func ongoing(_ faults: [OngoingFaults.Fault]) {
    page.family(
      "sallyport_ongoing_faults", .gauge,
      "Things that go on being wrong, by kind: the status page and health name them.")
    for kind in OngoingFaults.Kind.allCases {
      page.sample("sallyport_ongoing_faults", ["kind": kind.rawValue], Int64(faults.count { $0.kind == kind }))
    }
  }

  private mutating func spans(_ counts: SpanExporter.Counts) {
    page.family("sallyport_otel_spans_total", .counter, "Spans, by what became of them.")
    for (result, count) in [("sent", counts.sent), ("dropped", counts.dropped)] {
      page.sample("sallyport_otel_spans_total", ["result": result], count)
    }
    page.family(
      "sallyport_otel_failures", .gauge, "Requests to the collector that failed since the last one that did not.")
    page.sample("sallyport_otel_failures", [:], UInt64(counts.failures))
  }

  /// Certificates of ACME. Why an attempt failed is on the status page and in the log: a server's text is no label.
  private mutating func renewals(_ renewals: [ACMERenewalState]) {
    guard !renewals.isEmpty else { return }
    let families: [(name: String, help: String, value: (ACMERenewalState) -> Int64)] = [
      (
        "sallyport_acme_certificate_end_timestamp_seconds",
        "When a certificate of acme_certificate ends; 0 while there is none.", { $0.notAfter ?? 0 }
      ),
      (
        "sallyport_acme_next_try_timestamp_seconds", "When the next attempt to renew it is due, as far as it is known.",
        { $0.nextTry }
      ),
      (
        "sallyport_acme_failures", "Attempts that failed since the last one that did not.", { Int64($0.failures) }
      ),
    ]
    for family in families {
      page.family(family.name, .gauge, family.help)
      for renewal in renewals {
        page.sample(family.name, ["issuer": renewal.issuer, "names": renewal.names], family.value(renewal))
      }
    }
  }

  private mutating func lists(_ snapshot: MetricsSnapshot) {
    page.family("sallyport_crl_update_timestamp_seconds", .gauge, "When a revocation list was made.")
    for (list, update, _, _) in snapshot.lists {
      page.sample(
        "sallyport_crl_update_timestamp_seconds", ["side": list.side.rawValue, "issuer": list.issuer], update)
    }
    page.family(
      "sallyport_crl_end_timestamp_seconds", .gauge,
      "When a revocation list ends: from then on everybody of its CA is refused.")
    for (list, _, end, _) in snapshot.lists {
      guard let end else { continue }
      page.sample("sallyport_crl_end_timestamp_seconds", ["side": list.side.rawValue, "issuer": list.issuer], end)
    }
    page.family(
      "sallyport_crl_in_force", .gauge,
      "0 while everybody of the CA is refused: by this machine's clock, its list has ended or has not begun.")
    for (list, _, _, isInForce) in snapshot.lists {
      page.sample(
        "sallyport_crl_in_force", ["side": list.side.rawValue, "issuer": list.issuer], (isInForce ? 1 : 0) as Int64)
    }
    guard !snapshot.fetches.isEmpty else { return }
    page.family("sallyport_crl_fetches_total", .counter, "Requests for revocation lists, by URL and by their result.")
    for (url, history) in snapshot.fetches {
      for result in FetchResult.allCases {
        page.sample(
          "sallyport_crl_fetches_total", ["url": url, "result": result.rawValue], history.counts[result] ?? 0)
      }
    }
    page.family(
      "sallyport_crl_fetch_last_success_timestamp_seconds", .gauge,
      "When a URL last gave a revocation list; 0 if it has given none since the start.")
    for (url, history) in snapshot.fetches {
      page.sample("sallyport_crl_fetch_last_success_timestamp_seconds", ["url": url], history.succeededAt ?? 0)
    }
  }

  private mutating func gauge(
    _ name: String, _ help: String, _ labels: KeyValuePairs<String, String>, _ value: Int64
  ) {
    page.family(name, .gauge, help)
    page.sample(name, labels, value)
  }

  private mutating func counter(
    _ name: String, _ help: String, _ labels: KeyValuePairs<String, String>, _ value: UInt64
  ) {
    page.family(name, .counter, help)
    page.sample(name, labels, value)
  }
}

extension GroupName {
  /// A group of `http` has no `block`.
  fileprivate var labels: KeyValuePairs<String, String> {
    isOfStream ? ["upstream": text, "block": "stream"] : ["upstream": text]
  }
}

extension UpstreamSeries {
  fileprivate func labels() -> KeyValuePairs<String, String> {
    upstream.isOfStream
      ? ["upstream": upstream.text, "server": server, "block": "stream"]
      : ["upstream": upstream.text, "server": server]
  }

  fileprivate func labels(result: String) -> KeyValuePairs<String, String> {
    upstream.isOfStream
      ? ["upstream": upstream.text, "server": server, "result": result, "block": "stream"]
      : ["upstream": upstream.text, "server": server, "result": result]
  }
}

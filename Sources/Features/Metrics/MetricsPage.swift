import Crypto
import Forward
import Observability
import TLS
import Traffic
import Transport
import Upstream

/// The page of `metrics`: a snapshot in Prometheus' text format.
///
/// The names, the labels and the values of the labels come from this program, from the configuration and from CAs that it
/// names, never from a client, so that no client can add series.
enum MetricsPage {
  static func text(_ snapshot: MetricsSnapshot) -> String {
    var page = MetricsWriter()
    page[.process].process(snapshot)
    page[.clients].connections(snapshot)
    page[.clients].requests(snapshot.servers)
    page[.clients].sessions(snapshot.streams)
    page[.clients].clients(snapshot.workers)
    page[.upstreams].upstreams(snapshot)
    page[.upstreams].attempts(snapshot.upstreams)
    page[.certificates].certificates(snapshot)
    page[.certificates].warnings(snapshot)
    page[.certificates].notices(snapshot.notices)
    page[.certificates].lists(snapshot)
    page[.faults].ongoing(snapshot.ongoing)
    for feature in snapshot.shared.features.all { feature.measure(snapshot, &page) }
    return page.text
  }
}

extension PrometheusText {
  // MARK: The process

  fileprivate mutating func process(_ snapshot: MetricsSnapshot) {
    gauge("sallyport_build_info", "The version that runs.", ["version": "\(Product.version)"], 1)
    gauge(
      "sallyport_generation", "Configurations brought to life since the start; a reload counts one.", [:],
      Int64(snapshot.generation.number))
    reloads(snapshot.reloads)
    files(snapshot.files)
    gauge("process_start_time_seconds", "When the process started, in seconds since 1970.", [:], snapshot.startedAt)
    let figures = snapshot.figures
    if let time = figures.cpuTime {
      family("process_cpu_seconds_total", .counter, "CPU time of all threads.")
      seconds("process_cpu_seconds_total", [:], milliseconds: UInt64(clamping: time))
    }
    if let bytes = figures.residentMemory {
      gauge("process_resident_memory_bytes", "Memory of the process in RAM.", [:], bytes)
    }
    if let count = figures.openDescriptors { gauge("process_open_fds", "Open descriptors.", [:], count) }
    if let limit = figures.descriptorLimit { gauge("process_max_fds", "The limit of open descriptors.", [:], limit) }
    family(
      "sallyport_loop_lag_seconds", .histogram, "How late the event loop of a worker was, measured once a second.")
    for worker in snapshot.workers {
      histogram("sallyport_loop_lag_seconds", ["worker": "\(worker.index)"], worker.lag.times)
    }
    family(
      "sallyport_loop_lag_worst_seconds", .gauge, "The greatest lag of a worker's loop within the last minutes.")
    for worker in snapshot.workers {
      seconds(
        "sallyport_loop_lag_worst_seconds", ["worker": "\(worker.index)"], milliseconds: worker.lag.worst)
    }
    family(
      "sallyport_log_lost_lines_total", .counter, "Lines that a log couldn't take, by access log or error log.")
    for (log, count) in snapshot.lostLines {
      sample("sallyport_log_lost_lines_total", ["log": log], count)
    }
  }

  fileprivate mutating func files(_ files: WatchedFiles) {
    let stale = Set(files.stale.filter { $0.state == .changed }.flatMap(\.paths))
    let closed = Set(files.forbidden + files.stale.filter { $0.state == .unread }.flatMap(\.paths))
    family(
      "sallyport_file_stale", .gauge,
      "1 for a file that changed and can't be loaded: what it says now is not in effect.")
    let all = Set(files.paths).union(stale).union(closed).sorted()
    for path in all { sample("sallyport_file_stale", ["file": path], (stale.contains(path) ? 1 : 0) as Int64) }
    family(
      "sallyport_file_unreadable", .gauge,
      "1 for a file that the process may not read or can't read again: its changes have no effect.")
    for path in all {
      sample("sallyport_file_unreadable", ["file": path], (closed.contains(path) ? 1 : 0) as Int64)
    }
  }

  fileprivate mutating func reloads(_ reloads: ReloadHistory) {
    family("sallyport_reloads_total", .counter, "Reloads, by what asked for them and by their result.")
    for kind in ReloadKind.allCases {
      for result in ReloadResult.allCases {
        sample(
          "sallyport_reloads_total", ["kind": kind.rawValue, "result": result.rawValue], reloads.count(kind, result))
      }
    }
    gauge(
      "sallyport_reload_last_successful", "1 unless the last reload was refused.", [:], reloads.refusal == nil ? 1 : 0)
    gauge(
      "sallyport_reload_last_success_timestamp_seconds", "When what serves now was loaded.", [:], reloads.loadedAt)
  }

  // MARK: Clients

  fileprivate mutating func connections(_ snapshot: MetricsSnapshot) {
    let traffic = snapshot.traffic
    counter("sallyport_client_connections_accepted_total", "Connections of clients.", [:], traffic.accepted)
    counter(
      "sallyport_client_connections_handled_total",
      "Connections that got a place; the others found worker_connections used up.", [:], traffic.handled)
    family("sallyport_client_connections", .gauge, "Open connections of clients, by what they do.")
    for state in ClientState.allCases {
      sample("sallyport_client_connections", ["state": state.label], traffic.states[state.rawValue])
    }
    gauge(
      "sallyport_requests_in_progress", "Requests without a complete response.", [:], Int64(clamping: traffic.writing))
  }

  fileprivate mutating func requests(_ servers: [(series: ServerSeries, totals: RequestTotals)]) {
    family("sallyport_requests_total", .counter, "Requests, by server block and class of the status.")
    for (series, totals) in servers {
      for (place, code) in RequestMeter.classes.enumerated() {
        sample(
          "sallyport_requests_total", ["server": series.server, "listen": series.listen, "code": code],
          totals.classes[place])
      }
    }
    family(
      "sallyport_request_duration_seconds", .histogram,
      "From the first byte of a request to the end of its response; tunnels are left out.")
    for (series, totals) in servers {
      histogram(
        "sallyport_request_duration_seconds", ["server": series.server, "listen": series.listen], totals.times)
    }
    family("sallyport_request_bytes_total", .counter, "Bytes of request heads and bodies.")
    for (series, totals) in servers {
      sample(
        "sallyport_request_bytes_total", ["server": series.server, "listen": series.listen], totals.received)
    }
    family("sallyport_response_bytes_total", .counter, "Bytes of response heads and bodies.")
    for (series, totals) in servers {
      sample("sallyport_response_bytes_total", ["server": series.server, "listen": series.listen], totals.sent)
    }
  }

  fileprivate mutating func sessions(_ servers: [(series: ServerSeries, totals: SessionTotals)]) {
    guard !servers.isEmpty else { return }
    family(
      "sallyport_stream_connections_total", .counter,
      "Connections of stream that have ended, by server block and by how they ended.")
    for (series, totals) in servers {
      for (place, result) in SessionResult.allCases.enumerated() {
        sample(
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
    family(
      "sallyport_stream_connection_duration_seconds", .histogram,
      "From the begin of a connection of stream to its end.")
    for (series, totals) in servers {
      histogram(
        "sallyport_stream_connection_duration_seconds", ["server": series.server, "listen": series.listen],
        totals.times)
    }
  }

  fileprivate mutating func each(
    _ servers: [(series: ServerSeries, totals: SessionTotals)], _ name: String, _ kind: PrometheusText.Kind,
    _ help: String, _ value: (SessionTotals) -> UInt64
  ) {
    family(name, kind, help)
    for (series, totals) in servers {
      sample(name, ["server": series.server, "listen": series.listen], value(totals))
    }
  }

  fileprivate mutating func clients(_ workers: [WorkerCounters]) {
    tally(
      "sallyport_client_handshakes_total", "Handshakes of clients, by how the certificate was judged.",
      label: "verdict", workers.map(\.clients))
    tally(
      "sallyport_client_handshake_failures_total", "Handshakes of clients that did not complete, by cause.",
      label: "cause", workers.map(\.handshakeCauses))
    tally(
      "sallyport_client_certificate_refusals_total",
      "Handshakes in which a client showed a certificate that did not verify, by what was wrong with it.",
      label: "reason", workers.map(\.certificateFaults))
    tally(
      "sallyport_client_sessions_total", "Handshakes of clients that completed, in full or by a resumed session.",
      label: "kind", workers.map(\.sessions))
    keyExchanges("client", "clients", workers.map(\.keyExchanges))
    tally(
      "sallyport_client_refusals_total", "Requests refused for who the client is.", label: "reason",
      workers.map(\.refusals))
    tally(
      "sallyport_client_requests_cut_total",
      "Requests in progress that were cut because their client is refused by now: after a reload, or because its certificate or a revocation list has ended (ssl_revoked_connections).",
      label: "reason", workers.map(\.revoked))
    tally(
      "sallyport_upstream_requests_untrusted_total",
      "Requests in progress whose upstream is not trusted any more (proxy_ssl_revoked_connections).",
      label: "reason", workers.map(\.revokedUpstreams))
    tally(
      "sallyport_client_reports_total", "Requests let in whose client would be refused (ssl_verify_report_only).",
      label: "reason", workers.map(\.reports))
    tally(
      "sallyport_http2_limits_total", "Connections and streams of HTTP/2 that ended at a limit.", label: "limit",
      workers.map(\.http2))
    tally(
      "sallyport_limits_total", "What sallyport did because of a limit.", label: "event", workers.map(\.limits))
  }

  fileprivate mutating func keyExchanges(_ side: String, _ people: String, _ counters: [Counter<KeyExchange>]) {
    let name = "sallyport_\(side)_key_exchanges_total"
    family(name, .counter, "Handshakes with \(people) that completed, by the group of the key exchange.")
    for (place, group) in KeyExchange.allCases.enumerated() {
      sample(
        name, ["group": group.rawValue, "post_quantum": group.isPostQuantum ? "yes" : "no"],
        counters.reduce(UInt64(0)) { $0 &+ $1.all[place].count })
    }
  }

  // MARK: Upstreams

  fileprivate mutating func upstreams(_ snapshot: MetricsSnapshot) {
    tally(
      "sallyport_upstream_handshakes_total", "Handshakes with upstreams, by the result of trust.", label: "result",
      snapshot.workers.map(\.upstreams))
    tally(
      "sallyport_upstream_sessions_total", "Handshakes with upstreams that completed, in full or by a resumed session.",
      label: "kind", snapshot.workers.map(\.upstreamSessions))
    keyExchanges("upstream", "upstreams", snapshot.workers.map(\.upstreamKeyExchanges))
    family(
      "sallyport_upstream_exhausted_total", .counter, "Requests for which no server of the group could be tried.")
    for (upstream, count) in snapshot.exhausted {
      sample("sallyport_upstream_exhausted_total", upstream.labels, count)
    }
  }

  fileprivate mutating func attempts(_ servers: [MetricsSnapshot.UpstreamServer]) {
    family(
      "sallyport_upstream_attempts_total", .counter,
      "Attempts at a server, by the class of the status or by why there was no response; in stream connected, if the server took the connection."
    )
    for server in servers {
      for (place, result) in AttemptMeter.Result.allCases.enumerated() {
        sample(
          "sallyport_upstream_attempts_total",
          server.series.labels(result: result.rawValue),
          server.totals.results[place])
      }
    }
    family(
      "sallyport_upstream_trust_faults_total", .counter,
      "Handshakes for requests in which a server's certificate was not what the configuration demands.")
    for server in servers {
      for (place, result) in AttemptMeter.trustFaults.enumerated() {
        sample(
          "sallyport_upstream_trust_faults_total",
          server.series.labels(result: result.rawValue),
          server.totals.trustFaults[place])
      }
    }
    family(
      "sallyport_upstream_response_head_seconds", .histogram,
      "From the begin of an attempt to the head of its response, a new connection included; in stream to the open connection."
    )
    for server in servers {
      histogram(
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

  fileprivate mutating func each(
    _ servers: [MetricsSnapshot.UpstreamServer], _ name: String, _ kind: PrometheusText.Kind, _ help: String,
    _ value: (AttemptTotals) -> UInt64
  ) {
    family(name, kind, help)
    for server in servers {
      sample(
        name, server.series.labels(), value(server.totals))
    }
  }

  // MARK: Ages

  fileprivate mutating func certificates(_ snapshot: MetricsSnapshot) {
    family(
      "sallyport_certificate_end_timestamp_seconds", .gauge,
      "When a loaded certificate ends: one that is shown to clients or upstreams, or one that is trusted.")
    for (certificate, _, end) in snapshot.certificates {
      sample(
        "sallyport_certificate_end_timestamp_seconds",
        [
          "side": certificate.side.rawValue, "use": certificate.use.rawValue, "server": certificate.server,
          "subject": certificate.subject,
        ], end)
    }
  }

  fileprivate mutating func warnings(_ snapshot: MetricsSnapshot) {
    family(
      "sallyport_certificate_warning_timestamp_seconds", .gauge,
      "From when a loaded certificate is told of as one that ends soon (ssl_expiry_warning).")
    let notice = snapshot.generation.http.clientLimits.expiryNotice
    for (certificate, begin, end) in snapshot.certificates {
      sample(
        "sallyport_certificate_warning_timestamp_seconds",
        [
          "side": certificate.side.rawValue, "use": certificate.use.rawValue, "server": certificate.server,
          "subject": certificate.subject,
        ], notice.start(from: begin, to: end))
    }
  }

  /// Nothing as long as no such client has come.
  fileprivate mutating func notices(_ notices: [CertificateNotices.Count]) {
    guard !notices.isEmpty else { return }
    family(
      "sallyport_client_certificate_notices_total", .counter,
      "Full handshakes of clients whose certificate ends soon or is not for clients, by its issuer.")
    for one in notices {
      sample(
        "sallyport_client_certificate_notices_total", ["notice": one.notice.rawValue, "issuer": one.issuer], one.count)
    }
  }

  /// How many there are of each kind. What they are is on the status
  fileprivate mutating func ongoing(_ faults: [OngoingFaults.Fault]) {
    family(
      "sallyport_ongoing_faults", .gauge,
      "Things that go on being wrong, by kind: the status page and health name them.")
    for kind in OngoingFaults.Kind.allCases {
      sample("sallyport_ongoing_faults", ["kind": kind.rawValue], Int64(faults.count { $0.kind == kind }))
    }
  }

  fileprivate mutating func lists(_ snapshot: MetricsSnapshot) {
    family("sallyport_crl_update_timestamp_seconds", .gauge, "When a revocation list was made.")
    for (list, update, _, _) in snapshot.lists {
      sample(
        "sallyport_crl_update_timestamp_seconds", ["side": list.side.rawValue, "issuer": list.issuer], update)
    }
    family(
      "sallyport_crl_end_timestamp_seconds", .gauge,
      "When a revocation list ends: from then on everybody of its CA is refused.")
    for (list, _, end, _) in snapshot.lists {
      guard let end else { continue }
      sample("sallyport_crl_end_timestamp_seconds", ["side": list.side.rawValue, "issuer": list.issuer], end)
    }
    family(
      "sallyport_crl_in_force", .gauge,
      "0 while everybody of the CA is refused: by this machine's clock, its list has ended or has not begun.")
    for (list, _, _, isInForce) in snapshot.lists {
      sample(
        "sallyport_crl_in_force", ["side": list.side.rawValue, "issuer": list.issuer], (isInForce ? 1 : 0) as Int64)
    }
    guard !snapshot.fetches.isEmpty else { return }
    family("sallyport_crl_fetches_total", .counter, "Requests for revocation lists, by URL and by their result.")
    for (url, history) in snapshot.fetches {
      for result in FetchResult.allCases {
        sample(
          "sallyport_crl_fetches_total", ["url": url, "result": result.rawValue], history.counts[result] ?? 0)
      }
    }
    family(
      "sallyport_crl_fetch_last_success_timestamp_seconds", .gauge,
      "When a URL last gave a revocation list; 0 if it has given none since the start.")
    for (url, history) in snapshot.fetches {
      sample("sallyport_crl_fetch_last_success_timestamp_seconds", ["url": url], history.succeededAt ?? 0)
    }
  }
}

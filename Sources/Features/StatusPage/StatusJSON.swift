import Forward
import Observability
import Traffic
import Upstream

/// The page of `status` for programs: the same facts as the page for people.
enum StatusJSON {
  static func text(_ snapshot: MetricsSnapshot) -> String {
    var json = JSONText()
    json.object { json in
      json.member("version", "\(Product.version)")
      json.member("host", snapshot.host)
      json.member("configuration", snapshot.configuration)
      json.member("generation", snapshot.generation.number)
      json.member("time", snapshot.now)
      json.member("started", snapshot.startedAt)
      json.member("loaded", snapshot.reloads.loadedAt)
      json.array("problems", StatusProblem.all(of: snapshot)) { problem, json in
        json.object {
          $0.member("severity", problem.severity.rawValue)
          $0.member("text", problem.text)
        }
      }
      if let (last, total) = snapshot.lastError {
        json.object("last_error") {
          $0.member("time", last.time)
          $0.member("text", last.text)
          $0.member("lines_since_start", Int64(clamping: total))
        }
      }
      connections(snapshot.traffic, &json)
      servers(snapshot, &json)
      streams(snapshot, &json)
      upstreams(snapshot, &json)
      overrides(snapshot.overrides, &json)
      limits(snapshot, &json)
      handshakes(snapshot.workers, &json)
      ages(snapshot, &json)
      json.array("workers", snapshot.workers) { worker, json in
        json.object {
          $0.member("worker", worker.index)
          $0.member("worst_lag_ms", Int64(clamping: worker.lag.worst))
          $0.array("lags_ms", snapshot.history.values(.worker(worker.index))) { $1.value(Int64(clamping: $0)) }
        }
      }
      json.object("process") {
        $0.member("resident_memory", snapshot.figures.residentMemory)
        $0.member("cpu_ms", snapshot.figures.cpuTime)
        $0.member("open_descriptors", snapshot.figures.openDescriptors)
        $0.member("descriptor_limit", snapshot.figures.descriptorLimit)
      }
    }
    return json.text + "\n"
  }

  private static func connections(_ traffic: TrafficTotals, _ json: inout JSONText) {
    json.object("connections") {
      $0.member("accepted", Int64(clamping: traffic.accepted))
      $0.member("handled", Int64(clamping: traffic.handled))
      $0.member("active", Int64(clamping: traffic.active))
      $0.member("reading", Int64(clamping: traffic.reading))
      $0.member("writing", Int64(clamping: traffic.writing))
      $0.member("waiting", Int64(clamping: traffic.waiting))
      $0.member("requests", Int64(clamping: traffic.requests))
    }
  }

  private static func servers(_ snapshot: MetricsSnapshot, _ json: inout JSONText) {
    json.array("servers", snapshot.servers) { server, json in
      json.object {
        $0.member("server", server.series.server)
        $0.member("listen", server.series.listen)
        $0.object("requests") {
          for (place, code) in RequestMeter.classes.enumerated() {
            $0.member(code, Int64(clamping: server.totals.classes[place]))
          }
        }
        recent(snapshot.history, .server(server.series), &$0)
        times(server.totals.times, &$0)
        $0.member("received", Int64(clamping: server.totals.received))
        $0.member("sent", Int64(clamping: server.totals.sent))
      }
    }
  }

  private static func streams(_ snapshot: MetricsSnapshot, _ json: inout JSONText) {
    json.array("streams", snapshot.streams) { server, json in
      json.object {
        $0.member("server", server.series.server)
        $0.member("listen", server.series.listen)
        $0.member("open", Int64(clamping: server.totals.open))
        recent(snapshot.history, .stream(server.series), &$0)
        $0.object("connections") {
          for (place, result) in SessionResult.allCases.enumerated() {
            $0.member(result.rawValue, Int64(clamping: server.totals.results[place]))
          }
        }
        times(server.totals.times, &$0)
        $0.member("received", Int64(clamping: server.totals.received))
        $0.member("sent", Int64(clamping: server.totals.sent))
      }
    }
  }

  private static func upstreams(_ snapshot: MetricsSnapshot, _ json: inout JSONText) {
    json.array("upstreams", snapshot.upstreams) { server, json in
      let totals = server.totals
      json.object {
        $0.member("upstream", server.series.upstream.text)
        if server.series.upstream.isOfStream { $0.member("block", "stream") }
        $0.member("server", server.series.server)
        $0.member("health", server.isUp.map { $0 ? "up" : "down" })
        $0.member("available", !totals.isUnavailable)
        $0.object("attempts") {
          for (place, result) in AttemptMeter.Result.allCases.enumerated() {
            $0.member(result.rawValue, Int64(clamping: totals.results[place]))
          }
        }
        recent(snapshot.history, .upstream(server.series), &$0)
        times(totals.times, &$0)
        $0.member("truncated", Int64(clamping: totals.truncated))
        $0.member("opened", Int64(clamping: totals.opened))
        $0.member("kept", Int64(clamping: totals.idle))
        $0.member("in_use", Int64(clamping: totals.open > totals.idle ? totals.open - totals.idle : 0))
      }
    }
  }

  private static func overrides(_ overrides: RuntimeOverrides, _ json: inout JSONText) {
    json.array("overrides", overrides.servers) { server, json in
      json.object {
        $0.member("upstream", server.upstream)
        $0.member("server", server.server)
        $0.member("setting", server.change)
        $0.member("value", server.value)
      }
    }
    json.array("denials", overrides.denials) { denial, json in
      json.object {
        $0.member("fingerprint", denial.fingerprint)
        $0.member("seconds", Int64(clamping: denial.seconds))
        $0.member("subject", denial.subject)
      }
    }
    if let override = overrides.logLevel { json.object("log_level") { override.append(to: &$0) } }
  }

  /// Of `http` and `stream`.
  private static func limits(_ snapshot: MetricsSnapshot, _ json: inout JSONText) {
    json.array("limits", LimitZoneCounts.all(snapshot)) { zone, json in
      json.object {
        $0.member("zone", zone.name)
        $0.member("limit", zone.hasRate ? "requests" : "connections")
        for verdict in LimitVerdict.all(hasRate: zone.hasRate) {
          $0.member(verdict.label, Int64(clamping: zone.counts[verdict]))
        }
      }
    }
  }

  /// What came within the last minute and the last ten, and each minute's rate between two points; the spans are shorter
  /// as long as the process is younger.
  private static func recent(_ history: CountHistory, _ subject: CountHistory.Subject, _ json: inout JSONText) {
    json.array("recent", [60, CountHistory.length].compactMap { history.span(subject, seconds: $0) }) { span, json in
      json.object {
        $0.member("seconds", span.seconds)
        $0.member("count", Int64(clamping: span.counts.all))
        $0.member("errors", Int64(clamping: span.counts.errors))
      }
    }
    json.array("per_minute", history.line(subject)) { $1.value(Int64(clamping: $0)) }
  }

  /// Bounds of histogram buckets; null without times, or above the last bound.
  private static func times(_ times: TimeHistogram, _ json: inout JSONText) {
    json.member("median_ms_at_most", times.bound(of: 0.5).map { Int64(clamping: $0) })
    json.member("p95_ms_at_most", times.bound(of: 0.95).map { Int64(clamping: $0) })
  }

  private static func handshakes(_ workers: [WorkerCounters], _ json: inout JSONText) {
    func counts<Label: CaseIterable & RawRepresentable<String>>(
      _ name: String, _ counters: [Counter<Label>], _ json: inout JSONText
    ) {
      json.object(name) {
        for (place, label) in Label.allCases.enumerated() where !label.rawValue.isEmpty {
          let sum = counters.reduce(UInt64(0)) { $0 &+ $1.all[place].count }
          $0.member(label.rawValue, Int64(clamping: sum))
        }
      }
    }
    counts("client_handshakes", workers.map(\.clients), &json)
    counts("client_handshake_failures", workers.map(\.handshakeCauses), &json)
    counts("client_certificate_refusals", workers.map(\.certificateFaults), &json)
    counts("client_refusals", workers.map(\.refusals), &json)
    counts("client_requests_cut", workers.map(\.revoked), &json)
    counts("client_sessions", workers.map(\.sessions), &json)
    counts("client_key_exchanges", workers.map(\.keyExchanges), &json)
    counts("upstream_handshakes", workers.map(\.upstreams), &json)
    counts("upstream_key_exchanges", workers.map(\.upstreamKeyExchanges), &json)
  }

  private static func ages(_ snapshot: MetricsSnapshot, _ json: inout JSONText) {
    json.array("certificates", snapshot.certificates) { entry, json in
      json.object {
        $0.member("side", entry.certificate.side.rawValue)
        $0.member("use", entry.certificate.use.rawValue)
        $0.member("server", entry.certificate.server)
        $0.member("subject", entry.certificate.subject)
        $0.member("end", entry.end)
      }
    }
    json.array("revocation_lists", snapshot.lists) { entry, json in
      json.object {
        $0.member("side", entry.list.side.rawValue)
        $0.member("issuer", entry.list.issuer)
        $0.member("update", entry.update)
        $0.member("end", entry.end)
      }
    }
  }
}

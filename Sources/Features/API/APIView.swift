import Bytes
import Crypto
import DNS
import Enrolment
import Forward
import Glibc
import Observability
import TLS
import Traffic
import Transport
import Upstream

/// What the API shows, as nginx Plus names it. A member that sallyport doesn't count is left out.
///
/// Each answer reads what its path asks for, and no more: it is made on the event loop, where a whole `MetricsSnapshot` of a
/// large configuration would hold the other clients up.
struct APIView {
  let metrics: Metrics
  let generation: Generation
  let groups: [UpstreamGroup]
  let shared: SharedState
  /// Where the request came in.
  let address: String
  /// By the meter of a server block: the requests in progress, if the path asks for them.
  var processing: [ObjectIdentifier: Int] = [:]

  private func zones(_ isOfStream: Bool) -> ServerZones {
    ServerZones(metrics, isOfStream: isOfStream, processing: processing)
  }

  static func group(_ name: String, isOfStream: Bool, of groups: [UpstreamGroup]) -> UpstreamGroup? {
    groups.first { $0.settings.isOfStream == isOfStream && $0.settings.name == name }
  }

  private func group(_ name: String, isOfStream: Bool) throws(APIFault) -> UpstreamGroup {
    guard let group = Self.group(name, isOfStream: isOfStream, of: groups) else { throw .upstream }
    return group
  }

  func text(_ path: APIPath) throws(APIFault) -> String {
    var json = JSONText()
    switch path {
    case .root: return "[\(APIPath.versions.joined(separator: ","))]\n"
    case .version:
      return
        "[\"nginx\",\"processes\",\"connections\",\"slabs\",\"ssl\",\"workers\",\"http\",\"stream\",\"resolvers\",\"sallyport\"]\n"
    case .http:
      var list = JSONText()
      let own = ["requests", "server_zones", "location_zones", "caches", "upstreams"]
      list.array(own + names(of: .http)) { name, json in json.value(name) }
      return list.text + "\n"
    case .stream:
      var list = JSONText()
      list.array(["server_zones", "upstreams", "keyvals"] + names(of: .stream)) { name, json in json.value(name) }
      return list.text + "\n"
    case .empty: return "{}\n"
    // Threads of this process are never begun anew by themselves.
    case .processes: json.object { $0.member("respawned", 0) }
    case .serverZones(let isOfStream): json.object { zones(isOfStream).append(to: &$0) }
    case .serverZone(let name, let isOfStream):
      guard zones(isOfStream).append(name, to: &json) else { throw .serverZone }
    case .resolvers:
      json.object { json in
        for (name, totals) in shared[ResolverCounts.self].totals { json.object(name) { Self.resolver(totals, &$0) } }
      }
    case .resolver(let name):
      guard let found = shared[ResolverCounts.self].totals.first(where: { $0.resolver == name }) else {
        throw .resolver
      }
      json.object { Self.resolver(found.totals, &$0) }
    case .errors: return Self.text(metrics.process.errors?.all ?? [])
    case .nginx:
      json.object {
        $0.member("version", "\(Product.version)")
        $0.member("build", "\(Product.name)")
        $0.member("address", address)
        $0.member("generation", generation.number)
        $0.member("load_timestamp", AuthorityTime.rfc3339(metrics.process.reloads.loadedAt))
        $0.member("timestamp", AuthorityTime.rfc3339(Int64(time(nil))))
        $0.member("pid", Int64(getpid()))
        $0.member("ppid", Int64(getppid()))
      }
    case .connections:
      let traffic = metrics.traffic.totals
      json.object {
        $0.member("accepted", Int64(clamping: traffic.accepted))
        $0.member("dropped", Int64(clamping: traffic.accepted &- traffic.handled))
        $0.member("active", Int64(clamping: traffic.active &- min(traffic.active, traffic.waiting)))
        $0.member("idle", Int64(clamping: traffic.waiting))
      }
    case .requests:
      let traffic = metrics.traffic.totals
      json.object {
        $0.member("total", Int64(clamping: traffic.requests))
        $0.member("current", Int64(clamping: traffic.writing))
      }
    case .ssl: ssl(&json)
    case .workers:
      var list = JSONText()
      list.array(metrics.all.sorted { $0.index < $1.index }) { worker, json in
        json.object {
          $0.member("id", worker.index)
          $0.member("pid", Int64(getpid()))
        }
      }
      return list.text + "\n"
    case .upstreams(let isOfStream):
      json.object { json in
        for group in groups where group.settings.isOfStream == isOfStream {
          json.object(group.settings.name) { upstream(group, &$0) }
        }
      }
    case .upstream(let name, let isOfStream):
      let group = try group(name, isOfStream: isOfStream)
      json.object { upstream(group, &$0) }
    case .servers(let name, let isOfStream):
      let group = try group(name, isOfStream: isOfStream)
      return Self.text(group.members)
    case .server(let name, let id, let isOfStream):
      let group = try group(name, isOfStream: isOfStream)
      guard let member = group.members.first(where: { $0.id == id }) else { throw .server }
      return Self.text(member)
    case .logLevel: json.object { metrics.process.logLevels?.current?.append(to: &$0) }
    case .sallyport: return "[\"clients\",\"denials\",\"errors\",\"log_level\"]\n"
    case .otherVersion: throw .version
    // The handler has asked all workers or a feature for these, or they take other methods.
    case .objects, .object, .clients, .client, .denials, .denial, .unknown: throw .notFound
    }
    return json.text + "\n"
  }

  private func names(of kind: TrafficKind) -> [String] {
    shared.apiFeatures.objects.filter { $0.kind == kind }.map(\.name)
  }

  private static func resolver(_ totals: DNSTotals, _ json: inout JSONText) {
    json.object("requests") { json in
      for request in DNSTotals.Request.allCases { json.member(request.rawValue, Int64(clamping: totals[request])) }
      // nginx asks for names of addresses, too, for its mail proxy.
      json.member("addr", 0)
    }
    json.object("responses") { json in
      for response in DNSTotals.Response.allCases { json.member(response.rawValue, Int64(clamping: totals[response])) }
    }
  }

  private static func text(_ errors: [RecentErrors.Entry]) -> String {
    var json = JSONText()
    json.array(errors) { entry, json in
      json.object {
        $0.member("time", AuthorityTime.rfc3339(entry.time))
        $0.member("level", entry.level.name)
        $0.member("count", entry.count)
        $0.member("text", entry.text)
      }
    }
    return json.text + "\n"
  }

  static func text(_ clients: [ConnectedClient]) -> String {
    var json = JSONText()
    json.array(clients.prefix(ConnectedClient.limit).sorted { $0.seconds > $1.seconds }) { client, json in
      json.object { json in
        json.member("address", client.address)
        json.member("protocol", client.kind == .http ? "http" : "stream")
        json.member("seconds", Int64(clamping: client.seconds))
        json.member("requests", client.requests)
        guard let certificate = client.certificate else { return }
        json.object("certificate") {
          $0.member("subject", certificate.subject.rfc2253)
          $0.member("serial", certificate.serial)
          $0.member("fingerprint", Hex.encode(certificate.sha256))
          $0.member("sha1", certificate.sha1Fingerprint)
          $0.member("verified", client.isVerified)
        }
      }
    }
    return json.text + "\n"
  }

  static func text(_ denials: [DeniedCertificate]) -> String {
    var json = JSONText()
    json.array(denials) { denial, json in
      json.object {
        $0.member("fingerprint", denial.fingerprint)
        $0.member("seconds", Int64(clamping: denial.seconds))
        $0.member("until", AuthorityTime.rfc3339(Int64(time(nil)) &+ Int64(clamping: denial.seconds)))
        $0.member("subject", denial.subject)
        $0.member("serial", denial.serial)
        guard let reason = denial.reason else { return }
        $0.member("since", AuthorityTime.rfc3339(reason.since))
        $0.member("by", reason.asker)
        $0.member("note", reason.note)
      }
    }
    return json.text + "\n"
  }

  static func text(cut count: Int) -> String { "{\"cut\":\(count)}\n" }

  static func text(_ members: [GroupMember]) -> String {
    var list = JSONText()
    list.array(members) { member, json in json.object { server(member, &$0) } }
    return list.text + "\n"
  }

  static func text(_ member: GroupMember) -> String {
    var json = JSONText()
    json.object { server(member, &$0) }
    return json.text + "\n"
  }

  /// A server as its line is now.
  private static func server(_ member: GroupMember, _ json: inout JSONText) {
    json.member("id", Int64(clamping: member.id))
    json.member("server", "\(member.address)")
    json.member("weight", member.weight)
    json.member("max_conns", member.maxConnections)
    json.member("max_fails", member.maxFails)
    json.member("fail_timeout", "\(member.failTimeout / 1000)s")
    json.member("slow_start", "\(member.slowStart / 1000)s")
    json.member("backup", member.isBackup)
    json.member("down", member.isDown)
    json.member("drain", member.isDraining)
  }

  private func upstream(_ group: UpstreamGroup, _ json: inout JSONText) {
    // A group with `state` has its changes in that file.
    let isKept = group.settings.stateFile != nil
    let changes = isKept ? (added: [], removed: []) : group.changedServers
    let counted = metrics.all.map { worker in worker.withMeters { $0.attempts } }
    var idle: UInt64 = 0
    json.array("peers", group.members) { member, json in
      json.object { json in
        Self.peer(member, &json)
        let series = UpstreamSeries(upstream: group.settings.fullName, server: "\(member.address)")
        var totals = AttemptTotals()
        for table in counted { table[series]?.add(to: &totals) }
        idle &+= totals.idle
        Self.counts(totals, isOfStream: group.settings.isOfStream, &json)
        Self.checks(group.healthCounts(of: member.address), &json)
        json.member("changed", member.isChanged && !isKept)
        json.member("added", changes.added.contains(member.address))
      }
    }
    if !changes.removed.isEmpty {
      json.array("removed", changes.removed.map(\.description).sorted()) { address, json in json.value(address) }
    }
    json.member("keepalive", Int64(clamping: idle))
    if let zone = group.settings.zone { json.member("zone", zone) }
  }

  private static func peer(_ member: GroupMember, _ json: inout JSONText) {
    let state =
      switch (member.isDown, member.isHealthy, member.hasFailed, member.isDraining) {
      case (true, _, _, _): "down"
      case (_, false, _, _): "unhealthy"
      case (_, _, true, _): "unavail"
      case (_, _, _, true): "draining"
      default: "up"
      }
    json.member("id", Int64(clamping: member.id))
    json.member("server", "\(member.address)")
    json.member("name", "\(member.address)")
    json.member("backup", member.isBackup)
    json.member("weight", member.weight)
    json.member("state", state)
    json.member("active", member.active)
    json.member("max_conns", member.maxConnections)
    json.member("unavail", Int64(clamping: member.exclusions))
  }

  /// A server that nobody checks has counts of 0, as in nginx Plus: its dashboard reads them of every server.
  private static func checks(_ counts: HealthCounts?, _ json: inout JSONText) {
    let (passed, failed) = (counts?.count(.passed) ?? 0, counts?.count(.failed) ?? 0)
    json.object("health_checks") {
      $0.member("checks", Int64(clamping: passed &+ failed))
      $0.member("fails", Int64(clamping: failed))
      $0.member("unhealthy", Int64(clamping: counts?.unhealthy ?? 0))
      if let last = counts?.lastPassed { $0.member("last_passed", last) }
    }
  }

  private static func counts(_ totals: AttemptTotals, isOfStream: Bool, _ json: inout JSONText) {
    json.member(isOfStream ? "connections" : "requests", Int64(clamping: totals.attempts))
    let responses = totals.results.prefix(5)
    if !isOfStream {
      json.object("responses") { json in
        for (result, count) in zip(AttemptMeter.Result.allCases, responses) {
          json.member(result.rawValue, Int64(clamping: count))
        }
        json.codes(totals.codes)
        json.member("total", Int64(clamping: responses.reduce(0, &+)))
      }
    }
    json.member("fails", Int64(clamping: totals.failures))
    json.member("sent", Int64(clamping: totals.sent))
    json.member("received", Int64(clamping: totals.received))
    let timed = totals.times.buckets.reduce(0, &+)
    // Means since the start, in milliseconds.
    if !isOfStream, totals.responses > 0 {
      json.member("response_time", Int64(clamping: totals.responseTime / totals.responses))
    }
    json.member("downtime", Int64(clamping: totals.downtime))
    if timed > 0 { json.member(isOfStream ? "connect_time" : "header_time", Int64(clamping: totals.times.sum / timed)) }
  }

  private func ssl(_ json: inout JSONText) {
    var (whole, failed, reused): (UInt64, UInt64, UInt64) = (0, 0, 0)
    for worker in metrics.all {
      for (kind, count) in zip(HandshakeKind.allCases, worker.sessions.all) where kind == .resumed {
        reused &+= count.count
      }
      for (place, outcome) in ClientOutcome.allCases.enumerated() {
        let count = worker.clients.all[place].count
        if outcome == .failed || outcome == .refused { failed &+= count } else { whole &+= count }
      }
    }
    json.object {
      $0.member("handshakes", Int64(clamping: whole))
      $0.member("handshakes_failed", Int64(clamping: failed))
      $0.member("session_reuses", Int64(clamping: reused))
    }
  }
}

import Crypto
import Forward
import Glibc
import Observability
import Traffic
import Upstream

extension StatusProblem {
  /// Milliseconds that a loop may be late.
  static let longLag: UInt64 = 500

  /// Everything that is wrong, errors first.
  static func all(of snapshot: MetricsSnapshot) -> [StatusProblem] {
    var found = snapshot.shared.problems(snapshot.generation, at: snapshot.now)
    if let refusal = snapshot.reloads.refusal {
      found.append(
        StatusProblem(
          .reload, .error, "The last reload was refused (\(StatusWords.time(refusal.at))): \(refusal.reason)"))
    }
    found += snapshot.files.stale.map {
      StatusProblem(.files, $0.state == .changed ? .error : .warning, "A file is \($0.words)")
    }
    found += snapshot.files.forbidden.map { StatusProblem(.files, .warning, WatchedFiles.words(ofForbidden: $0)) }
    found += certificates(snapshot) + notices(snapshot) + fetches(snapshot) + lists(snapshot)
    found += snapshot.ongoing.filter { $0.kind != .log || $0.isFatal }.map { fault in
      StatusProblem(
        .ongoing, fault.isFatal ? .error : .warning, fault.words.prefix(1).uppercased() + fault.words.dropFirst())
    }
    found += upstreams(snapshot)
    found += process(snapshot)
    return inOrder(found)
  }

  private static func certificates(_ snapshot: MetricsSnapshot) -> [StatusProblem] {
    let notice = snapshot.generation.http.clientLimits.expiryNotice
    return snapshot.certificates.compactMap { certificate, begin, end -> StatusProblem? in
      let age = notice.age(from: begin, to: end, at: snapshot.now)
      guard age != .valid else { return nil }
      let what: String
      switch (certificate.use, certificate.side) {
      case (.shown, .client): what = "The certificate of server \(certificate.server)"
      case (.shown, .upstream): what = "The certificate that upstreams are shown"
      case (.trusted, .client): what = "A CA that clients are verified by"
      case (.trusted, .upstream): what = "A CA or pinned certificate that upstreams are verified by"
      }
      return StatusProblem(
        .certificates, age == .ended ? .error : .warning,
        "\(what) \(StatusWords.end(end, now: snapshot.now)): \(certificate.subject)")
    }
  }

  /// What we present to upstreams, and what clients came with within the last day.
  private static func notices(_ snapshot: MetricsSnapshot) -> [StatusProblem] {
    let presented = snapshot.presentedForServers.map {
      StatusProblem(
        .certificates, .warning,
        "The certificate that upstreams are shown is not one for clients (no clientAuth), so they may refuse it: \($0)")
    }
    let day: Int64 = 86_400
    return presented
      + snapshot.notices.filter { $0.last > snapshot.now - day }.map { one in
        let what = one.notice == .ending ? "that end soon" : "that are not for clients (no clientAuth)"
        return StatusProblem(
          .certificates, .warning, "Clients come with certificates \(what), issued by \(one.issuer)")
      }
  }

  private static func fetches(_ snapshot: MetricsSnapshot) -> [StatusProblem] {
    snapshot.fetches.compactMap { url, history in
      history.trouble(of: url, at: snapshot.now).map {
        StatusProblem(.lists, $0.isServing ? .warning : .error, $0.words)
      }
    }
  }

  private static func lists(_ snapshot: MetricsSnapshot) -> [StatusProblem] {
    let notice = snapshot.generation.http.clientLimits.expiryNotice
    return snapshot.lists.compactMap { list, update, end, _ -> StatusProblem? in
      let words = "A revocation list \(end.map { StatusWords.end($0, now: snapshot.now) } ?? "has no end")"
      switch notice.listAge(from: update, to: end, at: snapshot.now) {
      case .future:
        return StatusProblem(
          .lists, .error,
          "A revocation list is of the future, so everybody of its CA is refused; compare the clocks: \(list.issuer)")
      case .begun(.valid): return nil
      case .begun(.ending): return StatusProblem(.lists, .warning, "\(words): \(list.issuer)")
      case .begun(.ended):
        return StatusProblem(.lists, .error, "\(words), so everybody of its CA is refused: \(list.issuer)")
      }
    }
  }

  private static func upstreams(_ snapshot: MetricsSnapshot) -> [StatusProblem] {
    Dictionary(grouping: snapshot.upstreams, by: \.series.upstream).sorted { $0.key < $1.key }
      .flatMap { name, servers -> [StatusProblem] in
        let down = servers.filter { $0.isUp == false }, failed = servers.filter(\.totals.isUnavailable)
        let lost = servers.filter { $0.isUp == false || $0.totals.isUnavailable }
        if lost.count == servers.count {
          return [StatusProblem(.upstreams, .error, "Upstream \(name): every server is down or fails")]
        }
        return down.map {
          StatusProblem(.upstreams, .warning, "Upstream \(name): \($0.series.server) is down by its health checks")
        }
          + failed.filter { $0.isUp != false }.map {
            StatusProblem(
              .upstreams, .warning,
              "Upstream \(name): \($0.series.server) fails, and is left out where another can serve")
          }
      }
  }

  private static func process(_ snapshot: MetricsSnapshot) -> [StatusProblem] {
    var found: [StatusProblem] = []
    func warn(_ text: String) { found.append(StatusProblem(.process, .warning, text)) }
    let losing = Set(snapshot.ongoing.filter { $0.kind == .log }.map(\.name))
    for (log, count) in snapshot.lostLines where count > 0 {
      warn(
        losing.contains(log)
          ? "The log \(log) loses lines now, \(count) since the start"
          : "The log \(log) has lost \(count) lines since the start")
    }
    let traffic = snapshot.traffic
    if traffic.accepted > traffic.handled {
      warn("\(traffic.accepted - traffic.handled) connections were closed: worker_connections were used up")
    }
    for shortage in snapshot.workers.compactMap(\.shortage) {
      found.append(StatusProblem(.process, .error, shortage.prefix(1).uppercased() + shortage.dropFirst()))
    }
    for worker in snapshot.workers where worker.lag.worst >= longLag {
      warn("The loop of worker \(worker.index) was \(worker.lag.worst) ms late within the last minutes")
    }
    let figures = snapshot.figures
    if let open = figures.openDescriptors, let limit = figures.descriptorLimit, limit > 0, open / 9 >= limit / 10 {
      warn("\(open) of \(limit) descriptors are open")
    }
    return found
  }
}

/// Numbers and times for people.
enum StatusWords {
  /// `2026-11-22 21:45 UTC`
  static func time(_ seconds: Int64) -> String {
    var moment = time_t(seconds), parts = tm()
    guard gmtime_r(&moment, &parts) != nil else { return "\(seconds)" }
    var text = [CChar](repeating: 0, count: 40)
    let count = strftime(&text, text.count, "%Y-%m-%d %H:%M UTC", &parts)
    return String(decoding: text.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  /// `ended 3 days ago`, `ends in 5 hours`
  static func end(_ end: Int64, now: Int64) -> String {
    let (left, overflow) = end.subtractingReportingOverflow(now)
    if overflow { return end < now ? "has ended" : "has no near end" }
    return left <= 0 ? "ended \(span(0 &- left)) ago" : "ends in \(span(left))"
  }

  /// `12 days`, `5 hours`; rounded down.
  static func span(_ seconds: Int64) -> String {
    func some(_ count: Int64, _ unit: String) -> String { "\(count) \(unit)\(count == 1 ? "" : "s")" }
    switch seconds {
    case ..<60: return some(max(0, seconds), "second")
    case ..<3600: return some(seconds / 60, "minute")
    case ..<172_800: return some(seconds / 3600, "hour")
    default: return some(seconds / 86_400, "day")
    }
  }

  /// `1 234 567`: groups of three, with a narrow space.
  static func count(_ value: UInt64) -> String {
    var text = ""
    for (place, digit) in "\(value)".reversed().enumerated() {
      if place > 0, place % 3 == 0 { text.append("\u{202F}") }
      text.append(digit)
    }
    return String(text.reversed())
  }

  /// What came in a span, as a rate; `–` as long as there is none.
  static func rate(_ span: CountHistory.Span?) -> String { span.map { rate(perMinute: $0.perMinute) } ?? "–" }

  /// `42/min`, `25/s`
  static func rate(perMinute rate: UInt64) -> String {
    rate < 600 ? "\(rate)/min" : "\(count((rate &+ 30) / 60))/s"
  }

  /// `0 %`, `0.2 %`, `12 %`. A share that isn't 0 isn't shown as 0.
  static func share(_ share: Double) -> String {
    let tenths = Int((min(1, max(0, share)) * 1000).rounded(.up))
    return tenths >= 100 || tenths % 10 == 0 ? "\(tenths / 10) %" : "\(tenths / 10).\(tenths % 10) %"
  }

  static func bytes(_ value: UInt64) -> String {
    var rest = value, unit = 0
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]
    while rest >= 10_240, unit + 1 < units.count {
      rest /= 1024
      unit += 1
    }
    return "\(count(rest)) \(units[unit])"
  }

  /// The bound of the histogram's bucket in which the share lies: `≤ 25 ms`.
  static func time(_ times: TimeHistogram, share: Double) -> String {
    guard times.count > 0 else { return "–" }
    guard let bound = times.bound(of: share) else { return "> \(time(times.bounds.last ?? 0))" }
    return "≤ \(time(bound))"
  }

  /// `25 ms`, `2.5 s`, `10 min`, `6 h`
  private static func time(_ milliseconds: UInt64) -> String {
    switch milliseconds {
    case ..<1000: "\(milliseconds) ms"
    case ..<60_000: "\(milliseconds / 1000)\(milliseconds % 1000 == 0 ? "" : ".\(milliseconds % 1000 / 100)") s"
    case ..<3_600_000: "\(milliseconds / 60_000) min"
    default: "\(milliseconds / 3_600_000) h"
    }
  }
}

import Bytes
import Crypto
import Forward
import Observability
import TLS
import Traffic
import Upstream

/// The page of `status` for people: one HTML document without a script, in the light or dark colours of the reader's
/// system.
///
/// Every text from outside, such as the subject of a certificate, goes through `text`, which escapes it. The
/// Content-Security-Policy allows no script and only this style sheet.
struct StatusHTML {
  private var output = ""

  /// Seconds after which a browser loads the page again.
  static let refresh = 5

  static let policy: String = {
    let hash = Base64.encode(Digest.of(Array(style.utf8)))
    return "default-src 'none'; style-src 'sha256-\(hash)'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
  }()

  static func page(_ snapshot: MetricsSnapshot) -> String {
    var page = StatusHTML()
    page.head(snapshot)
    page.problems(StatusProblem.all(of: snapshot))
    page.lastError(snapshot)
    page.tiles(snapshot)
    page.servers(snapshot)
    page.streams(snapshot)
    page.upstreams(snapshot)
    page.overrides(snapshot)
    page.limits(snapshot)
    page.handshakes(snapshot)
    page.certificates(snapshot)
    page.workers(snapshot)
    page.output += "</main></body></html>\n"
    return page.output
  }

  // MARK: Parts

  private mutating func head(_ snapshot: MetricsSnapshot) {
    output +=
      "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\">"
      + "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
      + "<meta name=\"color-scheme\" content=\"light dark\"><meta http-equiv=\"refresh\" content=\"\(Self.refresh)\">"
      + "<title>"
    text(snapshot.host.isEmpty ? "sallyport status" : "\(snapshot.host): sallyport status")
    output += "</title><style>\(Self.style)</style></head><body><main><header><h1>"
    text(snapshot.host.isEmpty ? "sallyport" : snapshot.host)
    output += "</h1><p>sallyport "
    let up = StatusWords.span(snapshot.age)
    text(
      "\(Product.version) · generation \(snapshot.generation.number), loaded "
        + "\(StatusWords.time(snapshot.reloads.loadedAt)) · up \(up) · \(StatusWords.time(snapshot.now))"
        + (snapshot.configuration.isEmpty ? "" : " · \(snapshot.configuration)"))
    output += " · <a href=\"?format=json\">JSON</a></p></header>"
  }

  private mutating func problems(_ problems: [StatusProblem]) {
    guard !problems.isEmpty else {
      output += "<p class=\"fine\">No problems found.</p>"
      return
    }
    output += "<ul class=\"problems\">"
    for problem in problems {
      output += "<li class=\"\(problem.severity.rawValue)\"><b>\(problem.severity == .error ? "Error" : "Warning")</b> "
      text(problem.text)
      output += "</li>"
    }
    output += "</ul>"
  }

  /// The line that an error log has last had, which may be over by now.
  private mutating func lastError(_ snapshot: MetricsSnapshot) {
    guard let (last, total) = snapshot.lastError else { return }
    output += "<p class=\"last\"><b>Last error</b>, "
    text(StatusWords.span(max(0, snapshot.now &- last.time)))
    output += " ago, of "
    text(StatusWords.count(total))
    output += total == 1 ? " line" : " lines"
    output += " at <i>error</i> or above since the start: <code>"
    text(last.text)
    output += "</code></p>"
  }

  private mutating func tiles(_ snapshot: MetricsSnapshot) {
    let failed = snapshot.workers.reduce(UInt64(0)) { sum, worker in
      worker.handshakeCauses.all.reduce(sum) { $0 &+ $1.count }
    }
    output += "<dl class=\"tiles\">"
    tile("Requests", StatusWords.count(snapshot.traffic.requests))
    tile("In progress", StatusWords.count(snapshot.traffic.writing))
    tile("Connections", StatusWords.count(snapshot.traffic.active))
    tile("Failed handshakes", StatusWords.count(failed))
    if let memory = snapshot.figures.residentMemory { tile("Memory", StatusWords.bytes(UInt64(clamping: memory))) }
    if let open = snapshot.figures.openDescriptors {
      tile("Descriptors", StatusWords.count(UInt64(clamping: open)))
    }
    output += "</dl>"
  }

  private mutating func tile(_ name: String, _ value: String) {
    output += "<div><dt>"
    text(name)
    output += "</dt><dd>"
    text(value)
    output += "</dd></div>"
  }

  private mutating func servers(_ snapshot: MetricsSnapshot) {
    // A limit's refusals have a column where there are any.
    let isLimited = snapshot.servers.contains { $0.totals.limited > 0 }
    table(
      "Servers",
      ["Server", "Listen", "Requests"] + Self.rates + ["2xx", "3xx", "4xx", "5xx", "5xx, 10 min"]
        + (isLimited ? ["Limited"] : []) + ["Median", "95 %", "In", "Out"], names: 2,
      snapshot.servers.map { series, totals in
        let classes = totals.classes.map { Cell($0) }, subject = CountHistory.Subject.server(series)
        var cells = [Cell(series.server.isEmpty ? "(no name)" : series.server), Cell(series.listen), Cell(totals.all)]
        cells += rates(snapshot.history, subject) + classes[2...5] + [errorShare(snapshot.history, subject)]
        if isLimited { cells.append(Cell(totals.limited)) }
        return Row(
          cells + [
            Cell(StatusWords.time(totals.times, share: 0.5)), Cell(StatusWords.time(totals.times, share: 0.95)),
            Cell(StatusWords.bytes(totals.received)), Cell(StatusWords.bytes(totals.sent)),
          ])
      })
  }

  private mutating func streams(_ snapshot: MetricsSnapshot) {
    table(
      "TCP servers",
      ["Server", "Listen", "Open", "Ended"] + Self.rates
        + ["Refused", "Failed", "Median", "95 %", "In", "Out"], names: 2,
      snapshot.streams.map { series, totals in
        Row(
          [
            Cell(series.server.isEmpty ? "(no name)" : series.server), Cell(series.listen), Cell(totals.open),
            Cell(totals.ended),
          ] + rates(snapshot.history, .stream(series)) + [
            Cell(totals.refused), Cell(totals.failed), Cell(StatusWords.time(totals.times, share: 0.5)),
            Cell(StatusWords.time(totals.times, share: 0.95)), Cell(StatusWords.bytes(totals.received)),
            Cell(StatusWords.bytes(totals.sent)),
          ])
      })
    let results = snapshot.streams.flatMap { series, totals in
      zip(SessionResult.allCases, totals.results).filter { $0.1 > 0 }.map { result, count in
        Row([
          series.server.isEmpty ? "(no name)" : series.server, series.listen, result.rawValue,
          StatusWords.count(count),
        ])
      }
    }
    table("How TCP connections ended", ["Server", "Listen", "Result", "Count"], names: 3, results)
  }

  private mutating func upstreams(_ snapshot: MetricsSnapshot) {
    table(
      "Upstreams",
      ["Upstream", "Server", "State", "Attempts"] + Self.rates
        + ["Failed", "5xx", "Both, 10 min", "Median", "95 %", "Kept", "In use"], names: 3,
      snapshot.upstreams.map { server in
        let totals = server.totals, subject = CountHistory.Subject.upstream(server.series)
        let isDown = server.isUp == false
        return Row(
          [
            Cell(server.series.upstream.description), Cell(server.series.server),
            Cell(isDown ? "down" : totals.isUnavailable ? "failing" : server.isUp == true ? "up" : "in use"),
            Cell(totals.attempts),
          ] + rates(snapshot.history, subject) + [
            Cell(totals.failures), Cell(totals.serverErrors), errorShare(snapshot.history, subject),
            Cell(StatusWords.time(totals.times, share: 0.5)), Cell(StatusWords.time(totals.times, share: 0.95)),
            Cell(totals.idle), Cell(totals.open > totals.idle ? totals.open - totals.idle : 0),
          ], isBad: isDown || totals.isUnavailable)
      })
  }

  /// The most certificates that the table names.
  private static let shownDenials = 100

  private mutating func overrides(_ snapshot: MetricsSnapshot) {
    let overrides = snapshot.overrides
    func until(_ rest: UInt64) -> String { "until \(StatusWords.time(snapshot.now &+ Int64(clamping: rest)))" }
    var rows = overrides.servers.map { Row(["upstream \($0.upstream)", $0.server, $0.words]) }
    rows += overrides.denials.prefix(Self.shownDenials).map { denial in
      let name = denial.subject.map { "\($0), \(denial.fingerprint)" } ?? denial.fingerprint
      return Row(["client", name, "denied \(until(denial.seconds))"])
    }
    let others = overrides.denials.count - Self.shownDenials
    if others > 0 { rows.append(Row(["clients", "\(others) more certificates", "denied"])) }
    if let override = overrides.logLevel {
      rows.append(
        Row(["error logs", "by \(override.asker)", "level \(override.level.name) \(until(override.rest()))"]))
    }
    table("Changed by the API", ["What", "Server, certificate or asker", "Change"], names: 3, rows)
  }

  private mutating func limits(_ snapshot: MetricsSnapshot) {
    table(
      "Limits", ["Zone", "Limit", "Passed", "Delayed", "Refused", "Refused in a dry run"], names: 2,
      LimitZoneCounts.all(snapshot).map { zone in
        Row([
          Cell(zone.name), Cell(zone.hasRate ? "requests" : "connections"),
          // A dry run lets pass what it counts.
          Cell(zone.counts[.passed]), Cell(zone.counts[.delayed]), Cell(zone.counts[.rejected]),
          Cell(zone.counts[.rejectedDryRun]),
        ])
      })
  }

  private mutating func handshakes(_ snapshot: MetricsSnapshot) {
    func rows<Label: CaseIterable & RawRepresentable<String>>(_ what: String, _ counters: [Counter<Label>]) -> [Row] {
      Label.allCases.enumerated().compactMap { place, label in
        let sum = counters.reduce(UInt64(0)) { $0 &+ $1.all[place].count }
        return sum == 0 || label.rawValue.isEmpty ? nil : Row([what, label.rawValue, StatusWords.count(sum)])
      }
    }
    func keyExchanges(_ what: String, _ counters: [Counter<KeyExchange>]) -> [Row] {
      KeyExchange.allCases.enumerated().compactMap { place, group in
        let sum = counters.reduce(UInt64(0)) { $0 &+ $1.all[place].count }
        return sum == 0 ? nil : Row([what, KeyExchange.inWords(group.rawValue), StatusWords.count(sum)])
      }
    }
    let workers = snapshot.workers
    var all = rows("Client's certificate", workers.map(\.clients))
    all += rows("Not completed", workers.map(\.handshakeCauses))
    all += rows("Certificate refused", workers.map(\.certificateFaults))
    all += rows("Request refused", workers.map(\.refusals))
    all += rows("Request cut, client refused", workers.map(\.revoked))
    all += rows("Session", workers.map(\.sessions))
    all += keyExchanges("Key exchange", workers.map(\.keyExchanges))
    all += rows("Upstream's certificate", workers.map(\.upstreams))
    all += keyExchanges("Upstream's key exchange", workers.map(\.upstreamKeyExchanges))
    table("Handshakes", ["What", "Result", "Count"], names: 2, isCompact: true, all)
  }

  private mutating func certificates(_ snapshot: MetricsSnapshot) {
    let certificates = snapshot.certificates.map { certificate, _, end in
      Row(
        [
          certificate.use == .shown ? "shown" : "trusted",
          certificate.side == .client ? "clients" : "upstreams", certificate.subject, certificate.server,
          StatusWords.end(end, now: snapshot.now),
        ], isBad: end <= snapshot.now)
    }
    let lists = snapshot.lists.map { list, _, end, _ in
      Row(
        [
          "revocation list", list.side == .client ? "clients" : "upstreams", list.issuer, "",
          end.map { StatusWords.end($0, now: snapshot.now) } ?? "no end",
        ], isBad: end.map { $0 <= snapshot.now } ?? false)
    }
    table("Certificates", ["Use", "For", "Subject or issuer", "Server", "End"], names: 5, certificates + lists)
  }

  private mutating func workers(_ snapshot: MetricsSnapshot) {
    table(
      "Workers", ["Worker", "Lag, last 10 min", "Worst lag of the last minutes"], names: 1,
      snapshot.workers.map { worker in
        let lags = snapshot.history.values(.worker(worker.index))
        return Row(
          [
            Cell("\(worker.index)"), .line(lags, "lag up to \(lags.max() ?? 0) ms within the last 10 minutes"),
            Cell("\(worker.lag.worst) ms"),
          ], isBad: worker.lag.worst >= StatusProblem.longLag)
      })
  }

  // MARK: Over time

  private static let rates = ["1 min", "10 min", "Last 10 min"]

  /// The rates of the last minute and of the last ten, and a line over these.
  private func rates(_ history: CountHistory, _ subject: CountHistory.Subject) -> [Cell] {
    let line = history.line(subject)
    return [
      Cell(StatusWords.rate(history.span(subject, seconds: 60))),
      Cell(StatusWords.rate(history.span(subject, seconds: CountHistory.length))),
      .line(line, "up to \(StatusWords.rate(perMinute: line.max() ?? 0)) within the last 10 minutes"),
    ]
  }

  /// The share of errors within the last ten minutes, marked from where the alert `SallyportServerErrors` begins.
  private func errorShare(_ history: CountHistory, _ subject: CountHistory.Subject) -> Cell {
    guard let counts = history.span(subject, seconds: CountHistory.length)?.counts, counts.all > 0 else {
      return Cell("–")
    }
    let share = Double(counts.errors) / Double(counts.all)
    return share > 0.05 ? .marked(StatusWords.share(share)) : Cell(StatusWords.share(share))
  }

  // MARK: Tables

  private enum Cell {
    case text(String)
    /// What somebody should look at.
    case marked(String)
    /// Values over time, the oldest first, and what they are in words.
    case line([UInt64], String)

    init(_ text: String) { self = .text(text) }
    init(_ count: UInt64) { self = .text(StatusWords.count(count)) }
  }

  private struct Row {
    var cells: [Cell]
    var isBad = false
    init(_ cells: [Cell], isBad: Bool = false) {
      self.cells = cells
      self.isBad = isBad
    }
    init(_ cells: [String], isBad: Bool = false) { self.init(cells.map { .text($0) }, isBad: isBad) }
  }

  /// `names`: so many columns are text, the others numbers. On a narrow screen a row becomes a card, whose lines take
  /// their names from `data-n`, unless the table `isCompact`: few columns have room there.
  private mutating func table(
    _ title: String, _ columns: [String], names: Int, isCompact: Bool = false, _ rows: [Row]
  ) {
    guard !rows.isEmpty else { return }
    output += "<section><h2>\(title)</h2><table\(isCompact ? "" : " class=\"cards\"")><thead><tr>"
    for (place, column) in columns.enumerated() {
      output += place < names ? "<th scope=\"col\">" : "<th scope=\"col\" class=\"n\">"
      text(column)
      output += "</th>"
    }
    output += "</tr></thead><tbody>"
    for row in rows {
      output += row.isBad ? "<tr class=\"bad\">" : "<tr>"
      // `columns` are words of this file.
      for (place, (cell, column)) in zip(row.cells, columns).enumerated() {
        let kind = place < names ? "" : "n"
        switch cell {
        case .text(""): output += "<td class=\"\(kind)\">"
        case .text(let words):
          output += "<td class=\"\(kind)\" data-n=\"\(column)\">"
          text(words)
        case .marked(let words):
          output += "<td class=\"\(kind) marked\" data-n=\"\(column)\">"
          text(words)
        case .line(let values, let words):
          output += "<td class=\"\(kind)\" data-n=\"\(column)\">"
          line(values, words)
        }
        output += "</td>"
      }
      output += "</tr>"
    }
    output += "</tbody></table></section>"
  }

  /// Draws values over time, the greatest at the top.
  private mutating func line(_ values: [UInt64], _ words: String) {
    guard values.count > 1 else { return text("–") }
    let top = Double(max(1, values.max() ?? 1)), step = 100 / Double(values.count - 1)
    output += "<svg viewBox=\"0 0 100 20\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\""
    text(words)
    output += "\"><title>"
    text(words)
    output += "</title><polyline points=\""
    for (place, value) in values.enumerated() {
      output += "\(Self.tenths(Double(place) * step)),\(Self.tenths(19 - 18 * Double(value) / top)) "
    }
    output += "\"/></svg>"
  }

  /// A coordinate, with one digit behind the point.
  private static func tenths(_ value: Double) -> String { "\((value * 10).rounded() / 10)" }

  /// Appends text of any origin.
  private mutating func text(_ text: String) { output += Self.escaped(text) }

  static func escaped(_ text: String) -> String { HTMLText.escaped(text) }
}

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
    page.tiles(snapshot)
    page.servers(snapshot)
    page.streams(snapshot)
    page.upstreams(snapshot)
    page.overrides(snapshot.overrides)
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
      + "<title>sallyport status</title><style>\(Self.style)</style></head><body><main><header><h1>sallyport</h1><p>"
    let up = StatusWords.span(snapshot.age)
    text(
      "\(Product.version) · generation \(snapshot.generation.number), loaded "
        + "\(StatusWords.time(snapshot.reloads.loadedAt)) · up \(up) · \(StatusWords.time(snapshot.now))")
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
    table(
      "Servers", ["Server", "Listen", "Requests", "2xx", "3xx", "4xx", "5xx", "Median", "95 %", "In", "Out"], names: 2,
      snapshot.servers.map { series, totals in
        let classes = totals.classes.map { StatusWords.count($0) }
        return Row(
          [series.server.isEmpty ? "(no name)" : series.server, series.listen, StatusWords.count(totals.all)]
            + classes[2...5]
            + [
              StatusWords.time(totals.times, share: 0.5), StatusWords.time(totals.times, share: 0.95),
              StatusWords.bytes(totals.received), StatusWords.bytes(totals.sent),
            ])
      })
  }

  private mutating func streams(_ snapshot: MetricsSnapshot) {
    table(
      "TCP servers",
      ["Server", "Listen", "Open", "Ended", "Refused", "Failed", "Median", "95 %", "In", "Out"], names: 2,
      snapshot.streams.map { series, totals in
        Row([
          series.server.isEmpty ? "(no name)" : series.server, series.listen, StatusWords.count(totals.open),
          StatusWords.count(totals.ended), StatusWords.count(totals.refused), StatusWords.count(totals.failed),
          StatusWords.time(totals.times, share: 0.5), StatusWords.time(totals.times, share: 0.95),
          StatusWords.bytes(totals.received), StatusWords.bytes(totals.sent),
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
      ["Upstream", "Server", "State", "Attempts", "Failed", "5xx", "Median", "95 %", "Kept", "In use"], names: 3,
      snapshot.upstreams.map { server in
        let totals = server.totals
        let isDown = server.isUp == false
        return Row(
          [
            server.series.upstream.description, server.series.server,
            isDown ? "down" : totals.isUnavailable ? "failing" : server.isUp == true ? "up" : "in use",
            StatusWords.count(totals.attempts), StatusWords.count(totals.failures),
            StatusWords.count(totals.serverErrors), StatusWords.time(totals.times, share: 0.5),
            StatusWords.time(totals.times, share: 0.95), StatusWords.count(totals.idle),
            StatusWords.count(totals.open > totals.idle ? totals.open - totals.idle : 0),
          ], isBad: isDown || totals.isUnavailable)
      })
  }

  /// The most certificates that the table names.
  private static let shownDenials = 100

  private mutating func overrides(_ overrides: RuntimeOverrides) {
    var rows = overrides.servers.map { Row(["upstream \($0.upstream)", $0.server, $0.words]) }
    rows += overrides.denials.prefix(Self.shownDenials).map { denial in
      Row(["client", denial.fingerprint, "denied for \(StatusWords.span(Int64(clamping: denial.seconds)))"])
    }
    let others = overrides.denials.count - Self.shownDenials
    if others > 0 { rows.append(Row(["clients", "\(others) more certificates", "denied"])) }
    table("Changed by the API", ["What", "Server or certificate", "Change"], names: 3, rows)
  }

  private mutating func handshakes(_ snapshot: MetricsSnapshot) {
    func rows<Label>(_ what: String, _ counters: [Counter<Label>]) -> [Row] {
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
    table("Handshakes", ["What", "Result", "Count"], names: 2, all)
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
      "Workers", ["Worker", "Worst lag of the last minutes"], names: 1,
      snapshot.workers.map { Row(["\($0.index)", "\($0.lag.worst) ms"], isBad: $0.lag.worst >= StatusProblem.longLag) })
  }

  // MARK: Tables

  private struct Row {
    var cells: [String]
    var isBad = false
    init(_ cells: [String], isBad: Bool = false) {
      self.cells = cells
      self.isBad = isBad
    }
  }

  /// `names`: so many columns are text, the others numbers. On a narrow screen a row becomes a card, whose lines take
  /// their names from `data-n`.
  private mutating func table(_ title: String, _ columns: [String], names: Int, _ rows: [Row]) {
    guard !rows.isEmpty else { return }
    output += "<section><h2>\(title)</h2><table><thead><tr>"
    for (place, column) in columns.enumerated() {
      output += place < names ? "<th scope=\"col\">" : "<th scope=\"col\" class=\"n\">"
      text(column)
      output += "</th>"
    }
    output += "</tr></thead><tbody>"
    for row in rows {
      output += row.isBad ? "<tr class=\"bad\">" : "<tr>"
      for (place, cell) in row.cells.enumerated() {
        output += place < names ? "<td" : "<td class=\"n\""
        // `columns` are words of this file.
        output += cell.isEmpty ? ">" : " data-n=\"\(columns[place])\">"
        text(cell)
        output += "</td>"
      }
      output += "</tr>"
    }
    output += "</tbody></table></section>"
  }

  /// Appends text of any origin.
  private mutating func text(_ text: String) { output += Self.escaped(text) }

  static func escaped(_ text: String) -> String { HTMLText.escaped(text) }
}

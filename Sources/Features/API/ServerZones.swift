import HTTP
import Observability
import Traffic

/// The counts of server blocks, as nginx Plus has them for those with `status_zone`: every block is a zone of its first name,
/// with its addresses behind it where several blocks have that name.
struct ServerZones {
  private let zones: [(name: String, write: (inout JSONText) -> Void)]

  /// `processing`: by meter, the requests in progress (`Worker.requestsInProgress`).
  init(_ metrics: Metrics, isOfStream: Bool, processing: [ObjectIdentifier: Int] = [:]) {
    let tables = metrics.all.map { $0.withMeters { $0 } }
    let all = (isOfStream ? Set(tables.flatMap(\.sessions.keys)) : Set(tables.flatMap(\.requests.keys))).sorted()
    let names = Dictionary(grouping: all, by: \.server)
    zones = all.map { series in
      let isAlone = names[series.server]?.count == 1
      let name =
        series.server.isEmpty ? series.listen : isAlone ? series.server : "\(series.server) \(series.listen)"
      if isOfStream {
        var totals = SessionTotals()
        for table in tables { table.sessions[series]?.add(to: &totals) }
        return (name, { [totals] json in Self.write(totals, &json) })
      }
      var totals = RequestTotals()
      let meters = tables.compactMap { $0.requests[series] }
      for meter in meters { meter.add(to: &totals) }
      let inProgress = meters.reduce(0) { $0 + (processing[ObjectIdentifier($1)] ?? 0) }
      return (name, { [totals] json in Self.write(totals, inProgress, &json) })
    }
  }

  func append(to json: inout JSONText) {
    for zone in zones { json.object(zone.name) { zone.write(&$0) } }
  }

  /// Returns false if there is no such zone.
  func append(_ name: String, to json: inout JSONText) -> Bool {
    guard let zone = zones.first(where: { $0.name == name }) else { return false }
    json.object { zone.write(&$0) }
    return true
  }

  private static func write(_ totals: RequestTotals, _ processing: Int, _ json: inout JSONText) {
    json.member("processing", processing)
    json.member("requests", Int64(clamping: totals.all))
    json.object("responses") { json in
      for place in RequestMeter.classes.indices.dropFirst() {
        json.member(RequestMeter.classes[place], Int64(clamping: totals.classes[place]))
      }
      json.codes(totals.codes)
      json.member("total", Int64(clamping: totals.all &- totals.classes[0]))
    }
    json.member("discarded", Int64(clamping: totals.classes[0]))
    json.member("received", Int64(clamping: totals.received))
    json.member("sent", Int64(clamping: totals.sent))
  }

  /// nginx's statuses of sessions: 200, 403 for a refusal, and 500 and more for a fault on the way.
  private static func write(_ totals: SessionTotals, _ json: inout JSONText) {
    let (refused, failed) = (totals.refused, totals.failed)
    json.member("processing", Int64(clamping: totals.open))
    json.member("connections", Int64(clamping: totals.ended &+ totals.open))
    json.object("sessions") {
      $0.member("2xx", Int64(clamping: totals.ended &- refused &- failed))
      $0.member("4xx", Int64(clamping: refused))
      $0.member("5xx", Int64(clamping: failed))
      $0.member("total", Int64(clamping: totals.ended))
    }
    json.member("discarded", 0)
    json.member("received", Int64(clamping: totals.received))
    json.member("sent", Int64(clamping: totals.sent))
  }
}

extension Worker {
  /// The requests that are in progress, by the meter of their server block. Nothing counts them meanwhile.
  var requestsInProgress: [ObjectIdentifier: Int] {
    sessions.values.reduce(into: [:]) { counts, session in
      for transaction in session.connection?.transactions ?? [] {
        if let meter = transaction.server.meter { counts[ObjectIdentifier(meter), default: 0] += 1 }
      }
    }
  }
}

extension JSONText {
  /// nginx Plus: each status that came.
  mutating func codes(_ counts: [UInt64]) {
    object("codes") { json in
      for (status, count) in StatusPlaces.seen(counts) { json.member("\(status)", Int64(clamping: count)) }
    }
  }
}

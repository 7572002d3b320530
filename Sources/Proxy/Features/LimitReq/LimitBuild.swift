import Observability
import Language

/// A `limit_req_zone`, or without a rate a `limit_conn_zone`.
struct LimitZone {
  var settings: LimitZoneSettings
  /// Thousandths of a request per second.
  var rate: Int?
}

extension SettingsBuilder {
  /// Collects the zones, before any `limit_req` or `limit_conn` names one of them.
  mutating func collectLimitZones(_ http: Scope) {
    for line in http.own("limit_req_zone") { addLimitZone(line, hasRate: true) }
    for line in http.own("limit_conn_zone") { addLimitZone(line, hasRate: false) }
  }

  private mutating func addLimitZone(_ line: Directive, hasRate: Bool) {
    var place: (name: String, size: Int)?
    // nginx's default.
    var rate: Int? = hasRate ? 1000 : nil
    for word in line.arguments.dropFirst() {
      if word.text.hasPrefix("zone=") {
        guard let parsed = zonePlace(word) else { return }
        place = parsed
      } else if hasRate, word.text.hasPrefix("rate=") {
        guard let parsed = Self.rate(word.text.dropFirst(5)) else {
          return error(word.location, "invalid rate \"\(word.text)\"", hint: "such as rate=10r/s or rate=30r/m")
        }
        rate = parsed
      } else {
        return error(
          word.location, "invalid parameter \"\(word.text)\"",
          hint: hasRate ? "zone=NAME:SIZE and rate=" : "zone=NAME:SIZE")
      }
    }
    guard let place else {
      return error(
        line.location, "\"\(line.name)\" must have \"zone\" parameter", hint: "\(line.name) KEY zone=NAME:SIZE …;")
    }
    if let taken = limitZones[place.name] {
      return error(
        line.location, "\(line.name) \"\(place.name)\" is already bound to key \"\(taken.settings.spelling)\"",
        hint: "use another name")
    }
    let settings = LimitZoneSettings(
      name: place.name, spelling: line.text(0), key: template(line, 0), size: place.size)
    limitZones[place.name] = LimitZone(settings: settings, rate: rate)
  }

  mutating func zonePlace(_ word: Word) -> (name: String, size: Int)? {
    let parts = word.text.dropFirst(5).split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
    guard parts.count == 2, !parts[0].isEmpty, let size = Quantity.size(String(parts[1])) else {
      error(word.location, "invalid zone size \"\(word.text)\"", hint: "such as zone=one:10m")
      return nil
    }
    guard size >= 32_768 else {
      error(word.location, "zone \"\(parts[0])\" is too small", hint: "at least 32k")
      return nil
    }
    return (String(parts[0]), size)
  }

  /// Parses `10r/s` or `10r/m`, to thousandths of a request per second.
  private static func rate(_ text: Substring) -> Int? {
    let isPerMinute = text.hasSuffix("r/m")
    let digits = isPerMinute || text.hasSuffix("r/s") ? text.dropLast(3) : text
    return thousandths(digits).map { isPerMinute ? $0 / 60 : $0 }
  }

  /// A positive number, in thousandths.
  private static func thousandths(_ text: Substring) -> Int? {
    guard let number = Quantity.number(String(text)), number > 0 else { return nil }
    let (product, overflow) = number.multipliedReportingOverflow(by: 1000)
    return overflow ? nil : product
  }

  // MARK: In a location

  mutating func trafficLimits(_ scope: Scope) -> TrafficLimitSettings? {
    var requests: [RequestLimitSettings.Line] = []
    for line in scope.list("limit_req") {
      guard let limit = requestLimit(line) else { continue }
      if requests.contains(where: { $0.zone.name == limit.zone.name }) {
        error(
          line.location, "\"limit_req\" directive is duplicate for zone \"\(limit.zone.name)\"", hint: "write it once")
        continue
      }
      requests.append(limit)
    }
    var connections: [ConnectionLimitSettings.Line] = []
    for line in scope.list("limit_conn") {
      guard let limit = connectionLimit(line) else { continue }
      if connections.contains(where: { $0.zone.name == limit.zone.name }) {
        error(
          line.location, "\"limit_conn\" directive is duplicate for zone \"\(limit.zone.name)\"", hint: "write it once")
        continue
      }
      connections.append(limit)
    }
    let rate = rateLimit(scope)
    if requests.isEmpty && connections.isEmpty && rate == nil { return nil }
    let requestLimits = RequestLimitSettings(lines: requests, response: limitResponse(scope, "limit_req"))
    let connectionLimits = ConnectionLimitSettings(lines: connections, response: limitResponse(scope, "limit_conn"))
    return TrafficLimitSettings(
      requests: requests.isEmpty ? nil : requestLimits, connections: connections.isEmpty ? nil : connectionLimits,
      rate: rate)
  }

  private mutating func rateLimit(_ scope: Scope) -> RateLimitSettings? {
    let (rate, free) = (rateSize(scope.value("limit_rate")), rateSize(scope.value("limit_rate_after")))
    // `set $limit_rate` in any location can lead here by an internal redirect.
    let slot = variables.slots["limit_rate"]
    return rate == nil && slot == nil && free == nil ? nil : RateLimitSettings(rate: rate, free: free, slot: slot)
  }

  /// A size that may have variables.
  mutating func rateSize(_ line: Directive?) -> Template? {
    guard let line else { return nil }
    let template = template(line, 0)
    if template.uses(where: { $0 == .simple(.limit_rate) }) {
      error(line.place(0), "\"\(line.name)\" names itself by $limit_rate", hint: "use another variable")
      return nil
    }
    if template.constant != nil, Quantity.size(line.text(0)) == nil || line.text(0).lowercased().hasSuffix("g") {
      error(
        line.place(0), "invalid value \"\(line.text(0))\" in \"\(line.name)\" directive",
        hint: "a size such as 50k or 2m")
      return nil
    }
    return template
  }

  private func limitResponse(_ scope: Scope, _ name: String) -> LimitResponseSettings {
    var response = LimitResponseSettings()
    response.isDryRun = scope.flag("\(name)_dry_run") ?? false
    response.status = scope.number("\(name)_status") ?? response.status
    response.level = scope.text("\(name)_log_level").flatMap { LogLevel(name: $0) } ?? response.level
    return response
  }

  private mutating func requestLimit(_ line: Directive) -> RequestLimitSettings.Line? {
    var zone: LimitZone?
    var burst = 0
    var delay = 0
    for word in line.arguments {
      let (name, value) = word.text.splitAtEquals
      switch (name, value) {
      case ("zone", let value?):
        guard let found = limitZone(value, at: word, of: "limit_req", hasRate: true) else { return nil }
        zone = found
      case ("burst", let value?), ("delay", let value?):
        guard let amount = Self.thousandths(value[...]) else {
          error(word.location, "invalid \(name) value \"\(word.text)\"", hint: "a whole number above 0")
          return nil
        }
        if name == "burst" { burst = amount } else { delay = amount }
      case ("nodelay", nil): delay = Int.max
      default:
        error(word.location, "invalid parameter \"\(word.text)\"", hint: "zone=, burst=, nodelay and delay=")
        return nil
      }
    }
    guard let zone, let rate = zone.rate else {
      error(line.location, "\"limit_req\" must have \"zone\" parameter", hint: "limit_req zone=NAME …;")
      return nil
    }
    return RequestLimitSettings.Line(zone: zone.settings, rate: rate, burst: burst, delay: delay)
  }

  private mutating func connectionLimit(_ line: Directive) -> ConnectionLimitSettings.Line? {
    guard let word = line.arguments.first,
      let zone = limitZone(word.text, at: word, of: "limit_conn", hasRate: false)
    else { return nil }
    guard let count = Quantity.number(line.text(1)), count > 0 else {
      error(line.place(1), "invalid number of connections \"\(line.text(1))\"", hint: "1 to 65535")
      return nil
    }
    guard count <= 65_535 else {
      error(line.place(1), "connection limit must be less 65536", hint: "1 to 65535")
      return nil
    }
    return ConnectionLimitSettings.Line(zone: zone.settings, count: count)
  }

  private mutating func limitZone(_ name: String, at word: Word, of directive: String, hasRate: Bool) -> LimitZone? {
    guard let zone = limitZones[name] else {
      error(
        word.location, "\"\(directive)\" names the zone \"\(name)\", which no \"\(directive)_zone\" declares",
        hint: "\(directive)_zone KEY zone=\(name):10m\(hasRate ? " rate=10r/s" : "");")
      return nil
    }
    guard (zone.rate != nil) == hasRate else {
      error(
        word.location, "the shared memory zone \"\(name)\" is already declared for a different use",
        hint: "\"\(directive)\" needs a zone of \"\(directive)_zone\"")
      return nil
    }
    return zone
  }
}

import Forward
import Language
import Observability
import Traffic

/// A zone of a limit, as a line of `http` or of `stream` declares it.
struct LimitZone: Sendable {
  var settings: LimitZoneSettings
  /// Whose variables its key has.
  var kind: TrafficKind
  /// Thousandths of a request per second; nil: the zone counts what is in progress.
  var rate: Int?
}

/// The zones of `limit_req_zone` and `limit_conn_zone`.
struct LimitZones: BlockPart {
  fileprivate var zones: [String: LimitZone] = [:]

  /// In the order of their names.
  var all: [LimitZone] { zones.values.sorted { $0.settings.name < $1.settings.name } }
}

extension LimitZone {
  /// Reads a line that declares a zone. `hasRate`: `rate=` may stand in it.
  static func add(_ line: Directive, hasRate: Bool, _ builder: inout SettingsBuilder) {
    var place: (name: String, size: Int)?
    // nginx's default.
    var rate: Int? = hasRate ? 1000 : nil
    for word in line.arguments.dropFirst() {
      if word.text.hasPrefix("zone=") {
        guard let parsed = Self.place(word, &builder) else { return }
        place = parsed
      } else if hasRate, word.text.hasPrefix("rate=") {
        guard let parsed = Quantity.requestRate(word.text.dropFirst(5)) else {
          return builder.error(word.location, "invalid rate \"\(word.text)\"", hint: "such as rate=10r/s or rate=30r/m")
        }
        rate = parsed
      } else if word.text.hasPrefix("store=") || word.text.hasPrefix("fail=") {
        continue
      } else {
        return builder.refuse(
          word, hint: hasRate ? "zone=NAME:SIZE, rate=, store= and fail=" : "zone=NAME:SIZE, store= and fail=")
      }
    }
    guard let place else {
      return builder.error(
        line.location, "\"\(line.name)\" must have \"zone\" parameter", hint: "\(line.name) KEY zone=NAME:SIZE …;")
    }
    if let taken = builder[LimitZones.self].zones[place.name] {
      return builder.error(
        line.location, "\(line.name) \"\(place.name)\" is already bound to key \"\(taken.settings.spelling)\"",
        hint: "use another name")
    }
    var settings = LimitZoneSettings(
      name: place.name, spelling: line.text(0), key: builder.template(line, 0), size: place.size)
    settings.store = StoreUse.read(line.arguments, of: line.name, standard: .local, &builder)
    builder[LimitZones.self].zones[place.name] = Self(settings: settings, kind: builder.kind, rate: rate)
  }

  static func place(_ word: Word, _ builder: inout SettingsBuilder) -> (name: String, size: Int)? {
    let parts = word.text.dropFirst(5).split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
    guard parts.count == 2, !parts[0].isEmpty, let size = Quantity.size(String(parts[1])) else {
      builder.error(word.location, "invalid zone size \"\(word.text)\"", hint: "such as zone=one:10m")
      return nil
    }
    guard size >= 32_768 else {
      builder.error(word.location, "zone \"\(parts[0])\" is too small", hint: "at least 32k")
      return nil
    }
    return (String(parts[0]), size)
  }

  /// The zone of a name, which a line of a location asks for. `directive`: the one that names it.
  static func named(
    _ name: String, at word: Word, of directive: String, hasRate: Bool, _ builder: inout SettingsBuilder
  ) -> Self? {
    guard let zone = builder[LimitZones.self].zones[name] else {
      builder.error(
        word.location, "\"\(directive)\" names the zone \"\(name)\", which no \"\(directive)_zone\" declares",
        hint: "\(directive)_zone KEY zone=\(name):10m\(hasRate ? " rate=10r/s" : "");")
      return nil
    }
    guard (zone.rate != nil) == hasRate, zone.kind == builder.kind else {
      let place = zone.kind == builder.kind ? "" : " in the same block, \"http\" or \"stream\""
      builder.error(
        word.location, "the shared memory zone \"\(name)\" is already declared for a different use",
        hint: "\"\(directive)\" needs a zone of \"\(directive)_zone\"\(place)")
      return nil
    }
    return zone
  }
}

extension Quantity {
  /// Parses `10r/s` or `10r/m`, to thousandths of a request per second.
  static func requestRate(_ text: Substring) -> Int? {
    let isPerMinute = text.hasSuffix("r/m")
    let digits = isPerMinute || text.hasSuffix("r/s") ? text.dropLast(3) : text
    return thousandths(digits).map { isPerMinute ? $0 / 60 : $0 }
  }

  /// A positive number, in thousandths.
  static func thousandths(_ text: Substring) -> Int? {
    guard let number = Quantity.number(String(text)), number > 0 else { return nil }
    let (product, overflow) = number.multipliedReportingOverflow(by: 1000)
    return overflow ? nil : product
  }
}

extension LimitResponseSettings {
  static let levels: KeyValuePairs<String, LogLevel> = [
    "info": .info, "notice": .notice, "warn": .warn, "error": .error,
  ]

  /// Says what a change of them means. `name`: the directive.
  static func compare(_ name: String, _ old: Self?, _ new: Self?, _ found: inout TrustChanges) {
    guard let old, let new else { return }
    found.flag(
      old.isDryRun, new.isDryRun, opens: "\(name) refuses nobody any more (dry run)", closes: "\(name) refuses again")
  }
}

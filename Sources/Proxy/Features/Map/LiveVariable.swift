import Bytes
import HTTP
import Patterns
import Transport

/// A variable of `map`, `geo` or `split_clients` in one worker.
class LiveVariable {
  /// Computed at each use, not once in a request.
  final let isVolatile: Bool

  init(isVolatile: Bool) { self.isVolatile = isVolatile }

  /// The value for an exchange; nil if it can't be told, because a regular expression reached its limit.
  func value(for exchange: Exchange) -> [UInt8]? { [] }

  static func make(_ variable: ComputedVariable) -> LiveVariable {
    switch variable.source {
    case .map(let map): LiveMap(map, isVolatile: variable.isVolatile)
    case .geo(let geo): LiveGeo(geo, isVolatile: variable.isVolatile)
    case .split(let split): LiveSplit(split, isVolatile: variable.isVolatile)
    }
  }
}

/// `map`.
final class LiveMap: LiveVariable {
  private let subject: LiveTemplate
  private let names: NameTable<LiveTemplate>
  private let patterns: [(pattern: RegularExpression, captures: [NamedCapture], value: LiveTemplate)]
  private let standard: LiveTemplate
  private let takesHostNames: Bool

  init(_ settings: MapSettings, isVolatile: Bool) {
    subject = LiveTemplate(settings.subject)
    names = NameTable(
      exact: settings.exact.mapValues { LiveTemplate($0) }, suffixes: settings.suffixes.mapValues { LiveTemplate($0) },
      prefixes: settings.prefixes.mapValues { LiveTemplate($0) })
    patterns = settings.patterns.map { ($0.pattern, $0.captures, LiveTemplate($0.value)) }
    standard = LiveTemplate(settings.standard)
    takesHostNames = settings.takesHostNames
    super.init(isVolatile: isVolatile)
  }

  override func value(for exchange: Exchange) -> [UInt8]? {
    var subject = subject.bytes(exchange)
    if takesHostNames, subject.last == 0x2E { subject.removeLast() }
    if let found = names.find(subject.map(ASCII.lower)) { return found.bytes(exchange) }
    // As in nginx, no regular expression is tried on an empty text.
    guard !subject.isEmpty else { return standard.bytes(exchange) }
    for entry in patterns {
      switch exchange.match(entry.pattern, subject, entry.captures, keepsOnMiss: true) {
      case .match: return entry.value.bytes(exchange)
      case .noMatch: continue
      case .limit: return nil
      }
    }
    return standard.bytes(exchange)
  }
}

/// `geo`.
final class LiveGeo: LiveVariable {
  private let settings: GeoSettings
  private let subject: LiveTemplate?
  private let proxies: [AccessRule.Source]

  init(_ settings: GeoSettings, isVolatile: Bool) {
    self.settings = settings
    proxies = settings.proxies.map { AccessRule.Source(network: $0) }
    subject = settings.subject.map { LiveTemplate($0) }
    super.init(isVolatile: isVolatile)
  }

  override func value(for exchange: Exchange) -> [UInt8]? {
    settings.value(of: address(for: exchange))
  }

  private func address(for exchange: Exchange) -> SocketAddress? {
    var address = exchange.clientAddress
    if let subject {
      let text = String(decoding: subject.bytes(exchange), as: UTF8.self)
      guard let parsed = SocketAddress(literal: text, port: 0) else { return nil }
      address = parsed
    }
    guard !proxies.isEmpty else { return address }
    var walk = ForwardedWalk(from: address, trusted: proxies, isRecursive: settings.isRecursive)
    let bytes = exchange.head.bytes.readable
    // The last line is the nearest proxy's.
    for field in exchange.head.fields.reversed() where field.id == .xForwardedFor {
      if !walk.take(bytes[field.value]) { break }
    }
    return walk.address
  }
}

/// `split_clients`.
final class LiveSplit: LiveVariable {
  private let subject: LiveTemplate
  private let settings: SplitSettings

  init(_ settings: SplitSettings, isVolatile: Bool) {
    subject = LiveTemplate(settings.subject)
    self.settings = settings
    super.init(isVolatile: isVolatile)
  }

  override func value(for exchange: Exchange) -> [UInt8]? {
    settings.value(of: subject.bytes(exchange))
  }
}

/// Austin Appleby's MurmurHash2 with seed 0, as nginx's `ngx_murmur_hash2`, so that a client stays in its share.
enum MurmurHash2 {
  static func hash(_ data: [UInt8]) -> UInt32 {
    let factor: UInt32 = 0x5bd1_e995
    var hash = UInt32(truncatingIfNeeded: data.count)
    var at = 0
    while data.count - at >= 4 {
      var word = UInt32(data[at]) | UInt32(data[at + 1]) << 8 | UInt32(data[at + 2]) << 16 | UInt32(data[at + 3]) << 24
      word = word &* factor
      word ^= word >> 24
      word = word &* factor
      hash = hash &* factor ^ word
      at += 4
    }
    let rest = data.count - at
    if rest > 0 {
      if rest > 2 { hash ^= UInt32(data[at + 2]) << 16 }
      if rest > 1 { hash ^= UInt32(data[at + 1]) << 8 }
      hash ^= UInt32(data[at])
      hash = hash &* factor
    }
    hash ^= hash >> 13
    hash = hash &* factor
    return hash ^ hash >> 15
  }
}

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

  init(_ settings: GeoSettings, isVolatile: Bool) {
    self.settings = settings
    subject = settings.subject.map { LiveTemplate($0) }
    super.init(isVolatile: isVolatile)
  }

  override func value(for exchange: Exchange) -> [UInt8]? {
    // nginx looks up 255.255.255.255 for what is no address.
    let number = address(for: exchange).flatMap { AddressRange.number($0) } ?? 0xFFFF_FFFF_FFFF
    let table = AddressRange.isIPv4(number) ? settings.ipv4 : settings.ipv6
    guard let index = table.find(number) ?? settings.standard, settings.values.indices.contains(index) else {
      return []
    }
    return settings.values[index]
  }

  private func address(for exchange: Exchange) -> SocketAddress? {
    var address = exchange.clientAddress
    if let subject {
      let text = String(decoding: subject.bytes(exchange), as: UTF8.self)
      guard let parsed = SocketAddress(literal: text, port: 0) else { return nil }
      address = parsed
    }
    guard !settings.proxies.isEmpty else { return address }
    let bytes = exchange.head.bytes.readable
    // The last line is the nearest proxy's.
    let lines = exchange.head.fields.filter { $0.id == .xForwardedFor }.map { Array(bytes[$0.value]) }
    return ForwardedAddress.find(
      address, in: Array(lines.joined(separator: [0x2C])), trusted: settings.proxies,
      isRecursive: settings.isRecursive)
  }
}

/// Finds the client of trusted proxies in X-Forwarded-For, as nginx's `ngx_http_get_forwarded_addr`.
enum ForwardedAddress {
  /// `list`: all lines of the field, joined by commas. Reads it from its end, and each byte at most twice.
  static func find(
    _ peer: SocketAddress, in list: [UInt8], trusted: [AddressRange], isRecursive: Bool
  ) -> SocketAddress {
    var address = peer
    var end = list.count
    while let number = AddressRange.number(address), trusted.contains(where: { $0.contains(number) }) {
      func isSeparator(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x2C }
      while end > 0, isSeparator(list[end - 1]) { end -= 1 }
      var start = end
      while start > 0, !isSeparator(list[start - 1]) { start -= 1 }
      guard let next = parse(list[start..<end]) else { return address }
      address = next
      end = start
      guard isRecursive else { break }
    }
    return address
  }

  /// Parses an address, with or without a port: `192.0.2.1:80`, `[2001:db8::1]:80`.
  private static func parse(_ text: ArraySlice<UInt8>) -> SocketAddress? {
    guard (2...60).contains(text.count) else { return nil }
    var literal = String(decoding: text, as: UTF8.self)
    if literal.hasPrefix("[") {
      guard let close = literal.firstIndex(of: "]") else { return nil }
      let rest = literal[literal.index(after: close)...]
      guard rest.isEmpty || isPort(rest) else { return nil }
      literal = String(literal[literal.index(after: literal.startIndex)..<close])
    } else if let colon = literal.firstIndex(of: ":"), literal.lastIndex(of: ":") == colon {
      guard isPort(literal[colon...]) else { return nil }
      literal = String(literal[..<colon])
    }
    return SocketAddress(literal: literal, port: 0)
  }

  private static func isPort(_ text: Substring) -> Bool {
    text.hasPrefix(":") && UInt16(text.dropFirst()).map { $0 > 0 } ?? false
  }
}

/// `split_clients`.
final class LiveSplit: LiveVariable {
  private let subject: LiveTemplate
  private let parts: [SplitSettings.Part]

  init(_ settings: SplitSettings, isVolatile: Bool) {
    subject = LiveTemplate(settings.subject)
    parts = settings.parts
    super.init(isVolatile: isVolatile)
  }

  override func value(for exchange: Exchange) -> [UInt8]? {
    let hash = MurmurHash2.hash(subject.bytes(exchange))
    return parts.first { part in part.bound.map { hash < $0 } ?? true }?.value ?? []
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

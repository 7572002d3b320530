import Bytes
import Forward
import HTTP
import Language
import Observability
package import TLS
package import Traffic
import Transport

/// geo (nginx: ngx_http_geo_module): a variable whose value depends on an address.
enum Geo: Feature {
  static let chapter = Chapter.rewrite
  static let kinds: Set<TrafficKind> = [.http, .stream]

  private static let table = DirectiveEntry.local(
    "geo", [.http, .stream], .table(1...2, "[$ADDRESS] $VARIABLE"),
    "A variable whose value depends on an address: networks or `ranges`, `default`, `delete`, `proxy`, `proxy_recursive`, `volatile`.",
    repeatable: true, example: "geo $office { default 0; 192.0.2.0/24 1; }", trust: .told)

  static let directives = [table]

  static let definitions: [String: Definition] = [table.name: { _ = $1.defineTable($0) }]

  static func begin(_ http: Scope, _ builder: inout SettingsBuilder) { builder.addTables(http, table.name, geo) }

  private static func geo(_ directive: Directive, _ builder: inout SettingsBuilder) -> ComputedVariable {
    var lines = GeoLines()
    var isVolatile = false, takesRanges = false, isRecursive = false
    var proxies: [AddressRange] = []
    for line in directive.block ?? [] {
      if line.arguments.isEmpty {
        switch line.name {
        case "ranges":
          takesRanges = true
          if !lines.isEmpty {
            builder.error(
              line.location, "the \"ranges\" directive must be the first directive inside \"geo\" block",
              hint: "move it to the top")
          }
        case "proxy_recursive": isRecursive = true
        case "volatile": isVolatile = true
        default: builder.error(line.location, "invalid number of the geo parameters", hint: "NETWORK VALUE;")
        }
        continue
      }
      guard line.arguments.count == 1, line.block == nil else {
        builder.error(line.location, "invalid number of the geo parameters", hint: "NETWORK VALUE;")
        continue
      }
      switch line.name {
      case "default": lines.standard = lines.index(of: line.text(0))
      case "proxy": if let range = network(line.text(0), at: line.place(0), &builder) { proxies.append(range) }
      case "delete":
        if let range = range(line.text(0), takesRanges, at: line.place(0), &builder) { lines.remove(range) }
      default:
        guard let range = range(line.name, takesRanges, at: line.location, &builder) else { continue }
        if let former = lines.add(range, line.text(0), splits: takesRanges) {
          builder.warning(
            line.location,
            "duplicate \(takesRanges ? "range" : "network") \"\(line.name)\", value: \"\(line.text(0))\", old value: \"\(former)\"",
            hint: "this line counts")
        }
      }
    }
    var settings = GeoSettings(
      subject: directive.arguments.count > 1 ? builder.template(directive, 0) : nil, ipv4: lines.table(isIPv4: true),
      ipv6: lines.table(isIPv4: false), values: lines.values, standard: lines.standard)
    settings.proxies = proxies
    settings.isRecursive = isRecursive
    return ComputedVariable(settings, isVolatile: isVolatile)
  }

  private static func range(
    _ text: String, _ takesRanges: Bool, at place: SourceLocation, _ builder: inout SettingsBuilder
  ) -> AddressRange? {
    guard takesRanges else { return network(text, at: place, &builder) }
    let ends = text.split(separator: "-", omittingEmptySubsequences: false).map { AddressRange.parse(String($0)) }
    guard ends.count == 2, let first = ends[0]?.range, let last = ends[1]?.range, first.isIPv4, last.isIPv4,
      first.first == first.last, last.first == last.last, first.first <= last.first
    else {
      builder.error(place, "invalid range \"\(text)\"", hint: "two IPv4 addresses: 192.0.2.1-192.0.2.9")
      return nil
    }
    return AddressRange(first: first.first, last: last.last, isIPv4: true)
  }

  private static func network(
    _ text: String, at place: SourceLocation, _ builder: inout SettingsBuilder
  ) -> AddressRange? {
    guard let (range, isExact) = AddressRange.parse(text) else {
      builder.error(place, "invalid network \"\(text)\"", hint: "an IP address, or ADDRESS/BITS")
      return nil
    }
    if !isExact {
      builder.warning(place, "low address bits of \"\(text)\" are meaningless", hint: "write the network's address")
    }
    return range
  }
}

/// The lines of a `geo` block.
private struct GeoLines {
  private(set) var values: [[UInt8]] = []
  private var indices: [String: Int] = [:]
  /// Networks by themselves; ranges as disjoint pieces, sorted.
  private var networks: [AddressRange: Int] = [:]
  private var ranges: [(range: AddressRange, index: Int)] = []
  var standard: Int?

  var isEmpty: Bool { networks.isEmpty && ranges.isEmpty && standard == nil }

  mutating func index(of text: String) -> Int {
    if let index = indices[text] { return index }
    values.append(Array(text.utf8))
    indices[text] = values.count - 1
    return values.count - 1
  }

  /// Adds a network or a range, and returns the former value of the same one. With `splits`, it replaces the parts of
  /// earlier ranges that it covers.
  mutating func add(_ range: AddressRange, _ text: String, splits: Bool) -> String? {
    let index = index(of: text)
    guard splits else {
      return networks.updateValue(index, forKey: range).map { String(decoding: values[$0], as: UTF8.self) }
    }
    let former = ranges.first { $0.range == range }?.index
    cut(range)
    let place = ranges.firstIndex { $0.range.first > range.last } ?? ranges.count
    ranges.insert((range, index), at: place)
    return former.map { String(decoding: values[$0], as: UTF8.self) }
  }

  mutating func remove(_ range: AddressRange) {
    networks[range] = nil
    ranges.removeAll { $0.range == range }
  }

  private mutating func cut(_ hole: AddressRange) {
    guard ranges.contains(where: { $0.range.last >= hole.first && $0.range.first <= hole.last }) else { return }
    ranges = ranges.flatMap { entry -> [(range: AddressRange, index: Int)] in
      let range = entry.range
      guard range.last >= hole.first, range.first <= hole.last else { return [entry] }
      var rest: [(range: AddressRange, index: Int)] = []
      if range.first < hole.first {
        rest.append((AddressRange(first: range.first, last: hole.first - 1, isIPv4: true), entry.index))
      }
      if range.last > hole.last {
        rest.append((AddressRange(first: hole.last + 1, last: range.last, isIPv4: true), entry.index))
      }
      return rest
    }
  }

  func table(isIPv4: Bool) -> GeoTable {
    let all = networks.map { (range: $0.key, index: $0.value) } + ranges
    return GeoTable(all.filter { $0.range.isIPv4 == isIPv4 })
  }
}

/// `geo`: networks and their values.
package struct GeoSettings: Sendable {
  /// The address to look up; nil: the client's.
  package var subject: Template?
  package var ipv4: GeoTable
  package var ipv6: GeoTable
  /// Indexed by what the tables find; text without variables.
  package var values: [[UInt8]]
  /// The index of `default`; nil for an empty value.
  package var standard: Int?
  /// `proxy`: clients whose X-Forwarded-For counts.
  package var proxies: [AddressRange] = []
  /// `proxy_recursive`
  package var isRecursive = false

  /// nginx looks up 255.255.255.255 for what is no address.
  func value(of address: SocketAddress?) -> [UInt8] {
    let number = address.flatMap { AddressRange.number($0) } ?? 0xFFFF_FFFF_FFFF
    let table = AddressRange.isIPv4(number) ? ipv4 : ipv6
    guard let index = table.find(number) ?? standard, values.indices.contains(index) else { return [] }
    return values[index]
  }

  /// Text that is equal for equal values.
  package func fingerprint(_ names: [Int: String]) -> String {
    "geo \(subject?.text(names) ?? "") \(ipv4) \(ipv6) \(values) \(standard ?? -1) \(proxies) \(isRecursive)"
  }
}

extension GeoSettings: LiveVariableSettings {
  package var decidingText: Template? { subject }
  package var possibleValues: [Template]? { Self.constants(values) }
  /// `proxy` lines look at a field of a request.
  package var readsForwardedAddress: Bool { !proxies.isEmpty }
  package func live(isVolatile: Bool, _ makers: LiveMakers) -> LiveVariable { LiveGeo(self, isVolatile: isVolatile) }

  package func value(in tables: HandshakeTables, _ known: (HandshakeVariable) -> [UInt8]?) -> [UInt8]? {
    let text = if let subject { tables.value(of: subject, known) } else { known(.remote_addr) }
    return text.map { value(of: SocketAddress(literal: String(decoding: $0, as: UTF8.self), port: 0)) }
  }
}

/// `geo` in one worker.
package final class LiveGeo: LiveVariable {
  private let settings: GeoSettings
  private let subject: CompiledTemplate?
  private let proxies: [AccessRule.Source]

  init(_ settings: GeoSettings, isVolatile: Bool) {
    self.settings = settings
    proxies = settings.proxies.map { AccessRule.Source(network: $0) }
    subject = settings.subject.map(\.compiled)
    super.init(isVolatile: isVolatile)
  }

  package override func value(for transaction: Transaction) -> [UInt8]? {
    settings.value(of: address(for: transaction))
  }

  private func address(for transaction: Transaction) -> SocketAddress? {
    var address = transaction.clientAddress
    if let subject {
      let text = String(decoding: subject.bytes(transaction), as: UTF8.self)
      guard let parsed = SocketAddress(literal: text, port: 0) else { return nil }
      address = parsed
    }
    guard !proxies.isEmpty else { return address }
    var walk = ForwardedWalk(from: address, trusted: proxies, isRecursive: settings.isRecursive)
    for line in transaction.forwardedFor where !line.withUnsafeBytes({ walk.take($0) }) { break }
    return walk.address
  }
}

import Forward
import Language
import Observability
package import TLS
package import Traffic

/// split_clients (nginx: ngx_http_split_clients_module): a variable whose value depends on the hash of a text.
enum SplitClients: Feature {
  static let chapter = Chapter.rewrite
  static let kinds: Set<TrafficKind> = [.http, .stream]

  private static let table = DirectiveEntry.local(
    "split_clients", [.http, .stream], .table(2...2, "STRING $VARIABLE"),
    "A variable whose value depends on the hash of a text, with nginx's hash and shares.", repeatable: true,
    example: "split_clients $remote_addr $variant { 10% new; * old; }", trust: .told)

  static let directives = [table]

  static let definitions: [String: Definition] = [table.name: { _ = $1.defineTable($0) }]

  static func begin(_ http: Scope, _ builder: inout SettingsBuilder) { builder.addTables(http, table.name, split) }

  private static func split(_ directive: Directive, _ builder: inout SettingsBuilder) -> ComputedVariable {
    var parts: [SplitSettings.Part] = []
    // Hundredths of a percent.
    var sum = 0
    var bound: UInt64 = 0
    for line in directive.block ?? [] {
      guard line.arguments.count == 1, line.block == nil else {
        builder.error(
          line.location, "invalid number of the split_clients parameters", hint: "PERCENT% VALUE; or * VALUE;")
        continue
      }
      let value = Array(line.text(0).utf8)
      if line.name == "*" {
        sum = 10_000
        parts.append(.init(bound: nil, value: value))
        continue
      }
      guard let share = Self.hundredths(line.name) else {
        builder.error(
          line.location, "invalid percent value \"\(line.name)\"", hint: "0.01% to 100%, with up to two decimals, or *")
        continue
      }
      sum += share
      if sum > 10_000 {
        builder.error(line.location, "percent total is greater than 100%", hint: "the last part can be *")
      }
      bound += UInt64(share) * 0xFFFF_FFFF / 10_000
      parts.append(.init(bound: UInt32(clamping: bound), value: value))
    }
    return ComputedVariable(SplitSettings(subject: builder.template(directive, 0), parts: parts))
  }

  /// Parses `12.34%`.
  private static func hundredths(_ text: String) -> Int? {
    guard text.hasSuffix("%") else { return nil }
    let parts = text.dropLast().split(separator: ".", omittingEmptySubsequences: false)
    let decimals = parts.count > 1 ? String(parts[1]) : ""
    guard (1...2).contains(parts.count), decimals.utf8.count <= 2, let whole = Quantity.number(String(parts[0])),
      whole <= 100, let rest = Quantity.number((decimals + "00").prefix(2).description)
    else { return nil }
    let share = whole * 100 + rest
    return (1...10_000).contains(share) ? share : nil
  }
}

/// What one `split_clients` says.
package struct SplitSettings: Sendable {
  /// A share of the clients: those whose hash is below `bound`; nil for all the others (`*`).
  package struct Part: Sendable, Hashable {
    package var bound: UInt32?
    package var value: [UInt8]
  }
  package var subject: Template
  package var parts: [Part]

  func value(of subject: [UInt8]) -> [UInt8] {
    let hash = MurmurHash2.hash(subject)
    return parts.first { part in part.bound.map { hash < $0 } ?? true }?.value ?? []
  }

  /// Text that is equal for equal values.
  package func fingerprint(_ names: [Int: String]) -> String { "split \(subject.text(names)) \(parts)" }
}

extension SplitSettings: LiveVariableSettings {
  package var decidingText: Template? { subject }
  package var possibleValues: [Template]? { Self.constants(parts.map(\.value)) }
  package func live(isVolatile: Bool, _ makers: LiveMakers) -> LiveVariable { LiveSplit(self, isVolatile: isVolatile) }

  package func value(in tables: HandshakeTables, _ known: (HandshakeVariable) -> [UInt8]?) -> [UInt8]? {
    tables.value(of: subject, known).map { value(of: $0) }
  }
}

/// `split_clients` in one worker.
package final class LiveSplit: LiveVariable {
  private let subject: CompiledTemplate
  private let settings: SplitSettings

  init(_ settings: SplitSettings, isVolatile: Bool) {
    subject = settings.subject.compiled
    self.settings = settings
    super.init(isVolatile: isVolatile)
  }

  package override func value(for transaction: Transaction) -> [UInt8]? {
    settings.value(of: subject.bytes(transaction))
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

import Bytes
import Forward
import HTTP
import Language
import Observability
package import Patterns
package import TLS
package import Traffic

/// map (nginx: ngx_http_map_module): a variable whose value depends on a text.
enum Map: Feature {
  static let chapter = Chapter.rewrite
  static let kinds: Set<TrafficKind> = [.http, .stream]

  private static let table = DirectiveEntry.local(
    "map", [.http, .stream], .table(2...2, "STRING $VARIABLE"),
    "A variable whose value depends on a text: exact (case doesn't matter), `hostnames`, `~regex`, `default`, `volatile`. If a regular expression reaches its limit, the response is 500. sallyport refuses maps that depend on each other in a circle.",
    repeatable: true, example: "map $ssl_server_name $backend { default app; db.example.com db; }", trust: .told)

  static let directives: [DirectiveEntry] = [
    table,
    .inert("map_hash_bucket_size", [.http, .stream], because: "the tables grow as needed"),
    .inert("map_hash_max_size", [.http, .stream], because: "the tables grow as needed"),
  ]

  static let definitions: [String: Definition] = [
    table.name: { directive, defined in
      guard defined.defineTable(directive) else { return }
      for line in directive.block ?? [] where line.name.hasPrefix("~") {
        let isCaseless = line.name.hasPrefix("~*")
        defined.compile(
          String(line.name.dropFirst(isCaseless ? 2 : 1)), at: line.nameWord, caseless: isCaseless,
          what: "map parameter")
      }
    }
  ]

  static func begin(_ http: Scope, _ builder: inout SettingsBuilder) { builder.addTables(http, table.name, map) }

  private static func map(_ directive: Directive, _ builder: inout SettingsBuilder) -> ComputedVariable {
    var map = MapSettings(subject: builder.template(directive, 0))
    var names = HostNames<Template>()
    var isVolatile = false
    var standard: Template?
    for line in directive.block ?? [] {
      if line.arguments.isEmpty, line.name == "hostnames" {
        map.takesHostNames = true
        continue
      }
      if line.arguments.isEmpty, line.name == "volatile" {
        isVolatile = true
        continue
      }
      guard line.arguments.count == 1, line.block == nil else {
        builder.error(line.location, "invalid number of the map parameters", hint: "TEXT VALUE;")
        continue
      }
      let value = builder.template(line, 0)
      if line.name == "default" {
        if standard != nil {
          builder.error(line.location, "duplicate default map parameter", hint: "leave one of them out")
        }
        standard = value
      } else if line.name.hasPrefix("~") {
        guard let pattern = builder.variables.pattern(at: line.nameWord) else { continue }
        OpenPatternRule.judge(pattern.pattern, at: line.nameWord, on: map.subject, &builder)
        map.patterns.append((pattern, builder.variables.namedCaptures(of: pattern), value))
      } else {
        let key = line.name.hasPrefix("\\") ? String(line.name.dropFirst()) : line.name
        if let fault = names.add(key.asciiLowercased, value, areWild: map.takesHostNames) {
          builder.error(line.location, "\(fault.rawValue) \"\(key)\"", hint: "each text once; case doesn't matter")
        }
      }
    }
    map.exact = names.table.exact
    map.suffixes = names.table.suffixes
    map.prefixes = names.table.prefixes
    map.standard = standard ?? Template([])
    return ComputedVariable(map, isVolatile: isVolatile)
  }
}

extension Directive {
  /// The name as a word: a line of a `map` begins with a text, not with a directive's name.
  var nameWord: Word { Word(name, at: location) }
}

extension String {
  fileprivate var asciiLowercased: String {
    String(decoding: utf8.map { $0 &- 65 < 26 ? $0 | 0x20 : $0 }, as: UTF8.self)
  }
}

/// What one `map` says.
package struct MapSettings: Sendable {
  package var subject: Template
  /// Values by lower-case text.
  package var exact: [[UInt8]: Template] = [:]
  /// Values by wildcard name (`hostnames`): suffixes as `.example.com`, and prefixes as `www.example.`.
  package var suffixes: [[UInt8]: Template] = [:]
  package var prefixes: [[UInt8]: Template] = [:]
  package var patterns: [(pattern: RegularExpression, captures: [NamedCapture], value: Template)] = []
  package var standard = Template([])
  /// `hostnames`
  package var takesHostNames = false
  package init(subject: Template) { self.subject = subject }

  /// All values.
  package var values: [Template] {
    Array(exact.values) + Array(suffixes.values) + Array(prefixes.values) + patterns.map(\.value) + [standard]
  }

  /// Text that is equal for equal values.
  package func fingerprint(_ names: [Int: String]) -> String {
    func text(_ table: [[UInt8]: Template]) -> String {
      table.map { "\(String(decoding: $0, as: UTF8.self))=\($1.text(names))" }.sorted().joined(separator: ";")
    }
    let patterns = patterns.map { "\($0.pattern.pattern)=\($0.value.text(names))" }.joined(separator: ";")
    return "map \(subject.text(names)) \(text(exact)) \(text(suffixes)) \(text(prefixes)) \(patterns)"
      + " \(standard.text(names))"
  }
}

extension MapSettings: LiveVariableSettings {
  package var decidingText: Template? { subject }
  package var possibleValues: [Template]? { values }
  package func live(isVolatile: Bool, _ makers: LiveMakers) -> LiveVariable { LiveMap(self, isVolatile: isVolatile) }

  package func value(in tables: HandshakeTables, _ known: (HandshakeVariable) -> [UInt8]?) -> [UInt8]? {
    guard var subject = tables.value(of: self.subject, known) else { return nil }
    if takesHostNames, subject.last == 0x2E { subject.removeLast() }
    let names = NameTable(exact: exact, suffixes: suffixes, prefixes: prefixes)
    if let found = names.find(subject.map(ASCII.lower)) { return tables.value(of: found, known) }
    guard !subject.isEmpty, !patterns.isEmpty else { return tables.value(of: standard, known) }
    let scratch = RegularExpression.Scratch()
    for entry in patterns {
      var captures = Captures()
      switch subject.withUnsafeBytes({ entry.pattern.match($0, scratch: scratch, into: &captures) }) {
      case .match:
        return tables.value(
          of: entry.value, known, after: .init(captures: captures, subject: subject, named: entry.captures))
      case .noMatch: continue
      case .limit: return nil
      }
    }
    return tables.value(of: standard, known)
  }
}

/// `map` in one worker.
package final class LiveMap: LiveVariable {
  private let subject: CompiledTemplate
  /// Those of the settings, which all workers share: a map can have 100,000 of them.
  private let names: NameTable<Template>
  /// The ones of them that have variables. The best match of all, if it has variables, is the best match of these.
  private let varying: NameTable<CompiledTemplate>
  private let patterns: [(pattern: RegularExpression, captures: [NamedCapture], value: CompiledTemplate)]
  private let standard: CompiledTemplate
  private let takesHostNames: Bool

  init(_ settings: MapSettings, isVolatile: Bool) {
    subject = settings.subject.compiled
    names = NameTable(exact: settings.exact, suffixes: settings.suffixes, prefixes: settings.prefixes)
    varying = NameTable(
      exact: Self.varying(settings.exact), suffixes: Self.varying(settings.suffixes),
      prefixes: Self.varying(settings.prefixes))
    patterns = settings.patterns.map { ($0.pattern, $0.captures, $0.value.compiled) }
    standard = settings.standard.compiled
    takesHostNames = settings.takesHostNames
    super.init(isVolatile: isVolatile)
  }

  private static func varying(_ values: [[UInt8]: Template]) -> [[UInt8]: CompiledTemplate] {
    values.filter { $0.value.constant == nil }.mapValues(\.compiled)
  }

  package override func value(for transaction: Transaction) -> [UInt8]? {
    var subject = subject.bytes(transaction)
    if takesHostNames, subject.last == 0x2E { subject.removeLast() }
    let name = subject.map(ASCII.lower)
    if let found = names.find(name) { return found.constant ?? varying.find(name)?.bytes(transaction) }
    // As in nginx, no regular expression is tried on an empty text.
    guard !subject.isEmpty else { return standard.bytes(transaction) }
    for entry in patterns {
      switch transaction.match(entry.pattern, subject, entry.captures, keepsOnMiss: true) {
      case .match: return entry.value.bytes(transaction)
      case .noMatch: continue
      case .limit: return nil
      }
    }
    return standard.bytes(transaction)
  }
}

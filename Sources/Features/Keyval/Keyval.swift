import Crypto
import Forward
import Language
import Observability
package import Traffic
import Transport

/// A `keyval_zone`: pairs that the API changes while the process runs, and variables look up.
package struct KeyvalZoneSettings: Sendable, Hashable {
  package let name: String
  /// The memory for pairs, in bytes.
  package let size: Int
  /// Milliseconds after which a pair is forgotten; nil: never.
  package let timeout: Int?
  let matching: KeyvalMatching
  /// Where the pairs are kept; nil: in memory alone.
  let state: KeyvalState?
  /// The store that several machines have the pairs in; nil: this process alone.
  let store: StoreUse?
  let location: SourceLocation

  /// What makes two zones the same one.
  struct Identity: Hashable {
    let name: String
    let size: Int
    let matching: KeyvalMatching
    let state: KeyvalState?
    let store: String?
  }

  var identity: Identity {
    Identity(name: name, size: size, matching: matching, state: state, store: store?.store)
  }

  /// The file of `state`; nil without one.
  package var stateFile: String? { state?.path }
}

/// keyval (nginx: ngx_http_keyval_module): a variable whose value is that of a key among pairs that the API changes.
///
/// The folder is the whole feature: the directives here, and the pairs of a zone in `KeyvalZone`.
enum Keyval: APIFeature {
  static let chapter = Chapter.rewrite

  private static let zoneLine = DirectiveEntry.local(
    "keyval_zone", .http,
    .words(1...4, "zone=NAME:SIZE [state=FILE | store=NAME] [timeout=TIME] [type=string|ip|prefix]"),
    "A zone of pairs for `keyval`, which the API changes. All workers share it, and a reload keeps it; a restart forgets it,"
      + " unless `state` names a file for the pairs, or `store` a `shared_store` in which several machines have them. With `timeout`, a pair is forgotten so long after it was written. A full"
      + " zone takes no further pair. `type=ip`: keys are addresses and networks, and the smallest that contains the one"
      + " looked up counts. `type=prefix`: the longest key with which the one looked up begins.",
    repeatable: true, example: "keyval_zone zone=tenants:1m timeout=1h;", trust: .told)
  private static let line = DirectiveEntry.local(
    "keyval", .http, .words(3...3, "KEY $VARIABLE zone=NAME"),
    "A variable with the value of a key in a `keyval_zone`; empty without one.", repeatable: true,
    example: "keyval $ssl_client_s_dn_cn $tenant zone=tenants;", trust: .told)

  static let directives = [zoneLine, line]

  /// The variable stands before the zone.
  static let definitions: [String: Definition] = [
    line.name: { directive, defined in
      guard directive.arguments.count == 3 else { return }
      var table = directive
      table.arguments.removeLast()
      _ = defined.defineTable(table)
    }
  ]

  /// What the lines of `http` say.
  struct Block: BlockPart {
    /// By name.
    var zones: [String: KeyvalZoneSettings] = [:]
  }

  static let liveParts: [LivePart.Type] = [LiveKeyvals.self]

  static func begin(_ http: Scope, _ builder: inout SettingsBuilder) {
    for line in zoneLine.lines(in: http) {
      guard let zone = zone(line, &builder) else { continue }
      if builder[Block.self].zones[zone.name] != nil {
        builder.error(line.place(0), "duplicate keyval_zone \"\(zone.name)\"", hint: "use another name")
      }
      builder[Block.self].zones[zone.name] = zone
    }
    for line in line.lines(in: http) {
      guard line.arguments.count == 3 else { continue }
      let (word, value) = line.text(2).splitAtEquals
      guard word == "zone", let value else {
        builder.error(line.place(2), "invalid parameter \"\(line.text(2))\" in \"\(line.name)\"", hint: "zone=NAME")
        continue
      }
      guard let zone = builder[Block.self].zones[value] else {
        builder.error(
          line.place(2), "\"keyval\" names the zone \"\(value)\", which no \"keyval_zone\" declares",
          hint: "keyval_zone zone=\(value.isEmpty ? "NAME" : value):1m;")
        continue
      }
      builder.addVariable(
        line, named: 1, at: http, ComputedVariable(KeyvalSettings(key: builder.template(line, 0), zone: zone)))
    }
  }

  private static func zone(_ line: Directive, _ builder: inout SettingsBuilder) -> KeyvalZoneSettings? {
    var place: (name: String, size: Int)?
    var timeout: Int?
    var matching = KeyvalMatching.string
    var state: KeyvalState?
    for word in line.arguments {
      let (option, value) = word.text.splitAtEquals
      switch (option, value) {
      case ("zone", _?):
        guard let parsed = LimitZone.place(word, &builder) else { return nil }
        place = parsed
      case ("timeout", let value?):
        guard let time = Quantity.milliseconds(value), time > 0 else {
          builder.refuse(word, hint: "a time such as 1h")
          return nil
        }
        timeout = time
      case ("type", let value?):
        guard let type = KeyvalMatching(rawValue: value) else {
          builder.refuse(word, hint: "type=string, type=ip or type=prefix")
          return nil
        }
        matching = type
      case ("state", let value?) where !value.isEmpty:
        state = KeyvalState(path: resolve(value, in: builder.folder))
      case ("store", _?), ("fail", _?): continue
      default:
        builder.error(
          word.location, "invalid parameter \"\(word.text)\" in \"\(zoneLine.name)\"",
          hint: "zone=, state=, store=, timeout= and type=; for \"sync\", store=NAME")
        return nil
      }
    }
    guard let place else {
      builder.error(
        line.location, "\"\(zoneLine.name)\" must have \"zone\" parameter", hint: "keyval_zone zone=NAME:1m;")
      return nil
    }
    let store = StoreUse.read(line.arguments, of: zoneLine.name, standard: .local, allowing: [.local], &builder)
    if store != nil, state != nil {
      builder.error(
        line.location, "\"state\" beside \"store\": the pairs are in the store", hint: "leave one of them out")
    }
    return KeyvalZoneSettings(
      name: place.name, size: place.size, timeout: timeout, matching: matching, state: state,
      store: store, location: line.location)
  }

  static func fileUses(_ http: HTTPSettings) -> [FileUse] {
    http.keyvalZones.compactMap(\.stateFile).map { .path(.change, NewFile.folder(of: $0)) }
  }

  static func stateFiles(_ http: HTTPSettings) -> [String] { http.keyvalZones.compactMap(\.stateFile) }

  static func load(
    _ http: HTTPSettings, _ shared: SharedState, _ loader: inout MaterialLoader, _ parts: inout GenerationParts
  ) {
    let prepared = shared[KeyvalZones.self].prepared(http.keyvalZones, now: MonotonicClock.milliseconds)
    parts[KeptKeyvals.self] = prepared.kept
    loader.damagedStates += prepared.damaged
    for diagnostic in prepared.diagnostics { loader.report(diagnostic) }
  }
}

extension HTTPSettings {
  /// Each `keyval_zone`, in the order of their names.
  var keyvalZones: [KeyvalZoneSettings] { self[Keyval.Block.self].zones.values.sorted { $0.name < $1.name } }
}

extension LiveGeneration {
  /// Each `keyval_zone`, in the order of their names.
  var keyvals: [(settings: KeyvalZoneSettings, zone: KeyvalZone)] { self[LiveKeyvals.self]?.zones ?? [] }
}

/// The zones of a generation in one worker, kept also where no variable looks into them.
final class LiveKeyvals: LivePart {
  let zones: [(settings: KeyvalZoneSettings, zone: KeyvalZone)]
  /// Those with a store, in the first worker.
  private let followers: [SharedKeyval]

  required init(_ makers: LiveMakers) {
    let registry = makers.shared[KeyvalZones.self]
    zones = makers.generation.http.keyvalZones.map { ($0, registry.zone($0)) }
    let stores = makers[LiveStores.self]
    followers = (makers.loop.index == 0 ? zones : []).compactMap { settings, zone in
      stores[settings.store].map {
        SharedKeyval($0, settings, zone, loop: makers.loop, pool: makers.shared.pool, tell: LiveStores.teller(makers))
      }
    }
    super.init(makers)
  }

  override func close() { for follower in followers { follower.close() } }
}

/// What one `keyval` says.
struct KeyvalSettings: LiveVariableSettings {
  let key: Template
  let zone: KeyvalZoneSettings

  var decidingText: Template? { key }
  var possibleValues: [Template]? { nil }

  func fingerprint(_ names: [Int: String]) -> String {
    "keyval \(key.text(names)) \(zone.identity) \(zone.timeout ?? 0)"
  }

  func live(isVolatile: Bool, _ makers: LiveMakers) -> LiveVariable {
    LiveKeyval(self, makers.shared[KeyvalZones.self], isVolatile: isVolatile)
  }
}

/// `keyval` in one worker.
package final class LiveKeyval: LiveVariable {
  private let key: CompiledTemplate
  private let zone: KeyvalZone

  init(_ settings: KeyvalSettings, _ zones: KeyvalZones, isVolatile: Bool) {
    key = settings.key.compiled
    zone = zones.zone(settings.zone)
    super.init(isVolatile: isVolatile)
  }

  package override func value(for transaction: Transaction) -> [UInt8]? {
    zone.value(of: key.bytes(transaction), now: transaction.worker.loop.now) ?? []
  }
}

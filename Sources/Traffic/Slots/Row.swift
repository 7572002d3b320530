package import Crypto
package import Language
package import Observability

/// What rows set: a value whose initial properties are the defaults of directives.
package protocol RowSettings: Sendable { init() }

/// What a feature's directives set at one level, where the feature is that value.
package protocol FeatureSettings: RowSettings {
  /// One row for each directive of the feature, in the order in which they are read and in which the manual has them.
  static var rows: [Row<Self>] { get }
  /// The lines in effect ask for something. A level where they don't has nothing of the feature.
  var isInEffect: Bool { get }
}

extension FeatureSettings {
  /// Reads the directives in effect at a level. It records each error and goes on with the default.
  package init(_ scope: Scope, _ builder: inout SettingsBuilder) {
    self.init()
    Self.rows.read(scope, into: &self, &builder)
  }

  /// The rows as the table of all directives has them.
  package static var directives: [DirectiveEntry] { rows.entries }

  package var isInEffect: Bool { true }
}

extension LocationDirectives where Self: FeatureSettings {
  package static func read(_ level: Level, _ builder: inout SettingsBuilder) -> Self? {
    let settings = Self(level.scope, &builder)
    return settings.isInEffect ? settings : nil
  }
}

extension Array {
  /// Sets what the lines in effect at a level say, in the order of the rows. It records each error and goes on with the
  /// default.
  package func read<Settings>(
    _ scope: Scope, into settings: inout Settings, _ builder: inout SettingsBuilder
  ) where Element == Row<Settings> {
    for row in self { row.read(scope, into: &settings, &builder) }
  }

  /// The settings of a level: the defaults, and what the lines in effect say.
  package func read<Settings: RowSettings>(_ scope: Scope, _ builder: inout SettingsBuilder) -> Settings
  where Element == Row<Settings> {
    var settings = Settings()
    read(scope, into: &settings, &builder)
    return settings
  }

  /// The same for settings that nobody may ask for.
  package func read<Settings>(
    _ scope: Scope, into settings: inout Settings?, _ builder: inout SettingsBuilder
  ) where Element == Row<Settings> {
    guard var read = settings else { return }
    self.read(scope, into: &read, &builder)
    settings = read
  }
}

extension Array where Element: DirectiveRow {
  /// The rows as the table of all directives has them.
  package var entries: [DirectiveEntry] { map(\.entry) }
}

/// One directive: its row, and how a value gets into settings. The manual prints the initial value of the property that the
/// row sets as the default. `initial` says how the default is written where that value does not say it.
///
/// The type itself asks nothing of its settings: for a requirement, the runtime would search all conformances of the program
/// once for each feature, at each start.
package struct Row<Settings: Sendable>: DirectiveRow, Sendable {
  package typealias Place<Value> = any WritableKeyPath<Settings, Value> & Sendable
  package typealias Set = @Sendable (inout Settings, [Directive], inout SettingsBuilder) -> Void

  package private(set) var entry: DirectiveEntry
  /// Called with the lines in effect, if there are any. nil: the directive has no effect, or somebody else reads it.
  private let set: Set?

  /// A row whose lines `set` gets.
  package init(_ entry: DirectiveEntry, set: @escaping Set) {
    self.entry = entry
    self.set = set
  }

  /// A row that sets nothing: what asks for the line reads it.
  package init(_ entry: DirectiveEntry) {
    self.entry = entry
    set = nil
  }

  package func read(_ scope: Scope, into settings: inout Settings, _ builder: inout SettingsBuilder) {
    guard let set else { return }
    let lines = entry.lines(in: scope)
    if !lines.isEmpty { set(&settings, lines, &builder) }
  }

  /// The row, where the directive applies to its own level only.
  package func local() -> Row {
    var row = self
    row.entry.inheritance = .none
    return row
  }

  /// Several such rows.
  package static func local(_ rows: [Row]) -> [Row] { rows.map { $0.local() } }

  /// The row, with the option of `sallyport proxy` that says the same.
  package func option(_ name: String) -> Row {
    var row = self
    row.entry = entry.option(name)
    return row
  }

  fileprivate init<Value: RowNumber>(
    _ entry: DirectiveEntry, _ place: Place<Value>, _ parse: @escaping @Sendable (String) -> Int?
  ) {
    self.init(entry) { settings, lines, _ in
      if let number = parse(lines[0].text(0)) { settings[keyPath: place] = Value(clamping: number) }
    }
  }
}

extension Row where Settings: RowSettings {
  /// `on` or `off`.
  package static func flag(
    _ name: String, _ contexts: DirectiveContexts, _ place: Place<Bool>, initial: String? = nil, _ help: String,
    example: String, trust: TrustEffect = .untold
  ) -> Row {
    let initial = initial ?? (Settings()[keyPath: place] ? "on" : "off")
    return Row(.value(name, contexts, .flag, initial, help, example: example, trust: trust)) { settings, lines, _ in
      if let value = Flag(lines[0].text(0)) { settings[keyPath: place] = value }
    }
  }

  package static func number(
    _ name: String, _ contexts: DirectiveContexts, _ range: ClosedRange<Int>, _ place: Place<some RowNumber>,
    initial: String? = nil, _ help: String, example: String, trust: TrustEffect = .untold
  ) -> Row {
    let initial = initial ?? Settings()[keyPath: place].written { "\($0)" }
    return Row(.value(name, contexts, .number(range), initial, help, example: example, trust: trust), place) {
      Quantity.number($0)
    }
  }

  /// A size in bytes. `limits`: where others are an error, those that are none, and what the hint says then.
  package static func size(
    _ name: String, _ contexts: DirectiveContexts, _ place: Place<some RowNumber>, initial: String? = nil,
    limits: (range: ClosedRange<Int>, hint: String)? = nil, _ help: String, example: String,
    trust: TrustEffect = .untold
  ) -> Row {
    let initial = initial ?? Settings()[keyPath: place].written(Quantity.spelling(ofSize:))
    return Row(.value(name, contexts, .size, initial, help, example: example, trust: trust)) {
      settings, lines, builder in
      guard let size = Quantity.size(lines[0].text(0)) else { return }
      if let limits, !limits.range.contains(size) {
        return builder.refuse(lines[0], 0, hint: Wording(limits.hint))
      }
      settings[keyPath: place] = .init(clamping: size)
    }
  }

  package static func milliseconds(
    _ name: String, _ contexts: DirectiveContexts, _ place: Place<some RowNumber>, initial: String? = nil,
    _ help: String, example: String, trust: TrustEffect = .untold
  ) -> Row {
    let initial = initial ?? Settings()[keyPath: place].written(Quantity.spelling(ofMilliseconds:))
    return Row(.value(name, contexts, .milliseconds, initial, help, example: example, trust: trust), place) {
      Quantity.milliseconds($0)
    }
  }

  package static func seconds(
    _ name: String, _ contexts: DirectiveContexts, _ place: Place<some RowNumber>, initial: String? = nil,
    _ help: String, example: String, trust: TrustEffect = .untold
  ) -> Row {
    let initial =
      initial ?? Settings()[keyPath: place].written { Quantity.spelling(ofMilliseconds: $0 * 1000) }
    return Row(.value(name, contexts, .seconds, initial, help, example: example, trust: trust), place) {
      Quantity.seconds($0)
    }
  }

  /// One of a few words, each of which stands for a value.
  package static func choice<Value: Equatable & Sendable>(
    _ name: String, _ contexts: DirectiveContexts, _ words: KeyValuePairs<String, Value>, _ place: Place<Value>,
    initial: String? = nil, _ help: String, example: String, trust: TrustEffect = .untold
  ) -> Row {
    let words = words.map { ($0.key, $0.value) }
    // By indices: the runtime would search all conformances for each type of pairs, at each start.
    let own = Settings()[keyPath: place]
    let initial = initial ?? words.indices.first { words[$0].1 == own }.map { words[$0].0 } ?? ""
    let form = ArgumentForm.oneOf(words.map(\.0))
    return Row(.value(name, contexts, form, initial, help, example: example, trust: trust)) { settings, lines, _ in
      let text = lines[0].text(0).lowercased()
      if let value = words.first(where: { $0.0 == text })?.1 { settings[keyPath: place] = value }
    }
  }

  /// One of a few words that are the values' own names.
  package static func choice<Value: RawRepresentable<String> & Equatable & Sendable>(
    _ name: String, _ contexts: DirectiveContexts, _ values: [Value], _ place: Place<Value>, initial: String? = nil,
    _ help: String, example: String, trust: TrustEffect = .untold
  ) -> Row {
    let initial = initial ?? Settings()[keyPath: place].rawValue
    let form = ArgumentForm.oneOf(values.map(\.rawValue))
    return Row(.value(name, contexts, form, initial, help, example: example, trust: trust)) { settings, lines, _ in
      if let value = Value(rawValue: lines[0].text(0).lowercased()) { settings[keyPath: place] = value }
    }
  }

  /// One word as it stands. `absence`: the word that leaves the property nil, and the default then.
  package static func text(
    _ name: String, _ contexts: DirectiveContexts, _ usage: String, _ place: Place<String?>, absence: String? = nil,
    initial: String? = nil, _ help: String, example: String, trust: TrustEffect = .untold
  ) -> Row {
    let (form, initial) = (ArgumentForm.words(1...1, usage), initial ?? absence ?? "")
    return Row(.value(name, contexts, form, initial, help, example: example, trust: trust)) { settings, lines, _ in
      let text = lines[0].text(0)
      settings[keyPath: place] = text == absence ? nil : text
    }
  }

  /// One word that can have variables.
  package static func template(
    _ name: String, _ contexts: DirectiveContexts, _ usage: String, _ place: Place<Template?>,
    initial: String = "", _ help: String, example: String, trust: TrustEffect = .untold
  ) -> Row {
    let form = ArgumentForm.words(1...1, usage)
    return Row(.value(name, contexts, form, initial, help, example: example, trust: trust)) {
      settings, lines, builder in
      settings[keyPath: place] = builder.template(lines[0], 0)
    }
  }

  /// A file or credential.
  package static func material(
    _ name: String, _ contexts: DirectiveContexts, _ place: Place<MaterialReference?>, usage: String = "MATERIAL",
    initial: String = "", _ help: String, example: String, trust: TrustEffect = .untold
  ) -> Row {
    let form = ArgumentForm.words(1...1, usage)
    return Row(.value(name, contexts, form, initial, help, example: example, trust: trust)) {
      settings, lines, builder in
      settings[keyPath: place] = builder.material(lines[0])
    }
  }

  /// A number of buffers and the size of each, whose product must fit in a machine's memory.
  package static func buffers(
    _ name: String, _ contexts: DirectiveContexts, _ count: Place<Int>, _ size: Place<Int>, _ help: String,
    example: String, trust: TrustEffect = .untold
  ) -> Row {
    let standard = Settings()
    let initial = "\(standard[keyPath: count]) \(Quantity.spelling(ofSize: standard[keyPath: size]))"
    return Row(.value(name, contexts, .buffers, initial, help, example: example, trust: trust)) {
      settings, lines, builder in
      if let found = builder.buffers(lines[0]) {
        (settings[keyPath: count], settings[keyPath: size]) = (found.count, found.size)
      }
    }
  }

  /// All words of the lines in effect. `initial`: how the default is written. `set`: called for each word.
  package static func words(
    _ name: String, _ contexts: DirectiveContexts, usage: String, initial: String = "",
    _ help: String, example: String, trust: TrustEffect = .untold,
    set: @escaping @Sendable (inout Settings, Word, inout SettingsBuilder) -> Void
  ) -> Row {
    let form = ArgumentForm.words(1...Int.max, usage)
    return Row(.list(name, contexts, form, initial, help, example: example, trust: trust)) {
      settings, lines, builder in
      for line in lines { for word in line.arguments { set(&settings, word, &builder) } }
    }
  }

  /// A line whose words mean something together. `set`: called with the line in effect, if there is one.
  package static func line(
    _ name: String, _ contexts: DirectiveContexts, _ form: ArgumentForm, initial: String = "", _ help: String,
    example: String, trust: TrustEffect = .untold,
    set: @escaping @Sendable (inout Settings, Directive, inout SettingsBuilder) -> Void
  ) -> Row {
    Row(.value(name, contexts, form, initial, help, example: example, trust: trust)) { settings, lines, builder in
      set(&settings, lines[0], &builder)
    }
  }

  /// Lines that make a list. `set`: called with those in effect, if there are any.
  package static func lines(
    _ name: String, _ contexts: DirectiveContexts, _ form: ArgumentForm, initial: String = "", _ help: String,
    example: String, trust: TrustEffect = .untold, set: @escaping Set
  ) -> Row {
    Row(.list(name, contexts, form, initial, help, example: example, trust: trust), set: set)
  }

  /// A directive that is accepted and has no effect.
  package static func inert(
    _ name: String, _ contexts: DirectiveContexts, _ form: ArgumentForm = .anything, because reason: String,
    remark: @escaping @Sendable (Directive) -> Diagnostic? = { _ in nil }
  ) -> Row {
    Row(.inert(name, contexts, form, because: reason, remark: remark))
  }
}

/// A number that a row reads, or one that a line may leave out.
package protocol RowNumber: Sendable {
  init(clamping number: Int)
  var number: Int? { get }
}

extension RowNumber {
  /// The default as the manual writes it; nothing where there is none.
  fileprivate func written(_ spelling: (Int) -> String) -> String { number.map(spelling) ?? "" }
}

extension RowNumber where Self: FixedWidthInteger {
  package var number: Int? { Int(clamping: self) }
}

extension Int: RowNumber {}
extension Int64: RowNumber {}
extension UInt64: RowNumber {}
extension UInt32: RowNumber {}
extension Optional: RowNumber where Wrapped: RowNumber {
  package init(clamping number: Int) { self = Wrapped(clamping: number) }
  package var number: Int? { flatMap(\.number) }
}

extension Quantity {
  /// The shortest spelling that `size` reads as this size.
  package static func spelling(ofSize size: Int) -> String {
    for (suffix, shift) in [("g", 30), ("m", 20), ("k", 10)] where size > 0 && size % (1 << shift) == 0 {
      return "\(size >> shift)\(suffix)"
    }
    return "\(size)"
  }

  /// A spelling that `milliseconds` reads as this time, as nginx's documents write it: a minute is 60s, and ten are 10m.
  package static func spelling(ofMilliseconds time: Int) -> String {
    for (suffix, unit) in [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000)] where time > 60_000 && time % unit == 0 {
      return "\(time / unit)\(suffix)"
    }
    return time == 0 ? "0" : time % 1000 == 0 ? "\(time / 1000)s" : "\(time)ms"
  }
}

import Language
import Observability

/// What a feature's directives set at one level: a plain struct whose initial values are the defaults.
protocol FeatureSettings: Sendable {
  init()
  /// One row for each directive of the feature, in the order in which they are read and in which the manual has them.
  static var rows: [Row<Self>] { get }
  /// The lines in effect ask for something. A level where they don't has nothing of the feature.
  var isInEffect: Bool { get }
}

extension FeatureSettings {
  /// Reads the directives in effect at a level. It records each error and goes on with the default.
  init(_ scope: Scope, _ builder: inout SettingsBuilder) {
    self.init()
    for row in Self.rows { row.read?(&self, scope, &builder) }
  }

  /// The rows as the table of all directives has them.
  static var directives: [DirectiveEntry] { rows.map(\.entry) }

  var isInEffect: Bool { true }
}

extension LocationFeature where Self: FeatureSettings {
  static func read(_ level: Level, _ builder: inout SettingsBuilder) -> Self? {
    let settings = Self(level.scope, &builder)
    return settings.isInEffect ? settings : nil
  }
}

/// One directive of a feature: its row, and how a value gets into the feature's settings. The manual prints the initial value
/// of the property that a row sets as the default; `words` and `line`, which set by a function, say how it is written.
struct Row<Settings: FeatureSettings>: Sendable {
  typealias Read = @Sendable (inout Settings, Scope, inout SettingsBuilder) -> Void

  let entry: DirectiveEntry
  /// nil: the directive has no effect.
  let read: Read?

  /// `on` or `off`.
  static func flag(
    _ name: String, _ contexts: DirectiveContexts, _ place: any WritableKeyPath<Settings, Bool> & Sendable,
    _ help: String, example: String, trust: TrustEffect = .untold
  ) -> Row {
    let initial = Settings()[keyPath: place] ? "on" : "off"
    return Row(entry: .value(name, contexts, .flag, initial, help, example: example, trust: trust)) {
      settings, scope, _ in
      if let value = scope.flag(name) { settings[keyPath: place] = value }
    }
  }

  static func number(
    _ name: String, _ contexts: DirectiveContexts, _ range: ClosedRange<Int>,
    _ place: any WritableKeyPath<Settings, Int> & Sendable, _ help: String, example: String,
    trust: TrustEffect = .untold
  ) -> Row {
    let initial = "\(Settings()[keyPath: place])"
    return Row(entry: .value(name, contexts, .number(range), initial, help, example: example, trust: trust)) {
      settings, scope, _ in
      if let value = scope.number(name) { settings[keyPath: place] = value }
    }
  }

  /// A size in bytes.
  static func size(
    _ name: String, _ contexts: DirectiveContexts, _ place: any WritableKeyPath<Settings, UInt64> & Sendable,
    _ help: String, example: String, trust: TrustEffect = .untold
  ) -> Row {
    let initial = Quantity.spelling(ofSize: Settings()[keyPath: place])
    return Row(entry: .value(name, contexts, .size, initial, help, example: example, trust: trust)) {
      settings, scope, _ in
      if let value = scope.size(name) { settings[keyPath: place] = UInt64(clamping: value) }
    }
  }

  /// One of a few words, each of which stands for a value.
  static func choice<Value: Equatable & Sendable>(
    _ name: String, _ contexts: DirectiveContexts, _ words: KeyValuePairs<String, Value>,
    _ place: any WritableKeyPath<Settings, Value> & Sendable, _ help: String, example: String,
    trust: TrustEffect = .untold
  ) -> Row {
    let words = words.map { ($0.key, $0.value) }
    let initial = words.first { $0.1 == Settings()[keyPath: place] }?.0 ?? ""
    let form = ArgumentForm.oneOf(words.map(\.0))
    return Row(entry: .value(name, contexts, form, initial, help, example: example, trust: trust)) {
      settings, scope, _ in
      guard let text = scope.text(name)?.lowercased() else { return }
      if let value = words.first(where: { $0.0 == text })?.1 { settings[keyPath: place] = value }
    }
  }

  /// All words of the lines in effect. `initial`: how the default is written. `set`: called for each word.
  static func words(
    _ name: String, _ contexts: DirectiveContexts, usage: String, initial: String = "",
    _ help: String, example: String, trust: TrustEffect = .untold,
    set: @escaping @Sendable (inout Settings, Word, inout SettingsBuilder) -> Void
  ) -> Row {
    let form = ArgumentForm.words(1...Int.max, usage)
    return Row(entry: .list(name, contexts, form, initial, help, example: example, trust: trust)) {
      settings, scope, builder in
      for line in scope.list(name) { for word in line.arguments { set(&settings, word, &builder) } }
    }
  }

  /// A line whose words mean something together. `set`: called with the line in effect, if there is one.
  static func line(
    _ name: String, _ contexts: DirectiveContexts, _ form: ArgumentForm, initial: String, _ help: String,
    example: String, trust: TrustEffect = .untold,
    set: @escaping @Sendable (inout Settings, Directive, inout SettingsBuilder) -> Void
  ) -> Row {
    Row(entry: .value(name, contexts, form, initial, help, example: example, trust: trust)) {
      settings, scope, builder in
      if let line = scope.value(name) { set(&settings, line, &builder) }
    }
  }

  /// A directive that is accepted and has no effect.
  static func inert(
    _ name: String, _ contexts: DirectiveContexts, _ form: ArgumentForm = .anything, because reason: String
  ) -> Row {
    Row(entry: .inert(name, contexts, form, because: reason), nil)
  }

  private init(entry: DirectiveEntry, _ read: Read?) {
    self.entry = entry
    self.read = read
  }
}

extension Quantity {
  /// The shortest spelling that `size` reads as this size.
  static func spelling(ofSize size: UInt64) -> String {
    for (suffix, shift) in [("g", 30), ("m", 20), ("k", 10)] where size > 0 && size % (1 << shift) == 0 {
      return "\(size >> shift)\(suffix)"
    }
    return "\(size)"
  }
}

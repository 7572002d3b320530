package import Crypto
package import Identity
package import Observability
package import Transport
package import Upstream
package import Language

/// Builds settings from checked directives. It records each error and continues with a default, to report all errors.
package struct SettingsBuilder {
  package let features: FeatureDirectives
  /// The folder of the main file.
  package let folder: String
  /// Finds the addresses of a name in `listen`; nil if no name is looked up.
  package let lookUp: Resolver.LookUp?
  package var diagnostics: [Diagnostic] = []
  /// What features have read of the blocks so far.
  package var parts = BlockParts()
  /// The block that is being built: names of groups, formats, variables and `match` blocks are its own.
  package var kind = TrafficKind.http
  package var variables: DefinedVariables
  /// The variables of `map`, `geo` and `split_clients`, by slot, and the lines that define them.
  package var computed: [Int: ComputedVariable] = [:]
  package var tables: [Int: Directive] = [:]
  /// Where those lines stand in `http`, by slot.
  var tableOrder: [Int: Int] = [:]
  /// Some of them need each other, or too long a chain.
  package var hasCircles = false
  package var groups: [UpstreamGroupSettings] = []
  /// Indices of groups with `keepalive`.
  package var keptGroups: Set<Int> = []
  /// Indices into `groups`. Keys are lower-case names of `upstream` blocks; keys of `addressGroups`, name and port.
  package var namedGroups: [String: Int] = [:]
  package var addressGroups: [String: Int] = [:]
  package var servers: [ServerSettings] = []
  /// Files of `state` in an `upstream` that are none. Their groups begin without servers.
  package var damagedStates: Set<String> = []
  /// A location has `api write=on`.
  package var hasWritableAPI = false
  /// Of both blocks, whose slots differ.
  package var slotNames: [Int: String] = [:]
  package var setNames: [Int: String] = [:]
  package var listeners = ListenerTable()
  /// Client rules by the places of their lines. Levels that inherit the same lines share one object.
  package var clientRules: [[SourceLocation]: ClientRules?] = [:]

  /// `resolver` lines by their places; nil for a line with an error.
  package var resolvers: [SourceLocation: ResolverSettings?] = [:]

  package init(_ features: FeatureDirectives, folder: String, lookUp: Resolver.LookUp? = nil) {
    self.features = features
    variables = DefinedVariables(features)
    self.folder = folder
    self.lookUp = lookUp
  }

  package mutating func build(_ directives: [Directive]) -> Settings? {
    let scope = Scope(directives, outer: nil)
    let main = Main.settings(scope, &self)
    let (http, stream) = (Main.http.line(in: scope), scope.own("stream").first)
    guard http != nil || stream != nil else {
      diagnostics.append(
        Diagnostic(
          .error, at: nil, "no \"http\" block: sallyport has nothing to serve",
          hint: "http { server { … } }, or stream { server { … } } for TCP"))
      return nil
    }
    var level = scope
    if let http { level = addHTTP(http.block ?? [], at: http.location, outer: scope) }
    if let stream { addStream(stream.block ?? [], at: stream.location, outer: scope) }
    return Settings(main: main, http: traffic(level), folder: folder)
  }

  /// Ends a block: what it defines has no name in the other one.
  package mutating func endBlock() {
    parts.endBlock()
    slotNames.merge(variables.slotNames) { first, _ in first }
    setNames.merge(variables.setNames) { first, _ in first }
    tables = [:]
    tableOrder = [:]
    namedGroups = [:]
    addressGroups = [:]
  }

  /// Everything that both blocks say. `http`: the level of `http`, or the main one.
  private mutating func traffic(_ http: Scope) -> HTTPSettings {
    HTTPSettings(
      features: features, listeners: listeners.listeners, servers: servers, groups: groups,
      slots: variables.endSlot, computed: computed, setNames: setNames, slotNames: slotNames,
      resolvers: Array(Set(resolvers.values.compactMap { $0 })), clientLimits: ClientLimits.settings(http, &self),
      parts: parts, hasWritableAPI: hasWritableAPI)
  }

  // MARK: Shared by all parts

  package mutating func error(_ place: SourceLocation?, _ message: Wording, hint: Wording? = nil) {
    diagnostics.append(Diagnostic(.error, at: place, message, hint: hint))
  }

  @_disfavoredOverload
  package mutating func error(_ place: SourceLocation?, _ message: String, hint: String? = nil) {
    diagnostics.append(Diagnostic(.error, at: place, message, hint: hint))
  }

  /// Refuses a word of a line. `hint`: what stands there instead.
  package mutating func refuse(_ word: Word, of line: Directive, hint: Wording) {
    error(word.location, "invalid value \"\(word.text)\" in \"\(line.name)\" directive", hint: hint)
  }

  /// Refuses a parameter of a line.
  package mutating func refuse(_ parameter: Word, hint: Wording) {
    error(parameter.location, "invalid parameter \"\(parameter.text)\"", hint: hint)
  }

  package mutating func refuse(_ line: Directive, _ index: Int, hint: Wording) {
    refuse(Word(line.text(index), at: line.place(index)), of: line, hint: hint)
  }

  package mutating func warning(_ place: SourceLocation?, _ message: Wording, hint: Wording? = nil) {
    diagnostics.append(Diagnostic(.warning, at: place, message, hint: hint))
  }

  /// Whether there is an error among the diagnostics behind the first `count`.
  package func hasError(since count: Int) -> Bool { diagnostics.dropFirst(count).contains { $0.severity == .error } }

  /// Reads a line that several levels may inherit: each of its diagnostics appears once.
  package mutating func once<Value>(_ read: (inout SettingsBuilder) -> Value) -> Value {
    let before = diagnostics
    diagnostics = []
    let value = read(&self)
    diagnostics = before + diagnostics.filter { !before.contains($0) }
    return value
  }

  /// Whether the server block that is being built takes the clients of an address that ask for no other server's name.
  package var isDefaultServer: Bool { listeners.listeners.contains { $0.defaultServer == servers.count } }

  package mutating func template(_ word: Word) -> Template {
    do {
      return try TemplateCompiler(defined: variables).compile(word)
    } catch {
      diagnostics.append(error.diagnostic)
      return Template([])
    }
  }

  /// A text of sallyport's own, whose variables are those that sallyport has, whatever the configuration defines.
  package func ownTemplate(_ text: String) -> Template {
    (try? TemplateCompiler(defined: DefinedVariables(features, kind)).compile(Word(text, at: .nowhere))) ?? Template([])
  }

  package mutating func template(_ directive: Directive, _ index: Int) -> Template {
    index < directive.arguments.count ? template(directive.arguments[index]) : Template([])
  }

  /// Returns the first file or credential that a directive names.
  package mutating func material(_ directive: Directive?) -> MaterialReference? {
    directive.flatMap { directive in directive.arguments.first.flatMap { material(directive, $0) } }
  }

  /// Returns all files and credentials that a directive names.
  package mutating func materials(_ directive: Directive) -> [MaterialReference] {
    directive.arguments.compactMap { material(directive, $0) }
  }

  /// Returns the file or credential that one word of a directive names.
  package mutating func material(_ directive: Directive, at index: Int) -> MaterialReference? {
    index < directive.arguments.count ? material(directive, directive.arguments[index]) : nil
  }

  private mutating func material(_ directive: Directive, _ word: Word) -> MaterialReference? {
    reference(directive, word, isKey: directive.name.hasSuffix("certificate_key"))
  }

  /// Returns the file or credential that a word, or the value of a parameter, names.
  package mutating func reference(_ directive: Directive, _ word: Word, isKey: Bool) -> MaterialReference? {
    if word.text.contains("$") {
      error(word.location, "variables in \"\(directive.name)\" are not supported yet", hint: "name a file")
      return nil
    }
    do {
      return try MaterialReference(parsing: word.text, relativeTo: folder, location: word.location, isKey: isKey)
    } catch {
      diagnostics.append(error.diagnostic)
      return nil
    }
  }

  /// Parses a count and a size, whose product must fit in a machine's memory.
  package mutating func buffers(_ directive: Directive?) -> (count: Int, size: Int)? {
    guard let directive, let count = Quantity.number(directive.text(0)), let size = Quantity.size(directive.text(1))
    else { return nil }
    let (total, overflow) = count.multipliedReportingOverflow(by: size)
    guard !overflow, total <= 1 << 30 else {
      error(directive.location, "\"\(directive.name)\" asks for more than 1g in all", hint: "fewer or smaller buffers")
      return nil
    }
    return (count, size)
  }

  /// Parses the first word as a field name (RFC 9110 §5.1: a token).
  package mutating func fieldName(_ line: Directive) -> [UInt8]? {
    let name = Array(line.text(0).utf8)
    let marks = Array("!#$%&'*+-.^_`|~".utf8)
    guard !name.isEmpty, name.allSatisfy({ TemplateCompiler.isNameByte($0) || marks.contains($0) }) else {
      error(
        line.place(0), "invalid field name \"\(line.text(0))\" in \"\(line.name)\" directive",
        hint: "letters, digits, \"-\" and \"_\", without a colon")
      return nil
    }
    return name
  }

  /// Parses the second word as a field value. It refuses a line break, which would begin another field.
  package mutating func fieldValue(_ line: Directive) -> Template {
    if line.text(1).utf8.contains(where: { $0 < 0x20 && $0 != 9 || $0 == 0x7F }) {
      error(line.place(1), "a control character in the value of \"\(line.text(0))\"", hint: "a field is one line")
    }
    return template(line, 1)
  }

  /// Parses the number of a `name=number` word.
  package mutating func number(_ word: Word, _ text: String, in range: ClosedRange<Int>) -> Int? {
    guard let number = Quantity.number(text), range.contains(number) else {
      refuse(word, hint: "a number from \(range.lowerBound) to \(range.upperBound)")
      return nil
    }
    return number
  }
}

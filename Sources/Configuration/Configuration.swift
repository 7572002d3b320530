import Features
package import Language
public import Observability
import Synchronization
public import Traffic
package import Transport

/// Reads a configuration in nginx's language: the result is settings, or a list of all errors.
///
/// Reading opens only the configuration's own files, and loads no other files. Of names, it looks up those of `listen`.
public enum Configuration {
  /// Reads a file and the files that it includes. `settings` is nil exactly when a diagnostic is an error.
  public static func load(path: String) -> (settings: Settings?, diagnostics: [Diagnostic]) {
    let read = read(path: path)
    return (read.settings, read.diagnostics)
  }

  /// Reads a file, and also returns a draft in which defaults replace what is wrong. With the draft, the caller can
  /// check the files that the configuration names, and report their errors too. Never serve a draft.
  package static func read(path: String) -> (settings: Settings?, draft: Settings?, diagnostics: [Diagnostic]) {
    read(ConfigurationSource(path))
  }

  /// `states`: where the states of servers are read; nil: from `files` too. `looksUpNames`: if false, each name of `listen`
  /// stands for an address of its own, for a machine that isn't to serve. `edit`: changes the statements before they are
  /// read.
  package static func read(
    _ source: ConfigurationSource, files: SourceFiles = .disk, states: SourceFiles? = nil, looksUpNames: Bool = true,
    editing edit: ([Directive]) -> [Directive] = { $0 }
  ) -> (settings: Settings?, draft: Settings?, diagnostics: [Diagnostic]) {
    var parser = Parser(mainFile: source.name, files: files)
    let tree = edit(source.parse(&parser))
    let system: Resolver.LookUp = { Resolver.addresses(of: $0, port: $1) }
    let lookUp = once(looksUpNames ? system : standIns())
    return build(tree, parser: parser, mainFile: source.name, files: states ?? files, lookUp: lookUp)
  }

  /// A lookup that gives each name the next address of 240.0.0.0/4, on which no machine listens (RFC 1112 §4).
  private static func standIns() -> Resolver.LookUp {
    let next = Atomic<UInt32>(0xF000_0000)
    return { _, port in [.ipv4(address: next.wrappingAdd(1, ordering: .relaxed).newValue, port: port)] }
  }

  /// A lookup that asks for each name once, however many server blocks listen on it.
  private static func once(_ lookUp: @escaping Resolver.LookUp) -> Resolver.LookUp {
    let known = Mutex<[String: [SocketAddress]]>([:])
    return { host, port in
      if let found = known.withLock({ $0[host] }) { return found }
      let found = lookUp(host, port)
      known.withLock { $0[host] = found }
      return found
    }
  }

  /// What prevents reading the configuration's files again, those that it includes too. Their statements are not judged.
  package static func readingFaults(_ source: ConfigurationSource, files: SourceFiles = .disk) -> [Diagnostic] {
    var parser = Parser(mainFile: source.name, files: files)
    _ = source.parse(&parser)
    return parser.diagnostics.filter { $0.severity == .error }
  }

  /// Reads text. `fileName` appears in places, and relative names resolve against its folder.
  public static func load(text: String, fileName: String) -> (settings: Settings?, diagnostics: [Diagnostic]) {
    load(bytes: Array(text.utf8), fileName: fileName, files: .disk)
  }

  /// Reads bytes, and takes included files from `files`. `lookUp`: finds the addresses of a name in `listen`; nil if no
  /// name is looked up. `features`: who reads it; only tests have others than all.
  package static func load(
    bytes: [UInt8], fileName: String, files: SourceFiles, lookUp: Resolver.LookUp? = nil,
    by features: FeatureDirectives = Features.all.directives
  ) -> (settings: Settings?, diagnostics: [Diagnostic]) {
    var parser = Parser(mainFile: fileName, files: files)
    let tree = parser.parse(bytes: bytes, path: fileName)
    let read = build(tree, parser: parser, mainFile: fileName, files: files, lookUp: lookUp, by: features)
    return (read.settings, read.diagnostics)
  }

  private static func build(
    _ tree: [Directive], parser: Parser, mainFile: String, files: SourceFiles, lookUp: Resolver.LookUp?,
    by features: FeatureDirectives = Features.all.directives
  ) -> (settings: Settings?, draft: Settings?, diagnostics: [Diagnostic]) {
    var checker = DirectiveChecker(features)
    let states = ServerStates.included(tree, files, folder: folder(of: mainFile))
    let sound = checker.check(states.tree)
    let language = parser.diagnostics + states.diagnostics + checker.diagnostics
    var found = language
    var draft: Settings?
    // A file that was not read to its end would lead to false errors about missing directives.
    if parser.diagnostics.isEmpty {
      var builder = SettingsBuilder(features, folder: folder(of: mainFile), lookUp: lookUp)
      builder.damagedStates = states.damaged
      draft = builder.build(sound)
      found += builder.diagnostics
    }
    // A word that could not be parsed may cause the other errors, so such errors come first.
    let causes = sorted(language.filter { $0.severity == .error }, mainFile: mainFile)
    let known = Set(causes)
    let all = causes + sorted(found.filter { !known.contains($0) }, mainFile: mainFile)
    let diagnostics = UnrenderedTemplate(tree).advising(all)
    let isRefused = diagnostics.contains { $0.severity == .error }
    return (isRefused ? nil : draft, draft, diagnostics)
  }

  /// Sorts by place, the main file first. An error that several levels inherit appears once.
  private static func sorted(_ found: [Diagnostic], mainFile: String) -> [Diagnostic] {
    var seen: Set<Diagnostic> = []
    let once = found.filter { seen.insert($0).inserted }
    return once.enumerated().sorted { left, right in
      let a = key(left.element, mainFile)
      let b = key(right.element, mainFile)
      return a == b ? left.offset < right.offset : a < b
    }.map(\.element)
  }

  private static func key(_ diagnostic: Diagnostic, _ mainFile: String) -> (Int, String, Int, Int) {
    guard let place = diagnostic.location else { return (0, "", 0, 0) }
    return (place.file == mainFile ? 1 : 2, place.file, place.line, place.column)
  }
}

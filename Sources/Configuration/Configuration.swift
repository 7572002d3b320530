public import Observability

/// nginx's language, read: a file becomes settings, or a list of everything that is wrong with it.
///
/// Nothing is opened, resolved or loaded but the configuration's own files.
public enum Configuration {
  /// Reads a file and what it includes. `settings` is nil exactly when a diagnostic is an error.
  public static func load(path: String) -> (settings: Settings?, diagnostics: [Diagnostic]) {
    let read = read(path: path)
    return (read.settings, read.diagnostics)
  }

  /// The same with what a configuration at fault comes to, defaults in the place of what was wrong: for looking into the
  /// files that it names, so that their faults are told with its own. Never to be served.
  package static func read(path: String) -> (settings: Settings?, draft: Settings?, diagnostics: [Diagnostic]) {
    var parser = Parser(mainFile: path, files: .disk)
    let tree = parser.parse(path: path)
    return build(tree, parser: parser, mainFile: path)
  }

  /// The same for text that is not in a file; `fileName` is what places name, and its folder what names resolve against.
  public static func load(text: String, fileName: String) -> (settings: Settings?, diagnostics: [Diagnostic]) {
    load(bytes: Array(text.utf8), fileName: fileName, files: .disk)
  }

  /// The same for bytes, with files from elsewhere.
  package static func load(
    bytes: [UInt8], fileName: String, files: SourceFiles
  ) -> (settings: Settings?, diagnostics: [Diagnostic]) {
    var parser = Parser(mainFile: fileName, files: files)
    let tree = parser.parse(bytes: bytes, path: fileName)
    let read = build(tree, parser: parser, mainFile: fileName)
    return (read.settings, read.diagnostics)
  }

  private static func build(
    _ tree: [Directive], parser: Parser, mainFile: String
  ) -> (settings: Settings?, draft: Settings?, diagnostics: [Diagnostic]) {
    var checker = DirectiveChecker()
    let sound = checker.check(tree)
    let language = parser.diagnostics + checker.diagnostics
    var found = language
    var draft: Settings?
    // A file that could not be read to its end would be blamed for what is missing.
    if parser.diagnostics.isEmpty {
      var builder = SettingsBuilder(folder: folder(of: mainFile))
      draft = builder.build(sound)
      found += builder.diagnostics
    }
    // What else is at fault may only follow from a word that could not be read: causes are told first.
    let causes = sorted(language.filter { $0.severity == .error }, mainFile: mainFile)
    let known = Set(causes)
    let diagnostics = causes + sorted(found.filter { !known.contains($0) }, mainFile: mainFile)
    let isRefused = diagnostics.contains { $0.severity == .error }
    return (isRefused ? nil : draft, draft, diagnostics)
  }

  /// By place, the main file first; what was found several times, since several levels inherit it, once.
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

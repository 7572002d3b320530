import Forward
import Language
import Observability
import Patterns
import Traffic

/// Warns of a `root` or `alias` whose folder also holds what nobody should read: a folder of the system, the configuration
/// itself, or a key.
enum ServedFolderRule {
  /// Folders whose files are for the machine, and none for clients.
  private static let ofTheSystem: Set<String> = [
    "/boot", "/dev", "/etc", "/home", "/proc", "/root", "/run", "/sys", "/usr", "/var", "/var/lib", "/etc/nginx",
    "/etc/sallyport", "/etc/ssl", "/etc/pki", "/etc/letsencrypt",
  ]

  private static let folders = [FileSettings.rootLine, FileSettings.aliasLine]

  static func judge(_ level: Level, _ builder: inout SettingsBuilder) {
    // An exact path names one file.
    if case .exact = level.match { return }
    let scope = level.scope
    var lines = folders.compactMap { $0.ownLine(in: scope) }
    if case .server = level, lines.isEmpty { lines = FileSettings.rootLine.lines(in: scope) }
    for line in lines {
      guard let word = line.arguments.first, let text = try? TemplateCompiler(defined: builder.variables).compile(word)
      else { continue }
      let isRoot = line.name == FileSettings.rootLine.name
      let base = builder.folder
      let matches = isRoot ? places(of: level, builder) : isServed(scope, builder.features) ? [level.match] : []
      let reason = builder.possiblePaths(text, at: level).lazy.compactMap { path in
        matches.lazy.compactMap { Self.reason(path, isRoot, $0, scope, base) }.first
      }.first
      guard let reason else { continue }
      builder.warning(
        line.place(0), "\"\(line.name) \(line.text(0))\" serves \(reason)",
        hint: "name a folder that holds only what clients may read")
    }
  }

  // MARK: Where the files are served

  /// The level, and the locations inside it, whose requests get files of its `root`.
  private static func places(of level: Level, _ builder: SettingsBuilder) -> [LocationMatch] {
    var isWhole = isServed(level.scope, builder.features)
    // No request is left for a server with a location for each path.
    if case .server = level, level.scope.ownLocations.contains(where: { LocationSpelling($0)?.isOfEachPath ?? false }) {
      isWhole = false
    }
    return (isWhole ? [level.match] : []) + placesInside(level.scope, builder)
  }

  private static func placesInside(_ scope: Scope, _ builder: SettingsBuilder) -> [LocationMatch] {
    scope.ownLocations.flatMap { line -> [LocationMatch] in
      let inner = Scope(line.block ?? [], outer: scope)
      if folders.contains(where: { $0.ownLine(in: inner) != nil }) { return [] }
      return (isServed(inner, builder.features) ? match(of: line, builder).map { [$0] } ?? [] : [])
        + placesInside(inner, builder)
    }
  }

  /// Whether clients' requests that end at a level get files.
  private static func isServed(_ scope: Scope, _ features: FeatureDirectives) -> Bool {
    !features.hasContent(scope) && !scope.isInternal && features.fixedResponse(scope) == nil
  }

  private static func match(of line: Directive, _ builder: SettingsBuilder) -> LocationMatch? {
    switch LocationSpelling(line) {
    case .prefix(let word), .prefixNoRegex(let word): .prefix(Array(word.text.utf8))
    case .regex(let word, _, _): builder.variables.pattern(at: word).map { .regex($0, slots: []) }
    case .named(let word): .named(word.text)
    case .exact, .invalid, nil: nil
    }
  }

  /// The part of the folder that `root` adds in a location: the folders of its prefix.
  private static func place(of match: LocationMatch) -> String {
    switch match {
    case .prefix(let path), .prefixNoRegex(let path):
      String(decoding: path.prefix((path.lastIndex(of: UInt8(ascii: "/")) ?? -1) + 1), as: UTF8.self)
    default: ""
    }
  }

  /// The folder of what a line names, without a slash at its end; nil: it is that of all files, which is an error.
  private static func folder(_ text: String, isWhole: Bool, _ configuration: String) -> String? {
    var path = resolve(text, in: configuration)
    if !isWhole { while !path.isEmpty, !path.hasSuffix("/") { path.removeLast() } }
    while path.hasSuffix("/") { path.removeLast() }
    return path.isEmpty ? nil : path
  }

  /// `match`: of the paths that get files of the folder.
  private static func reason(
    _ path: Template, _ isRoot: Bool, _ match: LocationMatch, _ scope: Scope, _ configuration: String
  ) -> String? {
    // Of a folder that variables name nothing is known.
    guard case .literal(let fixed)? = path.parts.first else { return nil }
    let folder = folder(
      String(decoding: fixed, as: UTF8.self) + (isRoot ? place(of: match) : ""), isWhole: path.parts.count == 1,
      configuration)
    return folder.flatMap { reason($0, scope, configuration, isRoot ? match : nil) }
  }

  /// `match`: of the paths whose files are in the folder; nil: these are not below the folder.
  private static func reason(
    _ folder: String, _ scope: Scope, _ configuration: String, _ match: LocationMatch?
  ) -> String? {
    var pattern: RegularExpression?
    if case .regex(let expression, _)? = match { pattern = expression }
    let tellsNames = pattern.map { PatternText($0.pattern).tellsNames } ?? false
    if !tellsNames, ofTheSystem.contains(folder) { return "a folder of the system" }
    // A name with a colon is one of a store or of a credential.
    let keys = scope.presentedKeys.filter { !$0.contains(":") }
    let key = keys.first { key in
      let path = resolve(key, in: configuration)
      return path.hasPrefix("\(folder)/") && (pattern.map { matches($0, path.dropFirst(folder.count)) } ?? true)
    }
    if let key { return "the key \"\(key)\", too" }
    let holdsConfiguration = "\(configuration)/".hasPrefix("\(folder)/")
    return !tellsNames && configuration.hasPrefix("/") && holdsConfiguration ? "the configuration, too" : nil
  }

  /// Whether the path matches, or perhaps does.
  private static func matches(_ pattern: RegularExpression, _ path: Substring) -> Bool {
    var captures = Captures()
    return Array(path.utf8).withUnsafeBytes {
      pattern.match($0, scratch: RegularExpression.Scratch(), into: &captures) != .noMatch
    }
  }
}

extension LocationSpelling {
  /// Whether each path begins with that of the location.
  fileprivate var isOfEachPath: Bool {
    switch self {
    case .prefix(let word), .prefixNoRegex(let word): word.text == "/"
    case .exact, .regex, .named, .invalid: false
    }
  }
}

import Language
import Observability

/// Warns of a `root` or `alias` whose folder also holds what nobody should read: a folder of the system, the configuration
/// itself, or a key.
enum ServedFolderRule {
  /// Folders whose files are for the machine, and none for clients.
  private static let ofTheSystem: Set<String> = [
    "/boot", "/dev", "/etc", "/home", "/proc", "/root", "/run", "/sys", "/usr", "/var", "/var/lib", "/etc/nginx",
    "/etc/sallyport", "/etc/ssl", "/etc/pki", "/etc/letsencrypt",
  ]

  static func judge(_ level: Level, _ builder: inout SettingsBuilder) {
    // An exact path names one file.
    if case .exact = level.match { return }
    let scope = level.scope
    var lines = scope.own("root") + scope.own("alias")
    if case .server = level, lines.isEmpty { lines = scope.list("root") }
    for line in lines {
      let fixed = line.text(0).prefix { $0 != "$" }
      // Of a folder that variables name nothing is known.
      guard !fixed.isEmpty,
        let folder = Self.folder(
          String(fixed) + (line.name == "root" ? Self.place(of: level.match) : ""), isWhole: fixed == line.text(0),
          builder.folder),
        let reason = Self.reason(folder, scope, builder.folder)
      else { continue }
      builder.warning(
        line.place(0), "\"\(line.name) \(line.text(0))\" serves \(reason)",
        hint: "name a folder that holds only what clients may read")
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

  private static func reason(_ folder: String, _ scope: Scope, _ configuration: String) -> String? {
    if ofTheSystem.contains(folder) { return "a folder of the system" }
    // A name with a colon is one of a store or of a credential.
    let keys = scope.presentedKeys.filter { !$0.contains(":") }
    if let key = keys.first(where: { resolve($0, in: configuration).hasPrefix("\(folder)/") }) {
      return "the key \"\(key)\", too"
    }
    let holdsConfiguration = "\(configuration)/".hasPrefix("\(folder)/")
    return configuration.hasPrefix("/") && holdsConfiguration ? "the configuration, too" : nil
  }
}

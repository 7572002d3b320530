import Bytes
import Glibc
import Observability
import Patterns
import Traffic

/// Warns of scripts that a location would send as they are written, with their passwords: who deletes a `location ~ \.php$`
/// that is refused serves the source of everything below `root`.
///
/// The folders themselves tell which scripts there are. Where a folder can't be read, because another machine will serve it,
/// what `index` and `try_files` name counts.
struct ScriptSources {
  private enum Folder {
    /// With the first of its scripts; nil: it has none.
    case read(String?)
    case unreadable
  }

  private var known: [String: Folder] = [:]

  private static let endings = [".php", ".phtml", ".php5", ".php7", ".cgi", ".fcgi", ".pl"]
  /// Folders and names that are looked at for one generation, so that a start stays quick.
  private static let mostFolders = 1000, mostNames = 4096

  /// Blocks, so never call it on an event loop.
  mutating func warnings(_ http: HTTPSettings) -> [Diagnostic] {
    http.servers.filter { $0.stream == nil }.compactMap { warning($0.root) }
  }

  /// The warning of the first location that would send a script; nil: none would.
  private mutating func warning(_ root: LocationSettings) -> Diagnostic? {
    var places: [LocationSettings] = []
    root.visitNested { places.append($0) }
    for place in places {
      guard let files = place[FileSettings.self], let (folder, path) = files.place(of: place),
        let name = script(in: folder, files)
      else { continue }
      let chosen = root.chosen(for: Array((path + name).utf8))
      guard let served = chosen[FileSettings.self], served.root.folder == files.root.folder, Self.sends(chosen, root)
      else {
        continue
      }
      return Diagnostic(
        .warning, at: chosen.location,
        "\"\(path)\(name)\" of \"\(folder)\" is sent as it is written: no location runs it",
        hint: "pass such requests on, as fastcgi_pass does, or refuse them: location ~ \\.php$ { return 404; }"
      ).sharing(.init("script sources"))
    }
    return nil
  }

  /// A location whose own lines admit fewer clients than the server's, or respond, was made with such files in mind.
  private static func sends(_ location: LocationSettings, _ root: LocationSettings) -> Bool {
    location.content == nil && !location.isInternal
      && location.features.allSatisfy { $0 is FileSettings || !$0.mayRespond }
      && EntryRules(of: location).text == EntryRules(of: root).text
  }

  private mutating func script(in folder: String, _ files: FileSettings) -> String? {
    if known[folder] == nil {
      guard known.count < Self.mostFolders else { return nil }
      known[folder] = Self.names(in: folder).map { Folder.read($0.min()) } ?? Folder.unreadable
    }
    switch known[folder] {
    case .read(let name): return name
    case .unreadable, nil: return files.namedScript
    }
  }

  /// The scripts of a folder; nil: it can't be read.
  private static func names(in folder: String) -> [String]? {
    guard let stream = opendir(folder) else { return nil }
    defer { closedir(stream) }
    var names: [String] = []
    for _ in 0..<mostNames {
      guard let entry = readdir(stream) else { break }
      let name = withUnsafeBytes(of: &entry.pointee.d_name) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
      if isScript(name) { names.append(name) }
    }
    return names
  }

  /// A name that could not stand in a message is none.
  fileprivate static func isScript(_ name: String) -> Bool {
    name.utf8.allSatisfy { $0 > 0x20 && $0 != 0x7F } && endings.contains { name.lowercased().hasSuffix($0) }
  }
}

extension FileSettings {
  /// The folder whose files are those of a location, and the path of such a file without its name; nil: variables or a
  /// regular expression decide.
  fileprivate func place(of location: LocationSettings) -> (folder: String, path: String)? {
    guard root.rest.parts.isEmpty, let prefix = location.match.prefixText else { return nil }
    let base = String(decoding: root.folder, as: UTF8.self)
    switch root.kind {
    case .root:
      // What stands outside locations has an empty prefix.
      if prefix.isEmpty { return ("\(base)/", "/") }
      guard prefix.hasPrefix("/"), let end = prefix.lastIndex(of: "/") else { return nil }
      return (base + prefix[...end], String(prefix[...end]))
    case .alias: return prefix.hasSuffix("/") ? (base, prefix) : nil
    case .wholeAlias: return nil
    }
  }

  /// A script that `index` names, or that `try_files` ends in, in the folder itself.
  fileprivate var namedScript: String? {
    var named = index
    if case .path(let path)? = tryFiles?.fallback { named.append(path) }
    return named.lazy.compactMap { template -> String? in
      guard case .literal(let text)? = template.parts.first else { return nil }
      let name = String(
        decoding: text.prefix { $0 != UInt8(ascii: "?") }.drop { $0 == UInt8(ascii: "/") }, as: UTF8.self)
      return !name.contains("/") && ScriptSources.isScript(name) ? name : nil
    }.first
  }
}

extension LocationSettings {
  /// The location that a path is served by, among those inside this one; this one if there is none. As `LocationTree`
  /// chooses, but that an expression which reaches its limit doesn't match.
  fileprivate func chosen(for path: [UInt8]) -> LocationSettings { inner(for: path)?.location ?? self }

  /// `isFinal`: no expression of an outer level is tried.
  private func inner(for path: [UInt8]) -> (location: LocationSettings, isFinal: Bool)? {
    var best: (location: LocationSettings, length: Int, isFinal: Bool)?
    for location in locations {
      switch location.match {
      case .exact(path): return (location, true)
      case .prefix(let prefix) where path.starts(with: prefix) && prefix.count > best?.length ?? -1:
        best = (location, prefix.count, false)
      case .prefixNoRegex(let prefix) where path.starts(with: prefix) && prefix.count > best?.length ?? -1:
        best = (location, prefix.count, true)
      default: break
      }
    }
    if let inner = best?.location.inner(for: path) {
      if inner.isFinal { return inner }
      best?.location = inner.location
    }
    if best?.isFinal != true {
      for location in locations {
        guard case .regex(let pattern, _) = location.match, pattern.matches(path) else { continue }
        return (location.chosen(for: path), true)
      }
    }
    return best.map { ($0.location, false) }
  }
}

extension RegularExpression {
  fileprivate func matches(_ text: [UInt8]) -> Bool {
    var captures = Captures()
    return text.withUnsafeBytes { match($0, scratch: Scratch(), into: &captures) == .match }
  }
}

/// The paths that the process may open, and for what. Once in effect, they can't be widened.
///
/// A rule is for a folder, not for a file: Landlock knows a file by its inode, and a file that is replaced by a rename
/// has a new one.
public struct FileRules: Sendable, Equatable {
  /// By path without links.
  public private(set) var access: [String: FileAccess] = [:]
  /// The first need that led to a path.
  private var reasons: [String: FileNeed] = [:]

  public init() {}

  /// Makes the rules for what a configuration names. `look` says what a path leads to; nil if nothing of it can be seen.
  public init(_ needs: [FileNeed], look: (String) -> PathState?) {
    for need in needs { add(need, look) }
  }

  /// Folders of which only the named file is granted: a rule on them would grant the whole system, or every device.
  static let tooWide: Set<String> = ["/", "/dev", "/proc", "/sys"]

  public mutating func grant(_ access: FileAccess, _ path: String) {
    self.access[path, default: []].formUnion(access)
  }

  private mutating func grant(_ access: FileAccess, _ path: String, for need: FileNeed) {
    grant(access, path)
    if reasons[path] == nil { reasons[path] = need }
  }

  private mutating func add(_ need: FileNeed, _ look: (String) -> PathState?) {
    guard let state = look(need.path) else { return }
    switch need.use {
    case .read:
      guard state.exists else { return grantFolder(of: need, state, .read, look) }
      if state.isFolder { grant(.read, state.real, for: need) }
      if !state.isFolder || state.isLink { grantFolder(of: need, state, .read, look) }
    case .append: grantFolder(of: need, state, .append, look)
    case .replace: grantFolder(of: need, state, .change, look)
    case .change:
      // What makes the folder needs the one above it.
      if !Self.tooWide.contains(state.real) { grant(.change, state.real, for: need) }
    }
  }

  /// Grants the folder that the path names, and the one that its links lead to.
  private mutating func grantFolder(
    of need: FileNeed, _ state: PathState, _ access: FileAccess, _ look: (String) -> PathState?
  ) {
    let named = look(Self.parent(of: need.path)).flatMap { $0.exists && $0.isFolder ? $0.real : nil }
    for folder in [named, state.exists ? Self.parent(of: state.real) : nil].compactMap({ $0 }) {
      if !Self.tooWide.contains(folder) {
        grant(access, folder, for: need)
      } else if state.exists {
        grant(access.intersection(state.isFolder ? access : .ofPlainFile), state.real, for: need)
      }
    }
  }

  static func parent(of path: String) -> String {
    guard let slash = path.utf8.lastIndex(of: UInt8(ascii: "/")) else { return "." }
    return slash == path.startIndex ? "/" : String(path[..<slash])
  }

  // MARK: What they allow

  /// Whether these rules allow this at a path without links.
  public func allows(_ wanted: FileAccess, _ path: String) -> Bool {
    var missing = wanted
    var path = path
    while true {
      if let access = access[path] { missing.subtract(access) }
      if missing.isEmpty { return true }
      if path == "/" || path == "." || path.isEmpty { return false }
      path = Self.parent(of: path)
    }
  }

  /// The needs of `other` that these rules don't meet, each once.
  public func unmet(of other: FileRules) -> [FileNeed] {
    var seen: Set<FileNeed> = []
    return other.access.keys.sorted().compactMap { path in
      guard let access = other.access[path], !allows(access, path), let need = other.reasons[path] else { return nil }
      return seen.insert(need).inserted ? need : nil
    }
  }
}

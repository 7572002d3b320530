public import HTTP
public import Observability

/// Where the files of a location are: `root` or `alias`.
///
/// The path of a file has a part that the configuration says, `folder`, and a part that a request has a say in. Only the
/// second one is resolved without leaving `folder` (`Files/ServedPath`).
public struct FileRoot: Sendable, Hashable {
  public enum Kind: Sendable, Hashable {
    /// The whole path of the request follows.
    case root
    /// The request's path follows without the location's prefix, which has this many bytes.
    case alias(prefix: Int)
    /// Nothing of the path follows: the location has a regular expression.
    case wholeAlias
  }

  public var kind: Kind
  /// Absolute; a folder, or with `alias` perhaps one file.
  public var folder: [UInt8]
  /// What follows `folder`, with variables; empty without variables.
  public var rest: Template

  public init(kind: Kind, folder: [UInt8], rest: Template) {
    self.kind = kind
    self.folder = folder
    self.rest = rest
  }
}

/// `try_files`
public struct TryFilesSettings: Sendable, Hashable {
  public struct Candidate: Sendable, Hashable {
    public var path: Template
    /// Its name ends with a slash: only a folder counts.
    public var isFolder: Bool
    public init(path: Template, isFolder: Bool) {
      self.path = path
      self.isFolder = isFolder
    }
  }

  public enum Fallback: Sendable, Hashable {
    case path(Template)
    case named(String)
    case status(Int)
  }

  public var candidates: [Candidate]
  public var fallback: Fallback
  /// Of the fallback, for messages.
  @NotCompared public private(set) var location: SourceLocation
  public init(candidates: [Candidate], fallback: Fallback, location: SourceLocation) {
    self.candidates = candidates
    self.fallback = fallback
    self.location = location
  }
}

/// The files of a location without another content.
public struct FileSettings: Sendable, Hashable {
  public var root: FileRoot
  public var index: [Template]
  public var tryFiles: TryFilesSettings?
  public var sendsETag = true
  /// `if_modified_since`
  public var comparison = Preconditions.Comparison.exact
  public var maxRanges = Int.max
  /// `log_not_found`
  public var logsAbsence = true

  public init(root: FileRoot, index: [Template], tryFiles: TryFilesSettings?) {
    self.root = root
    self.index = index
    self.tryFiles = tryFiles
  }
}

/// The types of files by the endings of their names, lower-case (`types`). One object wherever the lines are inherited.
public final class TypeTable: Sendable {
  let types: [[UInt8]: [UInt8]]

  public init(_ types: [[UInt8]: [UInt8]]) { self.types = types }

  /// nginx's, without `types`.
  public static let standard = TypeTable(
    [("html", "text/html"), ("gif", "image/gif"), ("jpg", "image/jpeg")].reduce(into: [:]) {
      $0[Array($1.0.utf8)] = Array($1.1.utf8)
    })
}

/// The Content-Type of files and of the texts of `return`: `types` and `default_type`.
public struct TypeSettings: Sendable {
  public var table = TypeTable.standard
  /// Of other files; empty for none.
  public var standard = Array("text/plain".utf8)
  public init() {}

  /// The type by the end of a path.
  package func type(of path: UnsafeRawBufferPointer) -> [UInt8] {
    Self.ending(of: path).flatMap { table.types[$0] } ?? standard
  }

  /// As in nginx, a name that begins with its only dot has no ending.
  private static func ending(of path: UnsafeRawBufferPointer) -> [UInt8]? {
    var at = path.count - 1
    while at > 1 {
      if path[at] == 0x2F { return nil }
      if path[at] == 0x2E, path[at - 1] != 0x2F {
        return path[(at + 1)...].map { $0 &- 65 < 26 ? $0 | 0x20 : $0 }
      }
      at -= 1
    }
    return nil
  }
}

extension FileSettings {
  func fileUses(_ location: LocationSettings) -> [FileUse] {
    [.path(.read, String(decoding: root.folder, as: UTF8.self))]
  }
}

extension FileSettings {
  static func load(_ http: HTTPSettings, _ loader: inout MaterialLoader, _ parts: inout GenerationParts) {
    parts[RealFolders.self].find(http)
  }
}

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
}

/// `try_files`
public struct TryFilesSettings: Sendable, Hashable {
  public struct Candidate: Sendable, Hashable {
    public var path: Template
    /// Its name ends with a slash: only a folder counts.
    public var isFolder: Bool
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
}

/// The files of a location without another content.
public struct FileSettings: RowSettings, Hashable {
  /// `read` sets it.
  public var root = FileRoot(kind: .root, folder: [], rest: Template([]))
  static let standardIndex = "index.html"
  public var index = [Template(literal: standardIndex)]
  public var tryFiles: TryFilesSettings?
  public var sendsETag = true
  /// `if_modified_since`
  public var comparison = Preconditions.Comparison.exact
  public var maxRanges = Int.max
  /// `log_not_found`
  public var logsAbsence = true

  public init() {}

  package func fileUses(_ location: LocationSettings) -> [FileUse] {
    [.path(.read, String(decoding: root.folder, as: UTF8.self))]
  }

  package static func load(
    _ http: HTTPSettings, _ shared: SharedState, _ loader: inout MaterialLoader, _ parts: inout GenerationParts
  ) {
    parts[RealFolders.self].find(http)
  }
}

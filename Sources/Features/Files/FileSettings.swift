import Forward
package import HTTP
package import Observability
package import Traffic

/// Where the files of a location are: `root` or `alias`.
///
/// The path of a file has a part that the configuration says, `folder`, and a part that a request has a say in. Only the
/// second one is resolved without leaving `folder` (`Files/ServedPath`).
package struct FileRoot: Sendable, Hashable {
  package enum Kind: Sendable, Hashable {
    /// The whole path of the request follows.
    case root
    /// The request's path follows without the location's prefix, which has this many bytes.
    case alias(prefix: Int)
    /// Nothing of the path follows: the location has a regular expression.
    case wholeAlias
  }

  package var kind: Kind
  /// Absolute; a folder, or with `alias` perhaps one file.
  package var folder: [UInt8]
  /// What follows `folder`, with variables; empty without variables.
  package var rest: Template
}

/// `try_files`
package struct TryFilesSettings: Sendable, Hashable {
  package struct Candidate: Sendable, Hashable {
    package var path: Template
    /// Its name ends with a slash: only a folder counts.
    package var isFolder: Bool
  }

  package enum Fallback: Sendable, Hashable {
    case path(Template)
    case named(String)
    case status(Int)
  }

  package var candidates: [Candidate]
  package var fallback: Fallback
  /// Of the fallback, for messages.
  @NotCompared package private(set) var location: SourceLocation
}

/// The files of a location without another content.
package struct FileSettings: RowSettings, Hashable {
  /// `read` sets it.
  package var root = FileRoot(kind: .root, folder: [], rest: Template([]))
  static let standardIndex = "index.html"
  package var index = [Template(literal: standardIndex)]
  package var tryFiles: TryFilesSettings?
  package var sendsETag = true
  /// `if_modified_since`
  package var comparison = Preconditions.Comparison.exact
  package var maxRanges = Int.max
  /// `log_not_found`
  package var logsAbsence = true

  package init() {}

  package func fileUses(_ location: LocationSettings) -> [FileUse] {
    [.path(.read, String(decoding: root.folder, as: UTF8.self))]
  }

  package static func load(
    _ http: HTTPSettings, _ shared: SharedState, _ loader: inout MaterialLoader, _ parts: inout GenerationParts
  ) {
    parts[RealFolders.self].find(http)
    var scripts = ScriptSources()
    for warning in scripts.warnings(http) { loader.report(warning) }
  }
}

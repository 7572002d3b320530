public import Observability

/// A path that the configuration names, and what the process does there.
public struct FileNeed: Sendable, Hashable {
  public enum Use: Sendable, Hashable {
    /// A file that is read, or a folder with such files. A later file may take its place by a rename.
    case read
    /// A file that is created if it is missing, and written.
    case append
    /// A file or socket that the process makes and removes.
    case replace
    /// A folder in which the process makes, changes and removes files. It may be missing.
    case change
  }

  public var path: String
  public var use: Use
  /// Where the configuration says so.
  public var location: SourceLocation?

  public init(_ use: Use, _ path: String, at location: SourceLocation? = nil) {
    self.path = path
    self.use = use
    self.location = location
  }
}

/// What a path leads to.
public struct PathState: Sendable, Hashable {
  /// Without links, `.` and `..`. If the path is missing, of the nearest folder above it that exists.
  public var real: String
  public var exists: Bool
  public var isFolder: Bool
  /// The last name of the path is a symbolic link.
  public var isLink: Bool

  public init(real: String, exists: Bool = true, isFolder: Bool, isLink: Bool = false) {
    self.real = real
    self.exists = exists
    self.isFolder = isFolder
    self.isLink = isLink
  }
}

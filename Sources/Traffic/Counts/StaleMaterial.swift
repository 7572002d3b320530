public import Observability

/// A unit of material that can't be loaded now: what its files say has no effect.
public struct StaleMaterial: Sendable, Hashable {
  /// What serves meanwhile.
  public enum Use: Sendable, Hashable {
    /// The content that was loaded before.
    case kept
    /// Nothing: requests read it, and those that need it are refused.
    case readByRequests
  }

  public enum State: Sendable, Hashable {
    /// The files are not those that were loaded.
    case changed
    /// The files look as they did when they were loaded, so nothing is out of effect.
    case unread
  }

  /// `the revocation list`
  public let kind: String
  /// As the configuration names them.
  public let files: [String]
  /// Those of them that have a path.
  public let paths: [String]
  public let use: Use
  public let state: State
  public let place: SourceLocation?
  public let reason: String
  public let hint: String?

  package func isOf(_ kind: String, _ files: [String]) -> Bool { self.kind == kind && self.files == files }

  /// For the log, `health` and the status page.
  public var words: String {
    switch (use, state) {
    case (.readByRequests, _): "NOT usable, requests that need it are refused: \(reason)"
    case (.kept, .changed): "NOT in effect, the former content of \(kind) serves on: \(reason)"
    case (.kept, .unread): "not readable now, the content of \(kind) that was loaded serves on: \(reason)"
    }
  }
}

/// How the files stand that the process loads again when they change.
public struct WatchedFiles: Sendable {
  /// All of them, by their paths.
  public let paths: [String]
  /// Those that the process may not read, so that their changes go unnoticed.
  public let forbidden: [String]
  /// The units without effect.
  public let stale: [StaleMaterial]

  public init(paths: [String] = [], forbidden: [String] = [], stale: [StaleMaterial] = []) {
    self.paths = paths
    self.forbidden = forbidden
    self.stale = stale
  }

  /// For `health` and the status page.
  public static func words(ofForbidden path: String) -> String {
    "\"\(path)\" may not be read by the user that serves: what was loaded serves on, and changes go unnoticed"
  }
}

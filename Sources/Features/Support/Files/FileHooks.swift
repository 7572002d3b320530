import Bytes
import Files
import Traffic

/// What features do with a location's requests for files and folders, beside serving the file that is asked for. The feature
/// that serves files makes one object for each location of a worker, and the features behind it in the list fill it.
final class FileHooks {
  /// nil: each file goes as it is.
  var variant: FileVariant?
  /// What responds to requests for folders before their index is looked for; nil: nothing does.
  var choice: FolderContent?
  /// What responds to requests for folders without an index; nil: status 403 does.
  var listing: FolderContent?
}

extension LocationParts {
  /// nil: no folder of files is in effect.
  var fileHooks: FileHooks? { objects.lazy.compactMap { $0 as? FileHooks }.first }
}

/// Files that may go in place of others: beside `NAME`, a file `NAME.gz` with the same contents in another coding.
class FileVariant {
  /// What follows the name of the file.
  let suffix: [UInt8]
  /// The value of Content-Encoding.
  let coding: StaticString

  init(suffix: String, coding: StaticString) {
    self.suffix = Array(suffix.utf8)
    self.coding = coding
  }

  enum Use: Sendable {
    /// The variant goes if it is there.
    case sent
    /// The client gets the file itself, but is told that others get the variant if it is there.
    case told
    case ignored
  }

  func use(for exchange: Exchange) -> Use { .ignored }
  /// Adds to a response's head what says that it depends on the request.
  func tell(_ exchange: Exchange) {}
}

/// What responds to requests for a folder.
class FolderContent {
  /// A request whose path ends with a slash.
  struct Request {
    var path: ServedPath
    var uri: [UInt8]
    /// The error log names a folder that isn't there.
    var tellsAbsence: Bool
  }

  /// Responds, or calls `next`, now or later.
  func begin(_ request: Request, _ exchange: Exchange, else next: @escaping (Exchange) -> Void) { next(exchange) }
}

extension ServedPath {
  /// The path with a longer last name; nil for a path that the configuration names in full.
  func followed(by suffix: [UInt8]) -> ServedPath? {
    below.isEmpty ? nil : ServedPath(folder: folder, below: below + suffix)
  }
}

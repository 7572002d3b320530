package import Crypto
package import Enrolment
import Traffic

/// The most wrong passwords that a file of users takes, by file; any number for others.
package struct GuessLimits: GenerationPart {
  package var limits: [MaterialReference: FailureWindow.Limit] = [:]
  package init() {}

  /// Sets the limits of the files of `auth_basic`. A file that somebody guards has that limit everywhere: otherwise an
  /// attacker could guess at another location that uses the same file. Two names of one file share one limit. Follows
  /// links, so never call it on an event loop.
  ///
  /// `guarded`: the files that are guarded.
  mutating func set(_ guarded: [(file: MaterialReference, limit: FailureWindow.Limit)], _ http: HTTPSettings) {
    var byPath: [String: FailureWindow.Limit] = [:]
    for (file, limit) in guarded {
      guard let path = file.realPath() else { continue }
      byPath[path] = byPath[path]?.stricter(limit) ?? limit
    }
    guard !byPath.isEmpty else { return }
    http.visitLocations { location in
      guard let file = location[AuthBasic.self]?.users, limits[file] == nil else { return }
      limits[file] = file.realPath().flatMap { byPath[$0] }
    }
  }
}

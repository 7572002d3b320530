import Crypto
import Enrolment

/// Files of passwords that an enrolment guards by a count of wrong ones. Wherever else the same file is asked the same count
/// must hold, or who may not guess at the one door guesses at the other.
struct GuardedFiles {
  private var limits: [String: FailureWindow.Limit] = [:]

  init(_ http: HTTPSettings) {
    for server in http.servers { add(server.root) }
  }

  private mutating func add(_ location: LocationSettings) {
    if case .enrolment(let desk) = location.action, let path = desk.users.realPath() {
      limits[path] = limits[path]?.stricter(desk.failureLimit) ?? desk.failureLimit
    }
    for inner in location.locations { add(inner) }
  }

  /// nil: nobody counts, as with nginx.
  func limit(of file: MaterialReference) -> FailureWindow.Limit? {
    limits.isEmpty ? nil : file.realPath().flatMap { limits[$0] }
  }
}

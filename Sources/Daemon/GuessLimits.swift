package import Crypto
package import Enrolment
package import Proxy

/// How many wrong passwords each file of `auth_basic` takes: one that an enrolment guards takes as many everywhere. Otherwise
/// whoever may not guess at one location guesses at another.
package enum GuessLimits {
  /// Without those that take any number. Two names of one file have one limit. Follows links, so never on an event loop.
  package static func resolved(_ http: HTTPSettings) -> [MaterialReference: FailureWindow.Limit] {
    let locations = http.everyLocation.map(\.settings)
    var guarded: [String: FailureWindow.Limit] = [:]
    for case .enrolment(let desk) in locations.map(\.action) {
      guard let path = desk.users.realPath() else { continue }
      guarded[path] = guarded[path]?.stricter(desk.failureLimit) ?? desk.failureLimit
    }
    guard !guarded.isEmpty else { return [:] }
    var limits: [MaterialReference: FailureWindow.Limit] = [:]
    for file in Set(locations.compactMap { $0.basicAccess?.users }) {
      limits[file] = file.realPath().flatMap { guarded[$0] }
    }
    return limits
  }
}

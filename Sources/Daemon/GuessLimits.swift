package import Crypto
package import Enrolment
package import Proxy

/// The limit of wrong passwords for each file of `auth_basic`. A file that an enrolment location limits has that limit
/// everywhere. Otherwise an attacker could guess at another location that uses the same file.
package enum GuessLimits {
  /// Omits files without a limit. Two names of one file share one limit. Follows links, so never call it on an event
  /// loop.
  package static func resolved(_ http: HTTPSettings) -> [MaterialReference: FailureWindow.Limit] {
    let locations = http.everyLocation.map(\.settings)
    var guarded: [String: FailureWindow.Limit] = [:]
    for case let desk? in locations.map({ $0[EnrolmentSettings.self] }) {
      guard let path = desk.users.realPath() else { continue }
      guarded[path] = guarded[path]?.stricter(desk.failureLimit) ?? desk.failureLimit
    }
    guard !guarded.isEmpty else { return [:] }
    var limits: [MaterialReference: FailureWindow.Limit] = [:]
    for file in Set(locations.compactMap { $0[AuthBasic.self]?.users }) {
      limits[file] = file.realPath().flatMap { guarded[$0] }
    }
    return limits
  }
}

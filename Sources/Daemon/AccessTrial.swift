import Crypto
import Enrolment
import Observability
import Proxy

extension LocationSettings {
  /// It gives out certificates.
  var enrols: Bool { if case .enrolment = action { true } else { false } }
}

extension MaterialLoader {
  /// Files of passwords and authorities are read with each request; that they can be is known before the first.
  mutating func tryAccess(of location: LocationSettings) {
    if case .enrolment(let desk) = location.action {
      do throws(AuthorityError) { try EnrolmentDesk(desk, shared.enrolment).trial() } catch {
        report(Diagnostic(.error, at: desk.authority.location, error.message, hint: error.hint))
      }
    }
    guard let access = location.basicAccess else { return }
    do throws(MaterialError) { _ = try AccountFile(loading: access.users) } catch { report(error.diagnostic) }
  }
}

import Crypto
import Enrolment
import Observability
import Proxy

extension MaterialLoader {
  /// Reads the password files and authorities once. Requests read them again each time, and a fault must show before
  /// the first request.
  mutating func tryAccess(of location: LocationSettings) {
    if let desk = location[EnrolmentSettings.self] {
      tryUnit(.anchors, desk.authority) { loader in
        do throws(AuthorityError) { try EnrolmentService(desk, loader.shared.enrolment).trial() } catch {
          loader.report(Diagnostic(.error, at: desk.authority.location, error.message, hint: error.hint))
        }
      }
    }
    guard let users = location[AuthBasic.self]?.users else { return }
    tryUnit(.accounts, users) { loader in
      do throws(MaterialError) { _ = try AccountFile(loading: users) } catch { loader.report(error.diagnostic) }
    }
  }
}

import Crypto
import Enrolment
import Forward
import Observability
import Traffic

extension EnrolmentSettings {
  func fileUses(_ location: LocationSettings) -> [FileUse] {
    var uses = FileUse.requestFiles([passwords, users]) + [.bodyFolder(of: location)]
    if let folder = authority.realPath() {
      uses.append(.path(.change, folder, at: authority.location))
      uses += AuthorityStore.databaseFiles(of: folder).map { .path(.read, $0, at: authority.location) }
    }
    return uses
  }
}

extension EnrolmentSettings {
  /// Reads each authority once: requests read it again each time, and a fault must show before the first request.
  static func load(
    _ http: HTTPSettings, _ shared: SharedState, _ loader: inout MaterialLoader, _ parts: inout GenerationParts
  ) {
    var guarded: [(file: MaterialReference, limit: FailureWindow.Limit)] = []
    http.visitLocations { location in
      guard let desk = location[EnrolmentSettings.self] else { return }
      guarded.append((desk.users, desk.failureLimit))
      loader.tryUnit(.anchors, desk.authority) { loader in
        do throws(AuthorityError) { try EnrolmentService(desk, shared.enrolment).trial() } catch {
          loader.report(Diagnostic(.error, at: desk.authority.location, error.message, hint: error.hint))
        }
      }
    }
    parts[GuessLimits.self].set(guarded, http)
  }
}

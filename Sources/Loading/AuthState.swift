import CLinux
import Configuration
import Crypto
import Forward
import Glibc
package import Observability
package import Traffic
import UpstreamAuth

/// The directories of `proxy_auth_state`: mode 0700, owned by the serving user.
package enum AuthState {
  /// Makes each missing directory. Corrects the owner and mode of an existing one that holds only sallyport's own
  /// files. Leaves any other directory unchanged; it is an error if its owner or mode is wrong.
  static func prepare(_ settings: Settings) -> [Diagnostic] { faults(settings) { prepare($0, settings.main) } }

  /// What would keep a start from making or using the directories. Changes nothing.
  package static func trial(_ settings: Settings) -> [Diagnostic] { faults(settings) { trial($0, settings.main) } }

  /// `fault`: what is wrong with a folder; nil: nothing.
  private static func faults(_ settings: Settings, _ fault: (String) -> String?) -> [Diagnostic] {
    var seen: Set<String> = []
    return settings.http.everyLocation.compactMap { $0.settings.upstreamAuth }.compactMap { asked in
      guard case .permanent(let folder) = asked.persistence, seen.insert(folder).inserted else { return nil }
      return fault(folder).map {
        Diagnostic(
          .error, at: asked.location, "\"proxy_auth_state\" \"\(folder)\" \($0)", hint: "a folder of its own, mode 0700"
        )
      }
    }
  }

  /// Reads each directory's state after privileges were dropped and before a worker serves, so that no event loop waits
  /// for it.
  package static func takeOver(_ generation: Generation, _ shared: SharedState) {
    for asked in generation.http.everyLocation.compactMap({ $0.settings.upstreamAuth }) {
      shared.challenges.open(asked.persistence, log: generation.errorLog)
    }
  }

  private static func trial(_ folder: String, _ main: MainSettings) -> String? {
    var status = stat()
    if lstat(folder, &status) != 0, errno == ENOENT {
      return PathTrial.faultOfMaking(folder).map { "can't be made: \(String(cString: strerror($0)))" }
    }
    guard stat(folder, &status) == 0 else { return "can't be opened: \(String(cString: strerror(errno)))" }
    guard status.st_mode & S_IFMT == S_IFDIR else { return "can't be opened: \(String(cString: strerror(ENOTDIR)))" }
    guard access(folder, R_OK) == 0 else { return "can't be opened: \(String(cString: strerror(errno)))" }
    let owner = geteuid() == 0 ? getpwnam(main.servingUser)?.pointee.pw_uid ?? 0 : geteuid()
    if status.st_uid == owner, status.st_mode & 0o077 == 0 { return nil }
    if let fault = fault(ofContent: folder, status, owner: owner) { return fault }
    let mayChange = geteuid() == 0 || status.st_uid == geteuid()
    return mayChange
      ? nil : "may be entered by others, and can't be closed to them: \(String(cString: strerror(EPERM)))"
  }

  /// Only a folder that holds nothing but sallyport's own files may get another owner and mode.
  private static func fault(ofContent folder: String, _ status: stat, owner: uid_t) -> String? {
    if let names = try? namesInDirectory(folder), ChallengeFile.names.isSuperset(of: names) { return nil }
    return "is \(status.st_uid == owner ? "open to others" : "another's"), and holds files that are not its own"
  }

  private static func prepare(_ folder: String, _ main: MainSettings) -> String? {
    if mkdir(folder, 0o700) != 0, errno != EEXIST { return "can't be made: \(String(cString: strerror(errno)))" }
    let descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard descriptor >= 0 else { return "can't be opened: \(String(cString: strerror(errno)))" }
    defer { close(descriptor) }
    var status = stat()
    guard fstat(descriptor, &status) == 0 else { return "can't be looked at: \(String(cString: strerror(errno)))" }
    let account = geteuid() == 0 ? getpwnam(main.servingUser)?.pointee : nil
    let owner = account?.pw_uid ?? geteuid()
    if status.st_uid == owner, status.st_mode & 0o077 == 0 { return nil }
    if let fault = fault(ofContent: folder, status, owner: owner) { return fault }
    if let account, fchown(descriptor, account.pw_uid, account.pw_gid) != 0 {
      return "can't be given to \(main.servingUser): \(String(cString: strerror(errno)))"
    }
    if status.st_mode & 0o077 != 0, fchmod(descriptor, 0o700) != 0 {
      return "may be entered by others, and can't be closed to them: \(String(cString: strerror(errno)))"
    }
    return nil
  }
}

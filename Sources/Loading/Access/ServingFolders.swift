import CLinux
import ACME
import Configuration
import Crypto
import Features
import Forward
import Glibc
package import Observability
package import Traffic

/// The folders that a start makes for the user that serves, as nginx makes those of its `…_temp_path`.
package enum ServingFolders {
  /// Makes those that are missing. Call this before the sandbox, whose rule is then for the folder and not for the one
  /// above it, and while the process may have root's rights. `makeBodyFolders` tells what fails for bodies; the first order
  /// of a certificate and the first list tell what fails for theirs.
  package static func make(_ settings: Settings) {
    let http = settings.http
    let folders = http.revocationFolders.union(http[ACMESettings.self].certificates.map(\.issuer.stateFolder))
    for folder in folders.sorted() { _ = make(folder, for: settings.main) }
    _ = makeBodyFolders(settings)
  }

  /// Makes each folder of `client_body_temp_path` that is missing. As in nginx, one that can't be made is an error.
  static func makeBodyFolders(_ settings: Settings) -> [Diagnostic] {
    bodyFolders(settings).compactMap { folder in make(folder.path, for: settings.main).map { refused(folder, $0) } }
  }

  /// What `makeBodyFolders` would tell, found without making anything.
  package static func bodyFaults(_ settings: Settings) -> [Diagnostic] {
    bodyFolders(settings).compactMap { folder in
      var status = stat()
      if stat(folder.path, &status) == 0 {
        return status.st_mode & S_IFMT == S_IFDIR ? nil : refused(folder, Fault("open", ENOTDIR))
      }
      if errno != ENOENT { return refused(folder, Fault("open", errno)) }
      let parent = NewFile.folder(of: folder.path)
      return access(parent, W_OK | X_OK) == 0 ? nil : refused(folder, Fault("mkdir", errno))
    }
  }

  /// Those that `makeBodyFolders` would make or give to the user that serves.
  package static func bodyFoldersToMake(_ settings: Settings) -> Set<String> {
    Set(
      bodyFolders(settings).map(\.path).filter { path in
        let descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { return errno == ENOENT }
        defer { close(descriptor) }
        return isEmptyOfRootAlone(descriptor)
      })
  }

  private struct Fault {
    let call: String
    let code: Int32
    init(_ call: String, _ code: Int32) { (self.call, self.code) = (call, code) }
  }

  private static func bodyFolders(_ settings: Settings) -> [BodyFolderSettings] {
    var seen: Set<String> = []
    return settings.http.everyLocation.compactMap { $0.settings.bodyFiles?.folder }.filter {
      seen.insert($0.path).inserted
    }
  }

  private static func refused(_ folder: BodyFolderSettings, _ fault: Fault) -> Diagnostic {
    Diagnostic(
      .error, at: folder.location,
      "\(fault.call)() \"\(folder.path)\" failed (\(fault.code): \(String(cString: strerror(fault.code))))",
      hint: "client_body_temp_path names a folder that exists, or one that can be made in a folder that exists")
  }

  /// Makes a folder with mode 0700. One that root made for itself and left empty becomes the user's, too, unless a link led
  /// to it: whoever can write beside the link chooses its target.
  private static func make(_ folder: String, for main: MainSettings) -> Fault? {
    let isNew = mkdir(folder, 0o700) == 0
    if !isNew, errno != EEXIST { return Fault("mkdir", errno) }
    let descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)
    guard descriptor >= 0 else {
      var status = stat()
      let isFolder = stat(folder, &status) != 0 || status.st_mode & S_IFMT == S_IFDIR
      return isFolder ? nil : Fault("open", ENOTDIR)
    }
    defer { close(descriptor) }
    guard geteuid() == 0, let account = getpwnam(main.servingUser)?.pointee, account.pw_uid != 0,
      isNew || isEmptyOfRootAlone(descriptor)
    else { return nil }
    return fchown(descriptor, account.pw_uid, account.pw_gid) == 0 ? nil : Fault("chown", errno)
  }

  /// nginx gives the user any folder that is named, also one such as `/tmp`.
  private static func isEmptyOfRootAlone(_ folder: Int32) -> Bool {
    var status = stat()
    guard fstat(folder, &status) == 0, status.st_uid == 0, status.st_mode & 0o022 == 0 else { return false }
    return (try? namesInDirectory(folder))?.isEmpty ?? false
  }
}

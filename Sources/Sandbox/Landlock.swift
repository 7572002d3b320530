import CLinux
import Glibc

/// The kernel's Landlock: rules on files that a process gives to itself and can't take back.
public enum Landlock {
  /// What came of it.
  public enum Outcome: Sendable, Hashable {
    /// In effect, by the rules of this version of Landlock.
    case restricted(version: Int32)
    /// The kernel has no Landlock (Linux before 5.13), or its boot parameters leave it out.
    case missing
    /// A call failed.
    case failed(call: String, code: Int32)
  }

  /// The version of the running kernel's Landlock; nil without Landlock.
  public static var version: Int32? {
    let version = linux_landlock_version()
    return version >= 1 ? version : nil
  }

  /// Restricts this thread and the threads that it starts from now on. Call this while the process has one thread.
  ///
  /// A path that can't be opened gets no rule: then nothing at it is allowed.
  public static func restrict(to rules: FileRules) -> Outcome {
    guard let version else { return .missing }
    guard linux_no_new_privileges() == 0 else { return .failed(call: "prctl(PR_SET_NO_NEW_PRIVS)", code: errno) }
    let governed = FileAccess.governed(by: version)
    let scopes: UInt64 = version >= 6 && !usesAbstractSockets ? 1 : 0
    let set = linux_landlock_create(governed.rawValue, 0, scopes)
    guard set >= 0 else { return .failed(call: "landlock_create_ruleset", code: errno) }
    defer { close(set) }
    for (path, access) in rules.access {
      let code = allow(access.intersection(governed), path, in: set)
      if code != 0 { return .failed(call: "landlock_add_rule(\"\(path)\")", code: code) }
    }
    guard linux_landlock_restrict(set) == 0 else { return .failed(call: "landlock_restrict_self", code: errno) }
    return .restricted(version: version)
  }

  /// systemd before 232, and some container runtimes, name the notification socket without a file.
  private static var usesAbstractSockets: Bool { getenv("NOTIFY_SOCKET").map { $0.pointee == 0x40 } ?? false }

  /// Adds one rule. Returns errno, or 0; a path that is missing is no error.
  private static func allow(_ access: FileAccess, _ path: String, in set: Int32) -> Int32 {
    let descriptor = linux_open_path(path)
    guard descriptor >= 0 else { return 0 }
    // The rule on /proc/PID holds as long as the kernel keeps that folder's inode, which the open descriptor ensures.
    defer { if !path.hasPrefix("/proc/") { close(descriptor) } }
    var status = stat()
    guard fstat(descriptor, &status) == 0 else { return errno }
    let possible = status.st_mode & S_IFMT == S_IFDIR ? access : access.intersection(.ofPlainFile)
    guard !possible.isEmpty else { return 0 }
    return linux_landlock_allow(set, descriptor, possible.rawValue) == 0 ? 0 : errno
  }
}

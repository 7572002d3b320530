import CLinux
import Glibc

/// Rights that the process gives up before it has a second thread, so that no thread has them.
public enum PrivilegeLimits {
  /// No program that this process executes gets more rights than the process has, and no thread can gain a capability.
  /// Capabilities in effect stay until the user changes. Returns the call that failed, with errno; nil if none did.
  public static func set() -> (call: String, code: Int32)? {
    if geteuid() == 0, linux_drop_bounding_set() != 0 {
      let code = errno
      // Without CAP_SETPCAP the set can't be changed; without new privileges nothing can be gained from it.
      if code != EPERM { return ("prctl(PR_CAPBSET_DROP)", code) }
    }
    return linux_no_new_privileges() == 0 ? nil : ("prctl(PR_SET_NO_NEW_PRIVS)", errno)
  }

  /// Leaves this process those of its capabilities that a start makes use of, and what it executes no more than these.
  /// For a process that waits as root and opens nothing by itself. Returns false if the kernel refused.
  public static func keepOnlyThoseOfStart() -> Bool {
    linux_no_new_privileges() == 0 && linux_keep_capabilities(linux_start_capabilities()) == 0
  }

  /// Leaves this process the capabilities to open files of every user and to bind low ports. Returns false if the kernel
  /// refused.
  public static func keepOnlyThoseOfOpener() -> Bool {
    linux_no_new_privileges() == 0 && linux_keep_capabilities(linux_opener_capabilities()) == 0
  }

  /// The number of threads of this process; nil if the kernel doesn't tell.
  public static var threads: Int? {
    guard let folder = opendir("/proc/self/task") else { return nil }
    defer { closedir(folder) }
    var count = 0
    while let entry = readdir(folder) {
      if entry.pointee.d_name.0 != 0x2E { count += 1 }
    }
    return count
  }
}

import CLinux
import Configuration
import Features
import Forward
import Glibc
package import Observability
package import Traffic

/// Applies `user`: drops root's privileges once sockets, logs and the pid file are open.
package enum Privileges {
  /// Changes the supplementary groups, the group, then the user, and checks that root can't be regained. The default
  /// user is `nobody`, as in nginx. Without root the directive has no effect, as in nginx; if it names another user, the
  /// result is a warning.
  ///
  /// nginx keeps a master process with root privileges for reloads. The process of sallyport drops root for good, and
  /// `PrivilegedOpener` opens for it what only root may.
  package static func drop(_ main: MainSettings) throws(Refusal) -> Diagnostic? {
    guard geteuid() == 0 else {
      // Who was started as the user that it names, such as by `User=` of the unit, has nothing to be told.
      guard let user = main.user, getpwnam(user)?.pointee.pw_uid != geteuid() else { return nil }
      return Diagnostic(
        .warning, at: nil,
        "the \"user\" directive makes sense only if sallyport is started by root: it has no effect")
    }
    let user = main.servingUser
    guard let account = getpwnam(user)?.pointee else {
      throw refused("getpwnam(\"\(user)\") failed: no such user", main)
    }
    let (uid, gid) = (account.pw_uid, try group(main, primary: account.pw_gid))
    // A process that replaces one without capabilities (USR2) has the groups already, and may not set them.
    guard initgroups(user, gid) == 0 || errno == EPERM && hasGroups(of: user, gid) else {
      throw failed("initgroups(\(user), \(gid))", main)
    }
    guard setgid(gid) == 0 else { throw failed("setgid(\(gid))", main) }
    guard setuid(uid) == 0 else { throw failed("setuid(\(uid))", main) }
    if uid != 0 && setuid(0) == 0 {
      throw refused("setuid(\(uid)) did not take effect: the process could become root again", main)
    }
    // The kernel writes no core for a process that changed its user, unless prctl(2) allows it; `worker_rlimit_core`
    // asks for one.
    if main.coreSize > 0 { linux_allow_core() }
    return nil
  }

  /// The user that `drop` makes this process; nil if it keeps the user that it has, or can't become another one.
  package static func userToBecome(_ main: MainSettings) -> ServingUser? {
    guard geteuid() == 0, let account = getpwnam(main.servingUser)?.pointee, account.pw_uid != 0,
      let group = try? group(main, primary: account.pw_gid)
    else { return nil }
    var groups = [gid_t](repeating: 0, count: Int(NGROUPS_MAX)), count = NGROUPS_MAX
    guard getgrouplist(main.servingUser, group, &groups, &count) >= 0 else { return nil }
    return ServingUser(
      user: account.pw_uid, groups: Set(groups.prefix(Int(max(0, count)))).union([group]), name: main.servingUser)
  }

  /// Whether the process has the supplementary groups of a user, and no other.
  private static func hasGroups(of user: String, _ gid: gid_t) -> Bool {
    defer { errno = EPERM }
    var wanted = [gid_t](repeating: 0, count: Int(NGROUPS_MAX)), count = NGROUPS_MAX
    guard getgrouplist(user, gid, &wanted, &count) >= 0 else { return false }
    var present = [gid_t](repeating: 0, count: Int(NGROUPS_MAX))
    let found = getgroups(NGROUPS_MAX, &present)
    return found >= 0 && Set(present.prefix(Int(found))) == Set(wanted.prefix(Int(max(0, count))))
  }

  /// As in nginx: without a group argument, the group with the user's name; if there is none, the user's primary group.
  private static func group(_ main: MainSettings, primary: gid_t) throws(Refusal) -> gid_t {
    guard let name = main.group else { return getgrnam(main.servingUser)?.pointee.gr_gid ?? primary }
    guard let entry = getgrnam(name) else { throw refused("getgrnam(\"\(name)\") failed: no such group", main) }
    return entry.pointee.gr_gid
  }

  private static func failed(_ call: String, _ main: MainSettings) -> Refusal {
    let code = errno
    return refused("\(call) failed (\(code): \(String(cString: strerror(code))))", main)
  }

  private static func refused(_ message: String, _ main: MainSettings) -> Refusal {
    let hint =
      main.user == nil
      ? "root becomes `nobody` to serve: say `user NAME;`, or `user root;` where it must stay root"
      : "see the `user` directive"
    return Refusal([Diagnostic(.error, at: nil, message, hint: hint)])
  }
}

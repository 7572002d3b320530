import CLinux
import Configuration
import Glibc
import Observability

/// `user`: what root gives up once sockets, logs and the pid file are open.
enum Privileges {
  /// Groups, then group, then user; and makes sure that there is no way back. Root becomes `nobody` where nothing is said,
  /// as in nginx. Without root the directive has no effect, as in nginx, which is the warning that is returned.
  ///
  /// nginx keeps a master process of root's for reloads; this is one process, which gives root up for good.
  static func drop(_ main: MainSettings) throws(Refusal) -> Diagnostic? {
    guard geteuid() == 0 else {
      guard main.user != nil else { return nil }
      return Diagnostic(
        .warning, at: nil,
        "the \"user\" directive makes sense only if sallyport is started by root: it has no effect")
    }
    let user = main.servingUser
    guard let account = getpwnam(user)?.pointee else {
      throw refused("getpwnam(\"\(user)\") failed: no such user", main)
    }
    let (uid, gid) = (account.pw_uid, try group(main, primary: account.pw_gid))
    guard initgroups(user, gid) == 0 else { throw failed("initgroups(\(user), \(gid))", main) }
    guard setgid(gid) == 0 else { throw failed("setgid(\(gid))", main) }
    guard setuid(uid) == 0 else { throw failed("setuid(\(uid))", main) }
    if uid != 0 && setuid(0) == 0 { throw refused("setuid(\(uid)) did not hold: root could be had again", main) }
    // The kernel leaves no core of a process that changed its user, unless this is said; `worker_rlimit_core` asks for one.
    if main.coreSize > 0 { linux_allow_core() }
    return nil
  }

  /// As nginx: the group of the user's name when none is given; where there is no such group, the user's own.
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

import Configuration
import Glibc
import Observability

/// `user`: what root gives up once sockets, logs and the pid file are open.
enum Privileges {
  /// Groups, then group, then user; and makes sure that there is no way back. Without root it has no effect, as in
  /// nginx, which is the warning that is returned.
  static func drop(_ main: MainSettings) throws(Refusal) -> Diagnostic? {
    guard let user = main.user else { return nil }
    guard geteuid() == 0 else {
      return Diagnostic(
        .warning, at: nil,
        "the \"user\" directive makes sense only if sallyport is started by root: it has no effect")
    }
    guard let account = getpwnam(user)?.pointee else { throw refused("getpwnam(\"\(user)\") failed: no such user") }
    let (uid, gid) = (account.pw_uid, try group(main, primary: account.pw_gid))
    guard initgroups(user, gid) == 0 else { throw failed("initgroups(\(user), \(gid))") }
    guard setgid(gid) == 0 else { throw failed("setgid(\(gid))") }
    guard setuid(uid) == 0 else { throw failed("setuid(\(uid))") }
    if uid != 0 && setuid(0) == 0 { throw refused("setuid(\(uid)) did not hold: root could be had again") }
    return nil
  }

  /// As nginx: the group of the user's name when none is given; where there is no such group, the user's own.
  private static func group(_ main: MainSettings, primary: gid_t) throws(Refusal) -> gid_t {
    guard let name = main.group else { return main.user.flatMap { getgrnam($0)?.pointee.gr_gid } ?? primary }
    guard let entry = getgrnam(name) else { throw refused("getgrnam(\"\(name)\") failed: no such group") }
    return entry.pointee.gr_gid
  }

  private static func failed(_ call: String) -> Refusal {
    let code = errno
    return refused("\(call) failed (\(code): \(String(cString: strerror(code))))")
  }

  private static func refused(_ message: String) -> Refusal {
    Refusal([Diagnostic(.error, at: nil, message, hint: "see the `user` directive")])
  }
}

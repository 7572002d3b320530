import CSeccomp
import Glibc

/// The process's filter of system calls, by libseccomp. It can't be taken back, and every thread has it.
public enum SystemCallFilter {
  public enum Outcome: Sendable, Hashable {
    case installed
    /// A call failed: a kernel without seccomp, or a container that doesn't let it.
    case failed(call: String, code: Int32)
  }

  /// Whom the filter is for.
  public enum Process: Sendable, Hashable {
    /// The one that serves.
    case serving
    /// The one that opens files and binds ports for it, and answers on this descriptor alone.
    case opening(channel: Int32)
  }

  /// Installs the filter. A call that isn't allowed fails with EPERM; those of `AllowedCalls.deadly` end the process.
  ///
  /// Afterwards no process can be started, no program executed and no user changed.
  public static func install(for process: Process = .serving) -> Outcome {
    guard let filter = seccomp_init(cseccomp_errno(UInt16(EPERM))) else {
      return .failed(call: "seccomp_init", code: ENOMEM)
    }
    defer { seccomp_release(filter) }
    let failed = cseccomp_set_attributes(filter)
    guard failed == 0 else { return .failed(call: "seccomp_attr_set", code: -failed) }
    for rule in rules(for: process) {
      let call = seccomp_syscall_resolve_name(rule.name)
      guard call != cseccomp_missing_call() else { continue }
      let failed =
        if let check = rule.check {
          cseccomp_rule_where(filter, rule.action, call, check.argument, check.mask, check.value)
        } else {
          cseccomp_rule(filter, rule.action, call)
        }
      // A negative number stands for a call that this machine has in another form, such as socketcall.
      if failed != 0 && call >= 0 { return .failed(call: "seccomp_rule_add(\(rule.name))", code: -failed) }
    }
    let refused = seccomp_load(filter)
    return refused == 0 ? .installed : .failed(call: "seccomp_load", code: -refused)
  }

  // MARK: Rules

  private struct Rule {
    var name: String
    var action: UInt32 = cseccomp_allow()
    var check: Check?
  }

  /// The rule applies where the bits of `mask` in an argument have this value.
  private struct Check {
    var argument: UInt32
    var mask: UInt64 = 0xFFFF_FFFF
    var value: UInt64
  }

  private static func rules(for process: Process) -> [Rule] {
    let deadly = AllowedCalls.deadly.map { Rule(name: $0, action: cseccomp_kill()) }
    switch process {
    case .serving:
      return AllowedCalls.all.map { Rule(name: $0) } + deadly + threads + socketFamilies + own + terminals + settings
    case .opening(let channel):
      return AllowedCalls.ofOpener.map { Rule(name: $0) } + deadly
        + [AF_INET, AF_INET6].map { Rule(name: "socket", check: Check(argument: 0, value: UInt64($0))) }
        + ["sendmsg", "sendto", "recvmsg", "recvfrom"].map {
          Rule(name: $0, check: Check(argument: 0, value: UInt64(UInt32(bitPattern: channel))))
        }
    }
  }

  /// A thread, but no process and no namespace. glibc makes threads by clone where clone3 is missing, and a filter can't
  /// see what clone3 is asked for.
  private static var threads: [Rule] {
    let thread: UInt64 = 0x0001_0000, namespaces: UInt64 = 0x7E02_0080
    return [
      Rule(name: "clone", check: Check(argument: 0, mask: thread | namespaces, value: thread)),
      Rule(name: "clone3", action: cseccomp_errno(UInt16(ENOSYS))),
    ]
  }

  private static var socketFamilies: [Rule] {
    [AF_UNIX, AF_INET, AF_INET6].map { Rule(name: "socket", check: Check(argument: 0, value: UInt64($0))) }
  }

  /// Signals to this process only, as abort(3) and pthread_kill(3) send them.
  private static var own: [Rule] {
    let process = UInt64(getpid())
    return ["kill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo"].map {
      Rule(name: $0, check: Check(argument: 0, value: process))
    } + [
      // A limit is read, and not set: the pointer to the new one is nil.
      Rule(name: "prlimit64", check: Check(argument: 2, mask: .max, value: 0))
    ]
  }

  private static var terminals: [Rule] {
    // FIONBIO, FIONREAD, TCGETS, TIOCGWINSZ, TIOCOUTQ, SIOCGIFCONF, SIOCGIFINDEX, SIOCGIFNAME
    [0x5421, 0x541B, 0x5401, 0x5413, 0x5411, 0x8912, 0x8933, 0x8910].map {
      Rule(name: "ioctl", check: Check(argument: 1, value: $0))
    }
  }

  private static var settings: [Rule] {
    // PR_SET_NAME, PR_GET_NAME, PR_GET_DUMPABLE, PR_GET_NO_NEW_PRIVS, PR_GET_SECCOMP, PR_CAPBSET_READ, PR_SET_TIMERSLACK,
    // PR_SET_VMA
    [15, 16, 3, 39, 21, 23, 29, 0x5356_4D41].map {
      Rule(name: "prctl", check: Check(argument: 0, value: $0))
    }
  }
}

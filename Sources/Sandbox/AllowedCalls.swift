/// The system calls that the process makes while it serves, by their names. libseccomp leaves out a name that the
/// machine doesn't have.
///
/// They come from traces of the end-to-end tests, and from reading what glibc, libdispatch, OpenSSL, c-ares, nghttp2,
/// zlib, PCRE2 and libsystemd call. Calls that depend on an argument are in `SystemCallFilter`.
enum AllowedCalls {
  static let all = memory + threads + signals + time + events + bytes + sockets + files + changes + process

  private static let memory = [
    "brk", "madvise", "mincore", "mlock", "mlock2", "mmap", "mmap2", "mprotect", "mremap", "msync", "munlock", "munmap",
    "membarrier", "get_mempolicy",
  ]
  private static let threads = [
    "arch_prctl", "exit", "exit_group", "futex", "futex_time64", "futex_waitv", "get_robust_list", "getcpu", "gettid",
    "rseq", "sched_get_priority_max", "sched_get_priority_min", "sched_getaffinity", "sched_getattr", "sched_getparam",
    "sched_getscheduler", "sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler", "sched_yield",
    "set_robust_list", "set_tid_address", "getpriority", "setpriority", "restart_syscall", "set_thread_area",
  ]
  private static let signals = [
    "rt_sigaction", "rt_sigpending", "rt_sigprocmask", "rt_sigreturn", "rt_sigsuspend", "rt_sigtimedwait",
    "rt_sigtimedwait_time64", "sigaltstack", "signalfd", "signalfd4", "sigreturn", "pause", "alarm",
  ]
  private static let time = [
    "clock_getres", "clock_getres_time64", "clock_gettime", "clock_gettime64", "clock_nanosleep",
    "clock_nanosleep_time64", "gettimeofday", "nanosleep", "time", "timer_create", "timer_delete", "timer_getoverrun",
    "timer_gettime", "timer_settime", "timerfd_create", "timerfd_gettime", "timerfd_settime", "timerfd_settime64",
    "times",
  ]
  private static let events = [
    "epoll_create", "epoll_create1", "epoll_ctl", "epoll_pwait", "epoll_pwait2", "epoll_wait", "eventfd", "eventfd2",
    "inotify_add_watch", "inotify_init", "inotify_init1", "inotify_rm_watch", "pipe", "pipe2", "poll", "ppoll",
    "ppoll_time64", "select", "_newselect", "pselect6", "pselect6_time64",
  ]
  private static let bytes = [
    "close", "close_range", "copy_file_range", "dup", "dup2", "dup3", "fcntl", "fcntl64", "lseek", "_llseek", "pread64",
    "preadv", "preadv2", "pwrite64", "pwritev", "pwritev2", "read", "readv", "sendfile", "sendfile64", "splice", "tee",
    "vmsplice", "write", "writev",
  ]
  private static let sockets = [
    "accept", "accept4", "bind", "connect", "getpeername", "getsockname", "getsockopt", "listen", "recv", "recvfrom",
    "recvmmsg", "recvmmsg_time64", "recvmsg", "send", "sendmmsg", "sendmsg", "sendto", "setsockopt", "shutdown",
    "socketpair",
  ]
  /// Landlock says which files.
  private static let files = [
    "access", "faccessat", "faccessat2", "fadvise64", "fadvise64_64", "flock", "fstat", "fstat64", "fstatat64",
    "fstatfs", "fstatfs64", "getcwd", "getdents", "getdents64", "lstat", "lstat64", "newfstatat", "open", "openat",
    "openat2", "readahead", "readlink", "readlinkat", "stat", "stat64", "statfs", "statfs64", "statx",
  ]
  private static let changes = [
    "chmod", "fallocate", "fchmod", "fchmodat", "fchmodat2", "fchown", "fdatasync", "fsync", "ftruncate",
    "ftruncate64", "link", "linkat", "mkdir", "mkdirat", "rename", "renameat", "renameat2", "rmdir", "sync_file_range",
    "symlink", "symlinkat", "umask", "unlink", "unlinkat", "utimensat", "utimensat_time64",
  ]
  private static let process = [
    "capget", "getegid", "geteuid", "getgid", "getgroups", "getpgid", "getpgrp", "getpid", "getppid", "getrandom",
    "getresgid", "getresuid", "getrlimit", "getrusage", "getsid", "getuid", "sysinfo", "ugetrlimit", "uname",
    "wait4", "waitid",
  ]

  /// Those of the process that opens files for the one that serves: it reads the configuration, opens files, binds ports.
  /// It neither connects nor accepts, changes nothing of a file, and starts nothing.
  static let ofOpener =
    memory + [
      "bind", "clock_gettime", "clock_gettime64", "close", "exit", "exit_group", "fcntl", "fcntl64", "fstat", "fstat64",
      "fstatat64", "futex", "futex_time64", "getcwd", "getdents", "getdents64", "getpid", "getrandom", "getsockopt",
      "gettid", "lgetxattr", "listen", "lseek", "_llseek", "lstat", "lstat64", "memfd_create", "newfstatat", "open",
      "openat", "poll", "ppoll", "pread64", "read", "readlink", "readlinkat", "restart_syscall", "rt_sigaction",
      "rt_sigprocmask", "rt_sigreturn", "sched_yield", "setsockopt", "sigaltstack", "stat", "stat64", "statx", "uname",
      "write", "writev",
    ]

  /// Calls that no fault of a library makes: they attack the kernel or another process. The kernel ends the process.
  static let deadly = [
    "ptrace", "process_vm_readv", "process_vm_writev", "kexec_load", "kexec_file_load", "init_module", "finit_module",
    "delete_module", "mount", "umount", "umount2", "pivot_root", "move_mount", "open_tree", "fsmount", "fsopen",
    "fsconfig", "swapon", "swapoff", "reboot", "bpf", "userfaultfd", "perf_event_open", "open_by_handle_at",
    "name_to_handle_at", "keyctl", "add_key", "request_key", "io_uring_setup", "io_uring_enter", "io_uring_register",
    "setns", "unshare", "chroot", "iopl", "ioperm", "modify_ldt", "acct", "quotactl", "settimeofday", "clock_settime",
    "clock_adjtime", "adjtimex", "sethostname", "setdomainname", "syslog", "pidfd_getfd",
  ]
}
